"""This module limits the time that rendering one text can take.

Some texts make a parser or a lexer take seconds, and a conversation can contain such a text on purpose. A thread would
not help: a regular expression holds Python's interpreter lock until it has finished. So a timer of the system
interrupts the rendering, and the caller shows the text without styles. What is limited is the processor time of the
thread, so a busy machine does not change what is shown. The timer itself counts real time: the system's timers of
processor time count in ticks and came up to twice too late. Signals are handled only in the main thread, which is the
one that paints.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

LIMIT_SECONDS = 0.2
"""Limits the rendering of one text in a process that does nothing else."""

PAINT_LIMIT_SECONDS = 0.02
"""Limits the rendering of one text in the thread that paints."""

NEXT_LIMIT_SECONDS = 0.002
"""Limits the other items of a screen after one item was too slow, because the screen waits for all of them."""

SCREEN_SECONDS = 0.25
SCREEN_PROCESSOR_SECONDS = 0.03
"""Items that are rendered within this time, or this processor time, are taken for items of the same screen. On a busy
machine the time alone would be over before all of them are rendered."""

_REPEAT_SECONDS = 0.004
"""Interrupts again after this time. The thread may not have used its processor time yet, and Python ignores an
exception that is raised in a destructor. The result of such a rendering is not used, however soon it ends."""

T = TypeVar("T")


class _TimeLimitReached(BaseException):
    """Ends a rendering that takes too long. It is not an Exception, so that no parser catches it."""


class _Timer:
    """Raises `_TimeLimitReached` in the main thread, for as long as it is active."""

    is_active = False
    may_take_long = True
    has_raised = False
    _end = 0.0

    def start(self, seconds: float) -> None:
        self.is_active, self.has_raised = True, False
        self._end = time.thread_time() + seconds
        signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_SECONDS)

    def stop(self) -> None:
        self.is_active = False  # first, because a signal may be waiting to be handled
        signal.setitimer(signal.ITIMER_REAL, 0)

    def handle_signal(self, _: int, frame: FrameType | None) -> None:
        """End the rendering, but not in the middle of an import: the module would stay half loaded."""
        if self.is_active and time.thread_time() >= self._end and not _is_importing(frame):
            self.has_raised = True
            raise _TimeLimitReached


_timer = _Timer()


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _ignore_time_limit(unraisable: sys.UnraisableHookArgs) -> None:
    """Print nothing on the screen when a destructor was interrupted. The timer interrupts again."""
    if not isinstance(unraisable.exc_value, _TimeLimitReached):
        sys.__unraisablehook__(unraisable)


def run_with_time_limit(render: Callable[[], T], fallback: Callable[[], T], seconds: float = PAINT_LIMIT_SECONDS) -> T:
    """Return what `render` returns, or what `fallback` returns if `render` takes too long.

    Inside another call, the limit of the outer call applies.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return render()
    if _timer.is_active:
        return render()
    previous_handler = signal.signal(signal.SIGALRM, _timer.handle_signal)
    previous_hook, sys.unraisablehook = sys.unraisablehook, _ignore_time_limit
    try:
        _timer.start(seconds)
        try:
            result = render()
        finally:
            _timer.stop()
        if not _timer.has_raised:
            return result
    except _TimeLimitReached:
        _timer.stop()
    finally:
        signal.signal(signal.SIGALRM, previous_handler)
        sys.unraisablehook = previous_hook
    return fallback()


class PaintTimeLimit:
    """Limits the time that the thread that paints spends on the items of one screen."""

    def __init__(self) -> None:
        self._exceeded_at = self._exceeded_at_processor_time = float("-inf")

    def run(self, render: Callable[[], T]) -> T | None:
        """Return what `render` returns, or None if it takes too long or has to load a module."""
        start = time.thread_time()
        is_next = (
            time.monotonic() - self._exceeded_at < SCREEN_SECONDS
            or start - self._exceeded_at_processor_time < SCREEN_PROCESSOR_SECONDS
        )
        seconds = NEXT_LIMIT_SECONDS if is_next else PAINT_LIMIT_SECONDS
        _timer.may_take_long = False
        try:
            result = run_with_time_limit(render, lambda: None, seconds)
        finally:
            _timer.may_take_long = True
        end = time.thread_time()
        if end - start >= seconds:
            self._exceeded_at, self._exceeded_at_processor_time = time.monotonic(), end
        return result


def leave_to_other_process() -> None:
    """End the rendering of an item in the thread that paints, before something that may take longer than a screen may
    wait and cannot be interrupted: loading a module, or splitting a large text. The other process then renders it."""
    if _timer.is_active and not _timer.may_take_long:
        _timer.has_raised = True
        raise _TimeLimitReached
