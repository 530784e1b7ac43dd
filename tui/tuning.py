"""Settings of the browser's Python process that make it answer keys sooner: one object, one place.

Each was measured. The garbage collector may stop a key for longer than its answer takes, a thread may keep the one that
paints waiting for five milliseconds, and Textual waits a sixtieth of a second before it paints. The C library keeps
large blocks of memory that were freed: with a large record open, the process would be 40 MB larger.
"""

from __future__ import annotations

import gc
import os
import sys

COMMAND_GC_THRESHOLD = 100_000
"""A command ends before it leaves much garbage, and its memory goes with the process."""

BROWSER_GC_THRESHOLDS = (5_000, 4, 1_000_000)
"""Old objects are practically never collected by themselves. With a diff of a megabyte open, that takes 140 ms. A
collection of younger ones looks at the product of the first two numbers; 100,000 objects took up to 57 ms."""

FULL_COLLECTION_THRESHOLD = 80
"""The number of collections of younger objects after which old ones are worth a collection."""

SWITCH_INTERVAL_SECONDS = 0.000_1
"""Textual writes to the terminal in a thread. It must take over twice before it writes, and whatever the thread that
paints does next would delay each of them by this long. With Python's 5 ms, the first rows waited 10 ms."""

FRAMES_PER_SECOND = "120"
_FRAMES_VARIABLE = "TEXTUAL_FPS"

LARGE_BLOCK_BYTES = 128 * 1024
"""A freed block of memory of this size or more is returned to the system at once."""

_M_MMAP_THRESHOLD = -3
"""Is the number of this setting in the C library's `malloc.h`."""


def tune_command() -> None:
    """Collect garbage rarely while a command runs."""
    gc.set_threshold(COMMAND_GC_THRESHOLD)


def end_command() -> None:
    """Skip the collection at exit: the process ends anyway."""
    gc.freeze()


class ProcessTuning:
    """Tunes the process, if it belongs to the browser. In tests the process belongs to pytest, and nothing is done."""

    def __init__(self) -> None:
        self.is_active = False

    @staticmethod
    def prepare_start() -> None:
        """Collect nothing until the first screen is shown, and let Textual paint more often.

        Textual reads the frame rate from the environment when it is imported. The variable is removed again, since a
        resumed agent inherits the environment.
        """
        gc.disable()
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        _import_asyncio_without_tls()
        from importlib import import_module

        if _FRAMES_VARIABLE not in os.environ:
            os.environ[_FRAMES_VARIABLE] = FRAMES_PER_SECOND
            import_module("textual.constants")
            del os.environ[_FRAMES_VARIABLE]

    def finish_start(self) -> None:
        """Collect garbage from now on, if `prepare_start` was called."""
        if gc.isenabled():
            return
        self.is_active = True
        gc.set_threshold(*BROWSER_GC_THRESHOLDS)
        self.keep_current_objects()
        gc.enable()
        _return_large_blocks()

    def keep_current_objects(self) -> None:
        """Exempt the objects that exist now from collection, because they stay until the end."""
        if self.is_active:
            gc.freeze()

    def pause_collection(self) -> None:
        """Collect nothing while a person types."""
        if self.is_active:
            gc.disable()

    def resume_collection(self) -> None:
        gc.enable()

    def collect_old_objects(self) -> None:
        """Collect old objects, too, if there may be many. Call this while no key is pressed."""
        if self.is_active and gc.get_count()[2] > FULL_COLLECTION_THRESHOLD:
            gc.collect()


def _return_large_blocks() -> None:
    """Let the C library return large blocks to the system when they are freed, if it is glibc.

    It starts so, but raises the size from which blocks are returned whenever it returns one. A list that was read once,
    or a record that was parsed, would leave holes between small blocks, one set of them for each thread.
    """
    import ctypes
    from contextlib import suppress

    with suppress(AttributeError):  # another C library has no such setting
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def _import_asyncio_without_tls() -> None:
    """Import `asyncio` as if Python had no TLS. Loading OpenSSL takes 4 ms, and the browser makes no connections.

    A module that needs `ssl` can import it later.
    """
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # the documented way to make an import fail
    try:
        import asyncio  # noqa: F401
    finally:
        del sys.modules["ssl"]
