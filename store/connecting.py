"""Opening the file: the one connect() that sets the pragmas, what a file must be to be ours, migrations, backups."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from store.coding import now
from store.errors import Busy, Refused, StoreError, TooNew, Unreadable, WriteFailed
from store.paths import private_folder

SCHEMA_VERSION = 4
"""How many migrations schema.py has; spelled here so that a warm start need not import sqlite-utils."""

APPLICATION_ID = 0x42534352
"""Marks the file as ours, so that another program's database is refused and never migrated."""

BACKUPS_KEPT = 3

_PRAGMAS = (
    "pragma foreign_keys = on",
    "pragma recursive_triggers = on",
    "pragma trusted_schema = off",
    "pragma secure_delete = on",
    "pragma cell_size_check = on",
)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors in our words, in one place."""
    try:
        yield
    except sqlite3.Error as error:
        raise _in_our_words(error, path) from error


def _in_our_words(error: sqlite3.Error, path: Path) -> StoreError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Busy(f"Another program is writing to {path}; try again in a moment.")
    if name.startswith("SQLITE_FULL"):
        return WriteFailed(f"The disk that holds {path} is full; nothing was written.")
    if name.startswith("SQLITE_IOERR"):
        return WriteFailed(f"The disk refused to read or write {path}; nothing was written.")
    if name.startswith("SQLITE_READONLY"):
        return WriteFailed(f"{path} cannot be written; check its permissions and its folder's.")
    if name.startswith("SQLITE_CANTOPEN"):
        return Unreadable(f"{path} cannot be opened; check its permissions and its folder's.")
    if name.startswith("SQLITE_NOTADB"):
        return Unreadable(f"{path} is not a SQLite database.")
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


def prepare(path: Path, connection: sqlite3.Connection) -> None:
    """Make a new file ours, bring an old one up to date, refuse any other."""
    version = _version_of(path, connection)
    if version < SCHEMA_VERSION:
        if version:
            _refuse_damaged(path, connection)
            backup(path, connection)
        _use_wal(connection)
        _migrate(path, connection)
    elif connection.execute("pragma journal_mode").fetchone()[0] != "wal":
        _use_wal(connection)


def _version_of(path: Path, connection: sqlite3.Connection) -> int:
    (application,) = connection.execute("pragma application_id").fetchone()
    (version,) = connection.execute("pragma user_version").fetchone()
    if application != APPLICATION_ID:
        (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
        if tables or application:
            raise Unreadable(f"{path} is another program's database; name a store of Backscroll's own.")
        return 0
    if version > SCHEMA_VERSION:
        raise TooNew(f"{path} was written by a newer version of Backscroll; update the program to open it.")
    return int(version)


def _refuse_damaged(path: Path, connection: sqlite3.Connection) -> None:
    found = connection.execute("pragma quick_check(1)").fetchone()[0]
    if found != "ok":
        raise Unreadable(f"{path} is damaged and was not migrated: {found}.")


def _use_wal(connection: sqlite3.Connection) -> None:
    connection.execute("pragma journal_mode = wal")


def _migrate(path: Path, connection: sqlite3.Connection) -> None:
    from sqlite_utils import Database

    from store.schema import migrations

    connection.execute("pragma synchronous = full")
    connection.execute("begin immediate")
    try:
        # Somebody else may have migrated it while this process waited for the lock.
        if _version_of(path, connection) < SCHEMA_VERSION:
            migrations.apply(Database(connection))
            connection.execute(f"pragma application_id = {APPLICATION_ID:d}")
            connection.execute(f"pragma user_version = {SCHEMA_VERSION:d}")
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def create_private(path: Path) -> bool:
    """Before SQLite sees it, so that file and WAL are 0600 whatever the umask. True when it is new."""
    try:
        private_folder(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if path.is_dir():
            raise Unreadable(f"{path} is a folder, not a store.") from None
        return False
    except OSError as reason:
        raise Unreadable(f"{path} cannot be made: {reason.strerror}.") from None
    return True


def backup(path: Path, connection: sqlite3.Connection) -> Path:
    """A whole copy, 0600, beside the store in a folder of its own; the oldest beyond three go."""
    folder = private_folder(path.parent / f"{path.name}.backups")
    target = folder / f"{now().replace(':', '')}.db"
    create_private(target)
    copy = sqlite3.connect(target)
    try:
        connection.backup(copy)
        found = copy.execute("pragma quick_check(1)").fetchone()[0]
    finally:
        copy.close()
    if found != "ok":
        target.unlink()
        raise WriteFailed(f"The backup of {path} did not come out whole; nothing was changed.")
    for old in backups(path)[BACKUPS_KEPT:]:
        with suppress(OSError):
            old.unlink()
    return target


def backups(path: Path) -> list[Path]:
    """Newest first."""
    return sorted((path.parent / f"{path.name}.backups").glob("*.db"), reverse=True)
