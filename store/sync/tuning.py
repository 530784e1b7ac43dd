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

IMPORT_NICENESS = 10
"""The worker and its readers yield even more once the sessions are listed, since the rest is not urgent. The system
lowers the priority of reading and writing files with it."""


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


def lower_import_priority() -> None:
    """Lower the priority of this process further, if it is the worker or was started by it.

    A process in the batch class does not interrupt another one when it has received something.
    """
    with suppress(OSError):
        if os.getpriority(os.PRIO_PROCESS, 0) >= WORKER_NICENESS:
            os.setpriority(os.PRIO_PROCESS, 0, max(IMPORT_NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
            if hasattr(os, "sched_setscheduler"):
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def tune_reader_process() -> None:
    """Switch the collector off in a process that only reads, sends and exits."""
    gc.disable()
