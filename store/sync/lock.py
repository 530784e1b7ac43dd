"""What a sync has to itself while it runs."""

from __future__ import annotations

import fcntl
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from store.errors import Busy

if TYPE_CHECKING:
    from store.store import Store

GC_THRESHOLD = 100_000
"""New objects; Python's own 700 take a tenth of an import."""


@contextmanager
def sync_lock(store: Store) -> Iterator[None]:
    """One sync at a time, also across processes; released by the system when the process dies."""
    handle = os.open(f"{store.path}.sync", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy("Another sync of this store is under way; try again when it is done.") from None
        yield
    finally:
        os.close(handle)


@contextmanager
def infrequent_gc() -> Iterator[None]:
    """Rows come and go by the thousand, and none of them in circles that the collector would have to find."""
    usual = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
