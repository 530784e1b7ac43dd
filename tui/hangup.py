"""This module notices when the terminal is gone.

The system sends a signal (SIGHUP) only to the processes that the terminal controls, and a program that started the
browser can have blocked it. Textual would then read an empty input again and again, for ever.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread


def call_on_hangup(callback: Callable[[], object]) -> None:
    """Call the callback in a thread when the terminal of stdin is gone. Does nothing if stdin is not a terminal.

    A callback that raises RuntimeError says that the browser is about to end anyway.
    """
    if sys.__stdin__ is None or not sys.__stdin__.isatty():
        return
    poll = select.poll()
    poll.register(sys.__stdin__.fileno(), 0)  # no events, because a hangup is always reported

    def wait() -> None:
        # A system that cannot poll a terminal reports something else at once, and then nothing is known.
        if any(events & select.POLLHUP for _, events in poll.poll()):
            with suppress(RuntimeError):
                callback()

    Thread(target=wait, name="hangup", daemon=True).start()
