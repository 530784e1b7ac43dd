"""Reads that nobody waits for any more are stopped, however long they would have taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from store.errors import StoreError

if TYPE_CHECKING:
    from store.store import Store

STEPS_BETWEEN_CHECKS = 2_000
"""Of SQLite's machine, between two looks; too few to be felt, too many to cost anything."""


@contextmanager
def cancel_when(store: Store, stale: Callable[[], bool]) -> Iterator[None]:
    """What this thread reads within is broken off as soon as it is stale, and the rest of the block with it."""
    connection = store.connection
    connection.set_progress_handler(stale, STEPS_BETWEEN_CHECKS)
    try:
        yield
    except StoreError:
        if not stale():
            raise
    finally:
        connection.set_progress_handler(None, 0)
