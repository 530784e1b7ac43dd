"""Work that can wait stands still while somebody is answered: of what Python does, each thread would have half.

A thread that asks the system for one small thing after the other is worse than that. It lets go of the interpreter
each time, and has it back before whoever waits for it has woken up. So it rests now and then, where somebody may be.

All of it is one promise for the whole process, as there is one interpreter in it.
"""

from __future__ import annotations

import time

AT_A_STRETCH = 0.001
REST = 0.0001
LOOK = 0.02
"""All in seconds: between two rests, for one of them, and between two looks at whether the time is over."""

_until: float | None = None
_rested = 0.0


def ask_for(seconds: float) -> None:
    """The time from now on in which whoever can wait should; none at all tells that somebody is there."""
    global _until
    _until = time.monotonic() + seconds


def give_way() -> None:
    """Call it between two small steps of what can wait, while nothing is locked."""
    global _rested
    if _until is None:
        return
    now = time.monotonic()
    if now - _rested > AT_A_STRETCH or now < _until:
        time.sleep(REST)
        while time.monotonic() < _until:
            time.sleep(LOOK)
        _rested = time.monotonic()
