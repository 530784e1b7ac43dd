"""This module defines the store: one SQLite file, a connection per thread, and the collections of its contents."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from store.agent_api.methods import AgentMethods
from store.database.connection import (
    WRITER_CACHE_PRAGMA,
    connect,
    create_private_file,
    execute_with_retry,
    prepare_database,
    translate_errors,
)
from store.errors import Refused, StoreError
from store.paths import resolve_store_path, unfinished_folder

if TYPE_CHECKING:
    import os

    from sqlite_utils import Database

    from store.agent_api.aio import AsyncStore
    from store.conversations.entries import Chains
    from store.conversations.record_blocks import BlocksSavepoint, PendingBlocks
    from store.conversations.records import Records
    from store.conversations.sessions import Sessions
    from store.edits.facts import Facts
    from store.edits.journal import Journal
    from store.edits.meta import Meta
    from store.edits.notes import Notes
    from store.edits.proposals import Proposals
    from store.edits.published import PublishedFiles
    from store.edits.summaries import Summaries
    from store.leaks.leaks import Leaks
    from store.memory.memory_files import MemoryFiles
    from store.memory.shared_facts import SharedFacts
    from store.search.hits import Search
    from store.search.saved_searches import SavedSearches
    from store.secrets.secrets import Secrets
    from store.team.team import Team
    from store.usage.statistics import UsageStatistics
    from store.write_back.service import WriteBack


# Savepoints of the same name nest: a release or a rollback applies to the innermost one.
_OUTER_STATEMENTS = ("begin immediate", "commit", ("rollback",))
_NESTED_STATEMENTS = ("savepoint nested", "release nested", ("rollback to nested", "release nested"))


CLOSE_TIMEOUT_SECONDS = 5.0

FREE_PAGES_DIVISOR = 100
"""Allows one page in a hundred to stay free, because the next writes will use it."""

RELEASED_PAGES = 500
"""Counts the pages that are given back in one transaction, so that others need not wait long to write."""


class _ThreadConnection:
    """Holds the connection of one thread, and the lock that protects it.

    Closing a connection while its thread reads from it would crash the process.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.lock = threading.RLock()
        self.has_written = False
        self.pending_statements: list[tuple[str, tuple[Any, ...]]] = []
        self.pending_blocks: PendingBlocks | None = None

    def discard_pending(self, statement_count: int, blocks: BlocksSavepoint | None) -> None:
        """Discard the pending writes of a failed transaction, and keep those of the transaction around it."""
        del self.pending_statements[statement_count:]
        if self.pending_blocks:
            self.pending_blocks.rollback(blocks)

    def close(self) -> None:
        if not self.lock.acquire(blocking=False):
            self.connection.interrupt()
            # A thread that never releases the lock keeps its connection until the program ends.
            if not self.lock.acquire(timeout=CLOSE_TIMEOUT_SECONDS):
                return
        try:
            with suppress(sqlite3.Error):
                # This consumes an interrupt that came too late. It would otherwise stop the final checkpoint of the
                # WAL.
                self.connection.execute("select 1")
            self.connection.close()
        finally:
            self.lock.release()


class Store(AgentMethods):
    """Gives access to one store file.

    `Store.open()` opens the default store, `Store.open(path)` another one, and `Store.memory()` a temporary one.
    """

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
        self.refusal = ""
        "Says why nothing is written to the store. Is empty if it can be written to."
        self._local = threading.local()
        self._connections: dict[threading.Thread, _ThreadConnection] = {}
        self._close_lock = threading.Lock()
        self._closed = False
        try:
            create_private_file(path)
            with translate_errors(path):
                prepare_database(path, self.connection, lambda: self._rebuild_index(notify), notify)
            self.settle_write_backs()
        except BaseException:
            self.close()
            raise

    def settle_write_backs(self) -> None:
        """Finish or forget write-backs that a kill interrupted. Usually there are none."""
        if unfinished_folder(self.path).is_dir():
            self.write_back.settle()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        busy_timeout_ms: int = 5_000,
        notify: Callable[[str], object] = str,
    ) -> Self:
        """Open the store at this path, or the default store.

        `notify` is called with a sentence before anything slow.
        """
        return cls(resolve_store_path(path).absolute(), busy_timeout_ms=busy_timeout_ms, notify=notify)

    def _rebuild_index(self, notify: Callable[[str], object]) -> None:
        notify("Rebuilding the search index of an older store: about a minute per gigabyte.")
        self.search.reindex(notify)

    @classmethod
    def memory(cls) -> Self:
        """Open a temporary store that is deleted when it is closed.

        It is a private file, because `:memory:` would be a separate, empty database in every thread.
        """
        import tempfile

        return cls(Path(tempfile.mkdtemp(prefix="backscroll-")) / "store.db", ephemeral=True)

    def close(self) -> None:
        """Close all connections. Threads that are still reading are interrupted first."""
        with self._close_lock:
            self._closed = True
            connections, self._connections = self._connections, {}
        for thread_connection in connections.values():
            thread_connection.close()
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
        """Return the connection of the current thread."""
        return self._thread_connection().connection

    def _thread_connection(self) -> _ThreadConnection:
        current: _ThreadConnection | None = getattr(self._local, "thread_connection", None)
        if current is None:
            with translate_errors(self.path):
                current = _ThreadConnection(connect(self.path, busy_timeout_ms=self._busy_timeout_ms))
            with self._close_lock:
                for thread in [thread for thread in self._connections if not thread.is_alive()]:
                    self._connections.pop(thread).close()
                if not self._closed:
                    self._connections[threading.current_thread()] = self._local.thread_connection = current
            if self._closed:
                current.close()
                raise StoreError(f"The store {self.path} is closed.")
        return current

    @property
    def db(self) -> Database:
        """Return the same connection wrapped by sqlite-utils, which is imported at the first edit."""
        database: Database | None = getattr(self._local, "db", None)
        if database is None:
            from sqlite_utils import Database

            database = self._local.db = Database(self.connection)
        return database

    @property
    def pending_statements(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the statements, with their values, that this thread's transaction executes before it commits."""
        return self._thread_connection().pending_statements

    @property
    def pending_blocks(self) -> PendingBlocks:
        """Return the records that this thread's transaction puts into blocks before it commits."""
        current = self._thread_connection()
        if current.pending_blocks is None:
            # Imported here, because the first screen of the browser only lists sessions.
            from store.conversations.record_blocks import PendingBlocks

            current.pending_blocks = PendingBlocks()
        return current.pending_blocks

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Run the `with` block in a transaction, or in a savepoint if one is already open.

        `durable=False` does not wait for the disk. It suits imports, which can be repeated.
        """
        if self.refusal:
            raise Refused(self.refusal)
        current = self._thread_connection()
        connection = current.connection
        nested = connection.in_transaction
        begin, commit, rollback = _NESTED_STATEMENTS if nested else _OUTER_STATEMENTS
        statement_count = len(current.pending_statements)
        blocks = current.pending_blocks.savepoint() if current.pending_blocks else None
        with translate_errors(self.path), current.lock:
            if nested:
                connection.execute(begin)
            else:
                if not current.has_written:
                    current.has_written = True
                    connection.execute(WRITER_CACHE_PRAGMA)
                connection.execute(f"pragma synchronous = {'full' if durable else 'normal'}")
                execute_with_retry(connection, begin)
            try:
                yield connection
                if not nested:
                    self._write_pending(current)
                connection.execute(commit)
            except BaseException:
                current.discard_pending(statement_count, blocks)
                # When the disk is full, SQLite has already ended the transaction with all its savepoints.
                if connection.in_transaction:
                    for statement in rollback:
                        connection.execute(statement)
                raise

    @contextmanager
    def temp_store_in_memory(self) -> Iterator[None]:
        """Keep SQLite's temporary data in memory, for many savepoints within a large transaction.

        SQLite copies every page that a savepoint changes, and writes more than a few kilobytes of that to a temporary
        file: an import of 200 MB wrote a gigabyte there.
        """
        self.row("pragma temp_store = memory")
        try:
            yield
        finally:
            with suppress(StoreError):  # the store may be closed by now
                self.row("pragma temp_store = default")

    def _write_pending(self, current: _ThreadConnection) -> None:
        if current.pending_blocks:
            self.records.write_pending()
        if current.pending_statements:
            self.search.flush()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all reads in the `with` block see the same state of the store.

        Do not write in it: it ends with a rollback.
        """
        current = self._thread_connection()
        connection = current.connection
        if connection.in_transaction:
            yield
            return
        with translate_errors(self.path), current.lock:
            connection.execute("begin")
            try:
                yield
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")

    def rows(self, sql: str, *values: Any) -> list[Any]:
        current = self._thread_connection()
        with translate_errors(self.path), current.lock:
            return current.connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: Any) -> Any:
        current = self._thread_connection()
        with translate_errors(self.path), current.lock:
            return current.connection.execute(sql, values).fetchone()

    def checkpoint(self) -> bool:
        """Copy the WAL into the file and empty it, so that deleted rows are in neither.

        Return False if another reader prevents it.
        """
        with translate_errors(self.path):
            (busy, *_) = self.connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        return not busy

    def release_free_pages(self) -> None:
        """Give free pages back to the disk if there are many of them, as there are after an index was built."""
        pages, unused = self._count_pages()
        while unused * FREE_PAGES_DIVISOR > pages:
            with translate_errors(self.path):
                # This is a script, because the driver stops other statements without columns after one step, which is a
                # page.
                self.connection.executescript(f"pragma incremental_vacuum({RELEASED_PAGES:d})")
            before, (pages, unused) = unused, self._count_pages()
            if unused >= before:
                return

    def _count_pages(self) -> tuple[int, int]:
        """Return how many pages the file has, and how many of them are unused."""
        pages, unused = self.row("select page_count, freelist_count from pragma_page_count, pragma_freelist_count")
        return pages, unused

    def vacuum(self) -> bool:
        """Rewrite the file without deleted data, and return what `checkpoint` returns.

        Overwriting free pages with zeros is not enough, because SQLite leaves copies of rows that it moved.
        """
        with translate_errors(self.path):
            self.connection.execute("vacuum")
        return self.checkpoint()

    # ── collections ───────────────────────────────────────────────────────────────────────────────
    # They are imported when they are first used: a start that only lists sessions imports nothing else.

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
    def leaks(self) -> Leaks:
        from store.leaks.leaks import Leaks

        return Leaks(self)

    @cached_property
    def memory_files(self) -> MemoryFiles:
        from store.memory.memory_files import MemoryFiles

        return MemoryFiles(self)

    @cached_property
    def proposals(self) -> Proposals:
        from store.edits.proposals import Proposals

        return Proposals(self)

    @cached_property
    def shared_facts(self) -> SharedFacts:
        from store.memory.shared_facts import SharedFacts

        return SharedFacts(self)

    @cached_property
    def saved_searches(self) -> SavedSearches:
        from store.search.saved_searches import SavedSearches

        return SavedSearches(self)

    @cached_property
    def usage(self) -> UsageStatistics:
        from store.usage.statistics import UsageStatistics

        return UsageStatistics(self)

    @cached_property
    def search(self) -> Search:
        from store.search.hits import Search

        return Search(self)

    @cached_property
    def aio(self) -> AsyncStore:
        """Return the methods for agents to be awaited. They run in threads, so they do not stop the event loop."""
        from store.agent_api.aio import AsyncStore

        return AsyncStore(self)

    @cached_property
    def team(self) -> Team:
        from store.team.team import Team

        return Team(self)

    @cached_property
    def write_back(self) -> WriteBack:
        from store.write_back.service import WriteBack

        return WriteBack(self)
