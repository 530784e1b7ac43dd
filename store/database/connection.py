"""This module opens the SQLite file of a store: it sets the pragmas, refuses other files, and migrates old stores."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from store.database.progress import Notify
from store.errors import BadValue, Busy, Damaged, Refused, StoreError, TooNew, Unreadable, WriteFailed
from store.paths import make_private_folder, refuse_planted

SCHEMA_VERSION = 28
"""Equals the number of migrations. It is repeated here because an ordinary start does not need to load them."""

LAST_REINDEXING_MIGRATION = 11
"""Is the number of the last migration that leaves the search index empty."""

LAST_REWRITING_MIGRATION = 17
"""Is the number of the last migration that changes or deletes what a store contains. Later ones only add columns,
tables and indexes, in the same transaction as everything else, so that nothing can be lost and no backup is needed."""

APPLICATION_ID = 0x42534352
"""Marks the file as ours, so that another program's database is refused and never migrated."""

PAGE_BYTES = 16 * 1024
"""Is the page size of a new store, four times SQLite's default: imports are a tenth faster, and long texts need fewer
pages."""

_PRAGMAS = (
    "pragma foreign_keys = on",
    "pragma recursive_triggers = on",
    "pragma trusted_schema = off",
    "pragma secure_delete = on",
    "pragma cell_size_check = on",
    "pragma wal_autocheckpoint = 2000",
)


WRITER_CACHE_PRAGMA = "pragma cache_size = -8000"
"""Raises the cache from SQLite's 2 MB: an import fills pages of many trees, and would write most of them repeatedly."""


_SCHEMA_DAMAGE = ("no such column", "no such table", "error in tokenizer", "vtable constructor failed")
"""Begins the errors of statements that work on every store with the right schema."""


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate the errors of SQLite, and of Python's driver for it, into the errors of the store."""
    try:
        yield
    except sqlite3.Error as error:
        raise _convert_error(error, path) from error
    except OverflowError:
        raise BadValue("A number is too large for SQLite.") from None
    except UnicodeDecodeError as error:  # a name in the schema, or the message of an error
        raise _not_utf8(path) from error
    except UnicodeEncodeError:
        raise BadValue("The text contains half a character (a lone surrogate), which SQLite cannot store.") from None


def _convert_error(error: sqlite3.Error, path: Path) -> StoreError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Busy(f"Another program is writing to {path}. Try again in a moment.")
    if name.startswith("SQLITE_FULL"):
        return WriteFailed(f"The disk with {path} is full, so nothing was written. Free some space and try again.")
    if name.startswith("SQLITE_IOERR"):
        return WriteFailed(f"{path} could not be read or written, so nothing was changed. Check the disk.")
    if name.startswith("SQLITE_READONLY"):
        return WriteFailed(f"{path} cannot be written. Check the permissions of the file and its folder.")
    if name.startswith("SQLITE_CANTOPEN"):
        return Unreadable(f"{path} cannot be opened. Check the permissions of the file and its folder.")
    if name.startswith("SQLITE_NOTADB"):
        return Unreadable(f"{path} is not a SQLite database. Choose a Backscroll store.")
    if name.startswith("SQLITE_CORRUPT"):
        return Damaged(f"{path} is damaged.")
    if "Could not decode to UTF-8" in str(error):  # Python's driver raises this error, so it has no name
        return _not_utf8(path)
    if name == "SQLITE_ERROR" and str(error).startswith(_SCHEMA_DAMAGE):
        return Damaged(f"{path} is damaged: {error}.")
    if name.startswith("SQLITE_TOOBIG"):
        return Refused("The value is too large for SQLite.")
    if isinstance(error, sqlite3.IntegrityError):
        return Refused(f"The store refused the change: {error}.")
    return StoreError(f"SQLite failed: {error}.")


def _not_utf8(path: Path) -> Damaged:
    return Damaged(f"{path} is damaged: a text in it is not UTF-8.")


def connect(path: Path, *, busy_timeout_ms: int = 5_000) -> sqlite3.Connection:
    """Open a connection with the pragmas that every part of the program needs.

    The driver never begins a transaction by itself: `isolation_level` is None.
    """
    connection = sqlite3.connect(path, timeout=busy_timeout_ms / 1000, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"pragma busy_timeout = {busy_timeout_ms:d}")
        for pragma in _PRAGMAS:
            connection.execute(pragma)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def execute_with_retry(connection: sqlite3.Connection, statement: str) -> None:
    """Execute the statement as soon as the lock that it needs is free, and wait no longer than busy_timeout.

    SQLite's own wait checks less and less often, in the end ten times a second, so that busier writers can keep it
    waiting for seconds. It does not wait at all before it changes the journal mode.
    """
    (timeout_ms,) = connection.execute("pragma busy_timeout").fetchone()
    deadline = time.monotonic() + timeout_ms / 1000
    connection.execute("pragma busy_timeout = 0")
    try:
        while not _try_execute(connection, statement, deadline):
            time.sleep(0.002)
    finally:
        connection.execute(f"pragma busy_timeout = {timeout_ms:d}")


def _try_execute(connection: sqlite3.Connection, statement: str, deadline: float) -> bool:
    try:
        connection.execute(statement)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
            raise
        return False
    return True


def prepare_database(
    path: Path,
    connection: sqlite3.Connection,
    reindex: Callable[[], object],
    notify: Notify = str,
) -> None:
    """Create the tables in a new file, migrate an old store, and refuse any other file.

    `notify` is called with sentences about a migration that takes long.
    """
    version = _read_schema_version(path, connection)
    _refuse_truncated(path, connection)
    if version < SCHEMA_VERSION:
        _migrate(path, connection, reindex, notify)
    if connection.execute("pragma journal_mode").fetchone()[0] != "wal":
        execute_with_retry(connection, "pragma journal_mode = wal")


def _refuse_truncated(path: Path, connection: sqlite3.Connection) -> None:
    """Raise an error when the last page of the file is incomplete, because SQLite silently reads zeros there."""
    (page,) = connection.execute("pragma page_size").fetchone()
    log = path.with_name(f"{path.name}-wal")
    # The pages in a write-ahead log may not have reached the file yet.
    if path.stat().st_size % page and not (log.exists() and log.stat().st_size):
        raise Unreadable(f"{path} is truncated. Restore a backup.")


def _read_schema_version(path: Path, connection: sqlite3.Connection) -> int:
    # This is one statement, because another process may create the store between two.
    application, version, tables = connection.execute(
        "select application_id, user_version, (select count(*) from sqlite_master)"
        " from pragma_application_id, pragma_user_version"
    ).fetchone()
    if application != APPLICATION_ID:
        if tables or application:
            raise Unreadable(f"{path} is another program's database. Choose a Backscroll store.")
        return 0
    if version > SCHEMA_VERSION:
        raise TooNew(f"{path} was written by a newer version of Backscroll. Update Backscroll to open it.")
    return int(version)


def _migrate(path: Path, connection: sqlite3.Connection, reindex: Callable[[], object], notify: Notify) -> None:
    from store.database.backup import back_up_before_migration
    from store.database.migrations import migrations

    if not path.stat().st_size:
        _begin_file(connection)
    else:
        connection.execute("pragma synchronous = full")
    execute_with_retry(connection, "begin immediate")
    try:
        # Another process may have migrated the store while this one waited for the lock.
        version = _read_schema_version(path, connection)
        if 0 < version < LAST_REWRITING_MIGRATION:
            back_up_before_migration(path, connection, notify)
        if version < SCHEMA_VERSION:
            migrations.apply(connection)
            if 0 < version < LAST_REINDEXING_MIGRATION:
                reindex()
            connection.execute(f"pragma application_id = {APPLICATION_ID:d}")
            connection.execute(f"pragma user_version = {SCHEMA_VERSION:d}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _begin_file(connection: sqlite3.Connection) -> None:
    """Write the first page of an empty file, with settings that cannot be changed later.

    The disk is waited for once, after the last of them. The tables follow in the write-ahead log, where an interrupted
    transaction leaves nothing, and reach the disk with the first commit that must be durable.
    """
    connection.execute("pragma synchronous = off")
    connection.execute(f"pragma page_size = {PAGE_BYTES:d}")
    connection.execute("pragma auto_vacuum = incremental")
    connection.execute("pragma synchronous = full")
    execute_with_retry(connection, "pragma journal_mode = wal")
    connection.execute("pragma synchronous = normal")


def create_private_file(path: Path) -> bool:
    """Create the file if it does not exist, and return whether it is new.

    It exists before SQLite opens it, so that the file and its log are 0600 with any umask.
    """
    try:
        make_private_folder(path.parent)
        refuse_planted(path)
        # A link of the person's own leads to a file that may not exist yet.
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if path.is_dir():
            raise Unreadable(f"{path} is a folder, not a store. Choose a file in it.") from None
        return False
    except OSError as error:
        raise Unreadable(f"{path} cannot be created: {error.strerror}. Choose another path.") from None
    return True
