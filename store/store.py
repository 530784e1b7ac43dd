"""The store itself: one file, a connection per thread, and the shelves on which everything stands."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from store.agent_api.methods import AgentMethods
from store.database import connection as connecting
from store.errors import StoreError
from store.paths import resolve_store_path

if TYPE_CHECKING:
    import os

    from sqlite_utils import Database

    from store.conversations.entries import Chains
    from store.conversations.record_blocks import BlocksSavepoint, PendingBlocks
    from store.conversations.records import Records
    from store.conversations.sessions import Sessions
    from store.edits.facts import Facts
    from store.edits.journal import Journal
    from store.edits.meta import Meta
    from store.edits.notes import Notes
    from store.edits.published import PublishedFiles
    from store.edits.summaries import Summaries
    from store.search.hits import Search
    from store.secrets.secrets import Secrets
    from store.write_back.service import WriteBack


# Savepoints of one name nest: a release or rollback means the innermost.
_OUTER_STATEMENTS = ("begin immediate", "commit", ("rollback",))
_NESTED_STATEMENTS = ("savepoint nested", "release nested", ("rollback to nested", "release nested"))


CLOSE_TIMEOUT_SECONDS = 5.0

FREE_PAGES_DIVISOR = 100
"""Up to the hundredth part of a file may stand empty: what is written next will need it."""


class _ThreadConnection:
    """A thread's connection, and the lock that says it is in use: closing one under a thread that reads is a crash."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.lock = threading.RLock()
        self.has_written = False
        self.pending_statements: list[tuple[str, tuple[Any, ...]]] = []
        self.pending_blocks: PendingBlocks | None = None

    def discard_pending(self, waiting: int, laid: BlocksSavepoint | None) -> None:
        """What a transaction would have written as it ended, beyond what an outer one will."""
        del self.pending_statements[waiting:]
        if self.pending_blocks:
            self.pending_blocks.rollback(laid)

    def close(self) -> None:
        if not self.lock.acquire(blocking=False):
            self.connection.interrupt()
            # A thread that never lets go keeps its connection; the system takes it when the program ends.
            if not self.lock.acquire(timeout=CLOSE_TIMEOUT_SECONDS):
                return
        try:
            with suppress(sqlite3.Error):
                # Ends an interrupt that came too late: it would stop the WAL from being emptied into the file.
                self.connection.execute("select 1")
            self.connection.close()
        finally:
            self.lock.release()


class Store(AgentMethods):
    """`Store.open()` for the person's own, `Store.open(path)` for another, `Store.memory()` for one without a trace."""

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout_ms: int = 5_000,
        ephemeral: bool = False,
        notify: Callable[[str], object] = str,
    ) -> None:
        self.path = path
        self._busy_timeout_ms = busy_timeout_ms
        self._ephemeral = ephemeral
        self.priority_ids: set[str] = set()
        "The native ids of sessions that somebody waits for while a sync reads them all."
        self._local = threading.local()
        self._connections: dict[threading.Thread, _ThreadConnection] = {}
        self._close_lock = threading.Lock()
        self._closed = False
        try:
            connecting.create_private_file(path)
            with connecting.translate_errors(path):
                connecting.prepare_database(path, self.connection, lambda: self._rebuild_index(notify))
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        busy_timeout_ms: int = 5_000,
        notify: Callable[[str], object] = str,
    ) -> Self:
        """What takes long is told before it is begun, to whoever wants to pass it on."""
        return cls(resolve_store_path(path).absolute(), busy_timeout_ms=busy_timeout_ms, notify=notify)

    def _rebuild_index(self, tell: Callable[[str], object]) -> None:
        tell("The store is of an older version: its search index is made anew, a minute's work for a gigabyte.")
        self.search.reindex()

    @classmethod
    def memory(cls) -> Self:
        """The same store, gone at close. A private file: `:memory:` would be an empty database in every thread."""
        import tempfile

        return cls(Path(tempfile.mkdtemp(prefix="backscroll-")) / "store.db", ephemeral=True)

    def close(self) -> None:
        """Also while other threads read: each is stopped in what it asks, and its connection closed when it lets go."""
        with self._close_lock:
            self._closed = True
            held, self._connections = self._connections, {}
        for one in held.values():
            one.close()
        if self._ephemeral:
            import shutil

            shutil.rmtree(self.path.parent, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ── connections ───────────────────────────────────────────────────────────────────────────────

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's own."""
        return self._thread_connection().connection

    def _thread_connection(self) -> _ThreadConnection:
        mine: _ThreadConnection | None = getattr(self._local, "held", None)
        if mine is None:
            with connecting.translate_errors(self.path):
                mine = _ThreadConnection(connecting.connect(self.path, busy_timeout_ms=self._busy_timeout_ms))
            with self._close_lock:
                for thread in [thread for thread in self._connections if not thread.is_alive()]:
                    self._connections.pop(thread).close()
                if not self._closed:
                    self._connections[threading.current_thread()] = self._local.held = mine
            if self._closed:
                mine.close()
                raise StoreError(f"The store {self.path} is closed.")
        return mine

    @property
    def db(self) -> Database:
        """The same connection through sqlite-utils, which is imported when the first edit asks for it."""
        database: Database | None = getattr(self._local, "db", None)
        if database is None:
            from sqlite_utils import Database

            database = self._local.db = Database(self.connection)
        return database

    @property
    def pending_statements(self) -> list[tuple[str, tuple[Any, ...]]]:
        """What this thread's open transaction writes as it ends: statements and their values."""
        return self._thread_connection().pending_statements

    @property
    def pending_blocks(self) -> PendingBlocks:
        """The records that it puts into blocks then."""
        mine = self._thread_connection()
        if mine.pending_blocks is None:
            # Not for a list, which is all that the browser begins with.
            from store.conversations.record_blocks import PendingBlocks

            mine.pending_blocks = PendingBlocks()
        return mine.pending_blocks

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """All or nothing, also inside another one. Not durable: an import that can be run again."""
        mine = self._thread_connection()
        connection = mine.connection
        nested = connection.in_transaction
        begin, commit, rollback = _NESTED_STATEMENTS if nested else _OUTER_STATEMENTS
        waiting, laid = len(mine.pending_statements), mine.pending_blocks.savepoint() if mine.pending_blocks else None
        with connecting.translate_errors(self.path), mine.lock:
            if nested:
                connection.execute(begin)
            else:
                if not mine.has_written:
                    mine.has_written = True
                    connection.execute(connecting.WRITER_CACHE_PRAGMA)
                connection.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
                connecting.execute_with_retry(connection, begin)
            try:
                yield connection
                if not nested:
                    self._write_pending(mine)
                connection.execute(commit)
            except BaseException:
                mine.discard_pending(waiting, laid)
                # A full disk ends the transaction by itself, savepoints and all.
                if connection.in_transaction:
                    for statement in rollback:
                        connection.execute(statement)
                raise

    @contextmanager
    def temp_store_in_memory(self) -> Iterator[None]:
        """For many small transactions within large ones. To undo one of them SQLite copies every page it changes, and
        what goes beyond a few kilobytes into a file: an import of 200 MB wrote five times as much there."""
        self.row("pragma temp_store = memory")
        try:
            yield
        finally:
            with suppress(StoreError):  # it was closed meanwhile
                self.row("pragma temp_store = default")

    def _write_pending(self, mine: _ThreadConnection) -> None:
        if mine.pending_blocks:
            self.records.write_pending()
        if mine.pending_statements:
            self.search.flush()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Several reads of one moment, whatever others write meanwhile. Not for writing."""
        mine = self._thread_connection()
        connection = mine.connection
        if connection.in_transaction:
            yield
            return
        with connecting.translate_errors(self.path), mine.lock:
            connection.execute("begin")
            try:
                yield
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")

    def rows(self, sql: str, *values: Any) -> list[Any]:
        mine = self._thread_connection()
        with connecting.translate_errors(self.path), mine.lock:
            return mine.connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: Any) -> Any:
        mine = self._thread_connection()
        with connecting.translate_errors(self.path), mine.lock:
            return mine.connection.execute(sql, values).fetchone()

    def checkpoint(self) -> bool:
        """Empty the WAL into the file, so that what was deleted stands in neither. False while somebody reads it."""
        with connecting.translate_errors(self.path):
            (busy, *_) = self.connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        return not busy

    def release_free_pages(self) -> None:
        """To the disk, the room that nothing stands in any more, if it is much: an index in the making needs some that
        the finished one does not."""
        pages, unused = self.row("select page_count, freelist_count from pragma_page_count, pragma_freelist_count")
        if unused * FREE_PAGES_DIVISOR > pages:
            with connecting.translate_errors(self.path):
                # As a script, since the driver ends any other statement without columns after its first step, a page.
                self.connection.executescript("pragma incremental_vacuum")

    def vacuum(self) -> bool:
        """The whole file anew, of what lives. Zeroed pages are not enough: SQLite leaves copies of rows it moved."""
        with connecting.translate_errors(self.path):
            self.connection.execute("vacuum")
        return self.checkpoint()

    # ── shelves ───────────────────────────────────────────────────────────────────────────────────
    # Made when first asked for: a warm start that only lists sessions imports nothing else.

    @cached_property
    def sessions(self) -> Sessions:
        from store.conversations.sessions import Sessions

        return Sessions(self)

    @cached_property
    def chains(self) -> Chains:
        from store.conversations.entries import Chains

        return Chains(self)

    @cached_property
    def records(self) -> Records:
        from store.conversations.records import Records

        return Records(self)

    @cached_property
    def journal(self) -> Journal:
        from store.edits.journal import Journal

        return Journal(self)

    @cached_property
    def summaries(self) -> Summaries:
        from store.edits.summaries import Summaries

        return Summaries(self)

    @cached_property
    def facts(self) -> Facts:
        from store.edits.facts import Facts

        return Facts(self)

    @cached_property
    def meta(self) -> Meta:
        from store.edits.meta import Meta

        return Meta(self)

    @cached_property
    def notes(self) -> Notes:
        from store.edits.notes import Notes

        return Notes(self)

    @cached_property
    def published(self) -> PublishedFiles:
        from store.edits.published import PublishedFiles

        return PublishedFiles(self)

    @cached_property
    def secrets(self) -> Secrets:
        from store.secrets.secrets import Secrets

        return Secrets(self)

    @cached_property
    def search(self) -> Search:
        from store.search.hits import Search

        return Search(self)

    @cached_property
    def write_back(self) -> WriteBack:
        from store.write_back.service import WriteBack

        return WriteBack(self)
