"""How often an import commits: so that nobody waits for it, and it does not wait for the disk."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from store.store import Store

COMMIT_SECONDS = 0.2


class CommitTimer:
    """Commits about every 200 ms, so that edits never wait for a sync; the first at once, so that rows show."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._transaction: ExitStack | None = None
        self._interval = self._begun_at = 0.0

    def begin(self) -> None:
        if self._transaction is None:
            self._transaction = ExitStack()
            self._transaction.enter_context(self._store.transaction(durable=False))
            self._begun_at = time.monotonic()

    def commit_if_due(self) -> bool:
        """True when it was time, and nothing is held now."""
        if self._transaction is None or time.monotonic() - self._begun_at < self._interval:
            return False
        self._interval = COMMIT_SECONDS
        self.__exit__(None, None, None)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held, self._transaction = self._transaction, None
        if held is not None:
            held.__exit__(kind, error, trace)
