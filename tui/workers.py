"""Work that is done elsewhere, or later."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from textual import work
from textual.timer import Timer
from textual.worker import Worker

Params = ParamSpec("Params")
Result = TypeVar("Result")

TYPING_PAUSE_SECONDS = 0.2
"""Seconds without a key before all that was found is gathered and weighed."""


def threaded(
    *, group: str, exclusive: bool = False
) -> Callable[[Callable[Params, Result]], Callable[Params, Worker[Result]]]:
    """In a thread, of which nothing is written down. Textual would describe a worker by all its arguments, spelled out:
    a record of many megabytes would be spelled while the screen waits, and a passphrase kept with it."""
    return work(thread=True, group=group, exclusive=exclusive, description=group)


def wait_for_typing_pause(is_stale: Callable[[], bool]) -> bool:
    """Whether nothing more is typed for a while."""
    end = time.monotonic() + TYPING_PAUSE_SECONDS
    while time.monotonic() < end and not is_stale():
        time.sleep(TYPING_PAUSE_SECONDS / 20)
    return not is_stale()


def reliable_timer(timer: Timer) -> Timer:
    """Rings, however late. Textual skips what is late, which for a timer that rings but once is for good; and where a
    machine is busy, one may be late before it has begun."""
    timer._skip = False
    return timer
