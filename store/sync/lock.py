"""The lock that lets one sync at a time write into a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from store.database.file_lock import hold_file_lock

if TYPE_CHECKING:
    from store.store import Store


@contextmanager
def sync_lock(store: Store) -> Iterator[None]:
    """Hold the lock while a sync runs, across processes."""
    with hold_file_lock(f"{store.path}.sync", "Another sync of this store is running. Try again when it is done."):
        yield
