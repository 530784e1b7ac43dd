"""Settings of the Python process that make an import faster.

Rows are created and freed by the thousand while sessions are read, and none of them form reference cycles. Python's
garbage collector would look through them every 700 objects, which takes a tenth of an import.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

GC_THRESHOLD = 100_000
"""New objects between two collections while sessions are imported."""

WORKER_NICENESS = 5
"""The worker yields the processor to the browser, which answers keys."""


@contextmanager
def collect_garbage_rarely() -> Iterator[None]:
    """Raise the collector's threshold during an import, and restore it afterwards."""
    usual = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def tune_worker() -> None:
    """Lower the priority of the worker process. The processes that it starts inherit it."""
    with suppress(OSError):
        os.nice(WORKER_NICENESS)


def tune_reader_process() -> None:
    """Switch the collector off in a process that only reads, sends and exits."""
    gc.disable()
