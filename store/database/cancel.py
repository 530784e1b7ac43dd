"""This module cancels reads whose results are no longer needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from store.errors import StoreError

if TYPE_CHECKING:
    from store.store import Store

STEPS_BETWEEN_CHECKS = 2_000
"""Counts the steps of SQLite's virtual machine between two checks: a cancel is immediate, and checking costs little."""


@contextmanager
def cancel_when(store: Store, stale: Callable[[], bool]) -> Iterator[None]:
    """Cancel this thread's reads inside the `with` block, and the rest of the block, as soon as `stale()` is true."""
    connection = store.connection
    connection.set_progress_handler(stale, STEPS_BETWEEN_CHECKS)
    try:
        yield
    except StoreError:
        if not stale():
            raise
    finally:
        connection.set_progress_handler(None, 0)
