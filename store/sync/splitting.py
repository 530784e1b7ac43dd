"""Whether this process may become two: a fork has at once what a Python of its own would have to load first."""

from __future__ import annotations

import sys
import threading


def may_fork() -> bool:
    """Not where other threads are, whose locks it would take along, held for ever; and only on Linux, since elsewhere
    the system's own libraries may not bear it."""
    return sys.platform == "linux" and threading.active_count() == 1
