"""Decides how often an import commits: often enough for others to write, rarely enough not to wait for the disk."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from store.store import Store

COMMIT_SECONDS = 0.2


class CommitTimer:
    """Commits about every 200 ms, so that edits never wait long for a sync.

    The first commit comes immediately, so that rows are shown.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._transaction: ExitStack | None = None
        self._interval = self._started_at = 0.0

    def begin(self) -> None:
        if self._transaction is None:
            self._transaction = ExitStack()
            self._transaction.enter_context(self._store.transaction(durable=False))
            self._started_at = time.monotonic()

    def commit_if_due(self) -> bool:
        """Commit if enough time has passed, and return whether it did."""
        if self._transaction is None or time.monotonic() - self._started_at < self._interval:
            return False
        self._interval = COMMIT_SECONDS
        self.__exit__(None, None, None)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            transaction.__exit__(kind, error, trace)
