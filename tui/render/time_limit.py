"""This module limits the time that rendering one text can take.

Some texts make a parser or a lexer take seconds, and a conversation can contain such a text on purpose. A thread would
not help: a regular expression holds Python's interpreter lock until it has finished. So a timer of the system
interrupts the rendering, and the caller shows the text without styles. The timer counts processor time, so a busy
machine does not change what is shown. Signals are handled only in the main thread, which is the one that paints.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import TypeVar

LIMIT_SECONDS = 0.2

T = TypeVar("T")


class _TimeLimitReached(BaseException):
    """Ends a rendering that takes too long. It is not an Exception, so that no parser catches it."""


def run_with_time_limit(render: Callable[[], T], fallback: Callable[[], T]) -> T:
    """Return what `render` returns, or what `fallback` returns if `render` takes too long.

    Inside another call, the limit of the outer call applies.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return render()
    if signal.getitimer(signal.ITIMER_VIRTUAL)[0]:
        return render()
    before = signal.signal(signal.SIGVTALRM, _raise_time_limit_reached)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_SECONDS)
        try:
            return render()
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _TimeLimitReached:
        return fallback()
    finally:
        signal.signal(signal.SIGVTALRM, before)


def _raise_time_limit_reached(*_: object) -> None:
    raise _TimeLimitReached
