"""This module defines the base class of sources whose store is one SQLite file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from store.sources.contract import Source, SourceReader
from store.sources.kit.stamps import SQLITE_MAGIC, database_stamp

if TYPE_CHECKING:
    import sqlite3

Signature = Mapping[str, Iterable[str]]
"""Tables and the columns that each of them must have."""


class SqliteSource(Source):
    """Finds a database by its tables and reads a private snapshot of it. A subclass names the tables and the reader."""

    signatures: ClassVar[Sequence[Signature]]
    "The layouts by which the database is recognized; one is enough."

    def detect(self, locator: str) -> bool:
        from store.sources.kit import sqlite

        return any(sqlite.has_tables(locator, signature) for signature in self.signatures)

    def raise_if_damaged(self, locator: str) -> None:
        from store.sources.kit import sqlite

        sqlite.raise_if_unknowable(Path(locator))

    def knows(self, path: Path, beginning: bytes) -> bool:
        return beginning.startswith(SQLITE_MAGIC) and self.detect(str(path))

    def stamp(self, locator: str) -> str:
        return database_stamp(Path(locator))

    def open(self, locator: str) -> AbstractContextManager[SourceReader]:
        return self._open_snapshot(Path(locator))

    @contextmanager
    def _open_snapshot(self, path: Path) -> Iterator[SourceReader]:
        from store.sources.kit import sqlite

        with sqlite.snapshot(path) as connection:
            yield self.make_reader(connection, path)

    @abstractmethod
    def make_reader(self, connection: sqlite3.Connection, path: Path) -> SourceReader:
        """Return the reader of a snapshot of the database at this path."""
