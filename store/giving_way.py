"""Work that can wait stands still while somebody is answered: of what Python does, each thread would have half.

It is one promise for the whole process, as there is one interpreter in it.
"""

from __future__ import annotations

import time

LOOK_SECONDS = 0.02

_until = 0.0


def ask_for(seconds: float) -> None:
    """The time from now on in which whoever can wait should."""
    global _until
    _until = time.monotonic() + seconds


def give_way() -> None:
    """Call it between two steps of what can wait, while nothing is locked."""
    while time.monotonic() < _until:
        time.sleep(LOOK_SECONDS)
