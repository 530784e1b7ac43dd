"""The lock that lets one sync at a time write into a store."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from store.errors import Busy

if TYPE_CHECKING:
    from store.store import Store


@contextmanager
def sync_lock(store: Store) -> Iterator[None]:
    """Hold the lock while a sync runs, across processes. The system releases it when the process dies."""
    handle = os.open(f"{store.path}.sync", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy("Another sync of this store is running. Try again when it is done.") from None
        yield
    finally:
        os.close(handle)
