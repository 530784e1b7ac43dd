"""Opening the file: the one connect() that sets the pragmas, what a file must be to be ours, migrations, backups."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from store.errors import BadValue, Busy, Refused, StoreError, TooNew, Unreadable, WriteFailed
from store.paths import make_private_folder
from store.text.json import utc_timestamp

SCHEMA_VERSION = 13
"""How many migrations schema.py has; spelled here so that a warm start need not import sqlite-utils."""

LAST_REINDEXING_MIGRATION = 11
"""The last migration that leaves the search index empty."""

APPLICATION_ID = 0x42534352
"""Marks the file as ours, so that another program's database is refused and never migrated."""

PAGE_BYTES = 16 * 1024
"""Of a new store. Four times SQLite's: an import writes a tenth faster, and long texts lie in fewer pieces."""

MAX_BACKUPS = 3
PARTIAL_SUFFIX = ".part"

_PRAGMAS = (
    "pragma foreign_keys = on",
    "pragma recursive_triggers = on",
    "pragma trusted_schema = off",
    "pragma secure_delete = on",
    "pragma cell_size_check = on",
    "pragma wal_autocheckpoint = 2000",
)


WRITER_CACHE_PRAGMA = "pragma cache_size = -8000"
"""An import fills pages of many trees at once; with SQLite's 2 MB it would write most of them many times over."""


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """SQLite's errors in our words, in one place; and those of its driver, which cannot bind every value."""
    try:
        yield
    except sqlite3.Error as error:
        raise _convert_error(error, path) from error
    except OverflowError:
        raise BadValue("A number in it is larger than SQLite can hold.") from None
    except UnicodeEncodeError:
        raise BadValue("It holds half a character (a lone surrogate), which SQLite cannot hold.") from None


def _convert_error(error: sqlite3.Error, path: Path) -> StoreError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Busy(f"Another program is writing to {path}; try again in a moment.")
    if name.startswith("SQLITE_FULL"):
        return WriteFailed(f"The disk that holds {path} is full, so nothing was written; make room and try again.")
    if name.startswith("SQLITE_IOERR"):
        return WriteFailed(f"The disk would not read or write {path}, so nothing was written; check it and its room.")
    if name.startswith("SQLITE_READONLY"):
        return WriteFailed(f"{path} cannot be written; check its permissions and its folder's.")
    if name.startswith("SQLITE_CANTOPEN"):
        return Unreadable(f"{path} cannot be opened; check its permissions and its folder's.")
    if name.startswith("SQLITE_NOTADB"):
        return Unreadable(f"{path} is not a SQLite database; name a store of Backscroll's own.")
    if name.startswith("SQLITE_CORRUPT"):
        return Unreadable(f"{path} is damaged; run `backscroll doctor`, or put a backup in its place.")
    if name.startswith("SQLITE_TOOBIG"):
        return Refused("It is larger than SQLite can hold in one value.")
    if isinstance(error, sqlite3.IntegrityError):
        return Refused(f"The store refused it: {error}.")
    return StoreError(f"SQLite could not do it: {error}.")


def connect(path: Path, *, busy_timeout_ms: int = 5_000) -> sqlite3.Connection:
    """A connection as every part of the program must have it. Transactions are begun by hand, never by the driver."""
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
    """Execute it when the lock it needs is free, for as long as busy_timeout allows.

    SQLite's own wait looks ever less often, at last ten times a second, and so loses to busier writers for seconds on
    end; and to change the journal mode it does not wait at all.
    """
    (patience_ms,) = connection.execute("pragma busy_timeout").fetchone()
    deadline = time.monotonic() + patience_ms / 1000
    connection.execute("pragma busy_timeout = 0")
    try:
        while not _try_execute(connection, statement, deadline):
            time.sleep(0.002)
    finally:
        connection.execute(f"pragma busy_timeout = {patience_ms:d}")


def _try_execute(connection: sqlite3.Connection, statement: str, deadline: float) -> bool:
    try:
        connection.execute(statement)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
            raise
        return False
    return True


def prepare_database(path: Path, connection: sqlite3.Connection, reindex: Callable[[], object]) -> None:
    """Make a new file ours, bring an old one up to date, refuse any other."""
    version = _read_schema_version(path, connection)
    _refuse_truncated(path, connection)
    if version < SCHEMA_VERSION:
        _migrate(path, connection, reindex)
    if connection.execute("pragma journal_mode").fetchone()[0] != "wal":
        execute_with_retry(connection, "pragma journal_mode = wal")


def _refuse_truncated(path: Path, connection: sqlite3.Connection) -> None:
    """SQLite reads zeros where the last page ends early, and says nothing."""
    (page,) = connection.execute("pragma page_size").fetchone()
    log = path.with_name(f"{path.name}-wal")
    # What a full log holds need not have reached the file yet.
    if path.stat().st_size % page and not (log.exists() and log.stat().st_size):
        raise Unreadable(f"{path} is cut short; put a backup in its place.")


def _read_schema_version(path: Path, connection: sqlite3.Connection) -> int:
    # One statement, since another process may be making the store between two.
    application, version, tables = connection.execute(
        "select application_id, user_version, (select count(*) from sqlite_master)"
        " from pragma_application_id, pragma_user_version"
    ).fetchone()
    if application != APPLICATION_ID:
        if tables or application:
            raise Unreadable(f"{path} is another program's database; name a store of Backscroll's own.")
        return 0
    if version > SCHEMA_VERSION:
        raise TooNew(f"{path} was written by a newer version of Backscroll; update the program to open it.")
    return int(version)


def _migrate(path: Path, connection: sqlite3.Connection, reindex: Callable[[], object]) -> None:
    from sqlite_utils import Database

    from store.database.migrations import migrations

    connection.execute("pragma synchronous = full")
    # Only an empty file heeds these two.
    connection.execute(f"pragma page_size = {PAGE_BYTES:d}")
    connection.execute("pragma auto_vacuum = incremental")
    execute_with_retry(connection, "begin immediate")
    try:
        # Somebody else may have migrated it while this process waited for the lock.
        version = _read_schema_version(path, connection)
        if 0 < version < SCHEMA_VERSION:
            _back_up_before_migration(path, connection)
        if version < SCHEMA_VERSION:
            migrations.apply(Database(connection))
            if 0 < version < LAST_REINDEXING_MIGRATION:
                reindex()
            connection.execute(f"pragma application_id = {APPLICATION_ID:d}")
            connection.execute(f"pragma user_version = {SCHEMA_VERSION:d}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _back_up_before_migration(path: Path, connection: sqlite3.Connection) -> None:
    """Under the migration's lock, so that several processes at once make one backup and not one each."""
    (found,) = connection.execute("pragma quick_check(1)").fetchone()
    if found != "ok":
        raise Unreadable(
            f"{path} is damaged and was not migrated ({' '.join(found.split())}); put a backup in its place."
        )
    for abandoned in backup_folder(path).glob(f"*{PARTIAL_SUFFIX}"):
        abandoned.unlink(missing_ok=True)
    # SQLite does not copy through a connection that is writing.
    with closing(connect(path)) as reader:
        create_backup(path, reader)


def create_private_file(path: Path) -> bool:
    """Before SQLite sees it, so that file and WAL are 0600 whatever the umask. True when it is new."""
    try:
        make_private_folder(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if path.is_dir():
            raise Unreadable(f"{path} is a folder, not a store; name a file in it.") from None
        return False
    except OSError as reason:
        raise Unreadable(f"{path} cannot be made: {reason.strerror}; choose another place for it.") from None
    return True


def create_backup(path: Path, connection: sqlite3.Connection) -> Path:
    """A whole copy, 0600, beside the store in a folder of its own; the oldest beyond three go."""
    target = backup_folder(path) / f"{utc_timestamp().replace(':', '')}.db"
    copy_database(path, connection, target)
    delete_backups(list_backups(path)[MAX_BACKUPS:])
    return target


def copy_database(path: Path, connection: sqlite3.Connection, target: Path) -> None:
    """What a connection to `path` sees."""
    with atomic_backup_file(path, target) as unfinished:
        with closing(sqlite3.connect(unfinished)) as copy:
            connection.backup(copy)
            (found,) = copy.execute("pragma quick_check(1)").fetchone()
        if found != "ok":
            raise WriteFailed(f"The backup of {path} did not come out whole; nothing was changed.")


@contextmanager
def atomic_backup_file(path: Path | str, target: Path) -> Iterator[Path]:
    """A backup of `path` in the making, 0600; by its right name only once it is whole, since half must never pass."""
    unfinished = target.with_suffix(PARTIAL_SUFFIX)
    try:
        make_private_folder(target.parent)
        create_private_file(unfinished)
        yield unfinished
        unfinished.rename(target)
    except OSError as reason:
        raise WriteFailed(
            f"No backup of {path} could be made ({reason.strerror}), so nothing was changed; check {target.parent}."
        ) from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def delete_backups(old: Iterable[Path]) -> None:
    for one in old:
        with suppress(OSError):
            one.unlink()


def list_backups(path: Path) -> list[Path]:
    """Newest first."""
    return sorted(backup_folder(path).glob("*.db"), reverse=True)


def backup_folder(path: Path) -> Path:
    return path.with_name(f"{path.name}.backups")
