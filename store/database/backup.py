"""This module makes, lists and deletes the backups of a store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from store.database.connection import connect, create_private_file
from store.errors import Unreadable, WriteFailed
from store.paths import make_private_folder
from store.text.json import utc_timestamp

MAX_BACKUPS = 3
PARTIAL_SUFFIX = ".part"


def back_up_before_migration(path: Path, connection: sqlite3.Connection) -> None:
    """Check the store for damage and back it up, while `connection` holds the lock of the migration.

    Because of that lock, several processes that open an old store at the same time make one backup together.
    """
    (result,) = connection.execute("pragma quick_check(1)").fetchone()
    if result != "ok":
        raise Unreadable(f"{path} is damaged and was not migrated ({' '.join(result.split())}). Restore a backup.")
    for partial in backup_folder(path).glob(f"*{PARTIAL_SUFFIX}"):
        partial.unlink(missing_ok=True)
    # SQLite cannot copy a database through a connection that is writing.
    with closing(connect(path)) as reader:
        create_backup(path, reader)


def create_backup(path: Path, connection: sqlite3.Connection) -> Path:
    """Copy the store into its backup folder, readable only by its owner, and delete all but the newest backups."""
    target = backup_folder(path) / f"{utc_timestamp().replace(':', '')}.db"
    copy_database(path, connection, target)
    delete_backups(list_backups(path)[MAX_BACKUPS:])
    return target


def copy_database(path: Path, connection: sqlite3.Connection, target: Path) -> None:
    """Copy the database at `path` to `target` through an open connection, and check the copy."""
    with atomic_backup_file(path, target) as partial:
        with closing(sqlite3.connect(partial)) as copy:
            connection.backup(copy)
            (result,) = copy.execute("pragma quick_check(1)").fetchone()
        if result != "ok":
            raise WriteFailed(f"The backup of {path} is damaged, so nothing was changed. Check the disk and try again.")


@contextmanager
def atomic_backup_file(path: Path | str, target: Path) -> Iterator[Path]:
    """Give a partial file to write a backup of `path` into, and rename it to `target` when it is complete.

    An incomplete backup therefore never has the name of a backup.
    """
    partial = target.with_suffix(PARTIAL_SUFFIX)
    try:
        make_private_folder(target.parent)
        create_private_file(partial)
        yield partial
        partial.rename(target)
    except OSError as error:
        raise WriteFailed(
            f"No backup of {path} could be made ({error.strerror}), so nothing was changed. Check {target.parent}."
        ) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def delete_backups(backups: Iterable[Path]) -> None:
    for backup in backups:
        with suppress(OSError):
            backup.unlink()


def list_backups(path: Path) -> list[Path]:
    """Return the backups of the store, newest first."""
    return sorted(backup_folder(path).glob("*.db"), reverse=True)


def backup_folder(path: Path) -> Path:
    return path.with_name(f"{path.name}.backups")
