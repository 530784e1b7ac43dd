"""How often an import commits: so that nobody waits for it, and it does not wait for the disk."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from store.store import Store

COMMIT_SECONDS = 0.2


class Pace:
    """Commits about every 200 ms, so that edits never wait for a sync; the first at once, so that rows show."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: ExitStack | None = None
        self._patience = self._begun = 0.0

    def begin(self) -> None:
        if self._open is None:
            self._open = ExitStack()
            self._open.enter_context(self._store.transaction(durable=False))
            self._begun = time.monotonic()

    def breathe(self) -> bool:
        """True when it was time, and nothing is held now."""
        if self._open is None or time.monotonic() - self._begun < self._patience:
            return False
        self._patience = COMMIT_SECONDS
        self.__exit__(None, None, None)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held, self._open = self._open, None
        if held is not None:
            held.__exit__(kind, error, trace)
