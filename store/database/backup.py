"""This module makes, lists and deletes the backups of a store."""

from __future__ import annotations

import fcntl
import filecmp
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from math import ceil
from pathlib import Path

from store.database.connection import connect, create_private_file
from store.database.progress import Notify, ProgressNotifier
from store.errors import Unreadable, WriteFailed
from store.paths import make_private_folder, refuse_planted
from store.text.json import utc_timestamp

MAX_BACKUPS = 3
PARTIAL_SUFFIX = ".part"

PAGES_PER_STEP = 1024
"""Is copied at a time: at most 64 MB, so that the progress of a large backup can be said."""


def back_up_before_migration(path: Path, connection: sqlite3.Connection, notify: Notify = str) -> None:
    """Check the store for damage and back it up, while `connection` holds the lock of the migration.

    Because of that lock, several processes that open an old store at the same time make one backup together. `notify`
    gets sentences about the size and the progress of the backup.
    """
    (result,) = connection.execute("pragma quick_check(1)").fetchone()
    if result != "ok":
        raise Unreadable(f"{path} is damaged and was not migrated ({' '.join(result.split())}). Restore a backup.")
    refuse_planted(backup_folder(path))
    _delete_partial_backups(backup_folder(path))
    _refuse_without_space(path, connection)
    # SQLite cannot copy a database through a connection that is writing.
    with closing(connect(path)) as reader:
        create_backup(path, reader, notify)


def _delete_partial_backups(folder: Path) -> None:
    """Delete what a killed process left: the partial copy, and the journal that SQLite kept beside it.

    No backup leaves a link, so a link is left alone.
    """
    for partial in folder.glob(f"*{PARTIAL_SUFFIX}*"):
        with suppress(OSError):
            if not partial.is_symlink():
                partial.unlink()


def _refuse_without_space(path: Path, connection: sqlite3.Connection) -> None:
    needed, free = _database_bytes(connection), shutil.disk_usage(path.parent).free
    if free < needed:
        raise WriteFailed(
            f"{path} is from an older version and must be backed up before it is updated. The backup needs "
            f"{_format_size(needed)}, and {_format_size(free)} are free, so nothing was changed. Free some space."
        )


def _database_bytes(connection: sqlite3.Connection) -> int:
    (size,) = connection.execute("select page_count * page_size from pragma_page_count, pragma_page_size").fetchone()
    return int(size)


def _format_size(size: int) -> str:
    return f"{ceil(size / 10**6):,} MB"


def create_backup(path: Path, connection: sqlite3.Connection, notify: Notify = str) -> Path:
    """Copy the store into its backup folder, readable only by its owner, and delete all but the newest backups.

    An older backup with the same contents is deleted as well. So migrations that are killed again and again do not
    replace the backups of earlier versions.
    """
    target = backup_folder(path) / f"{backup_time()}.db"
    copy_database(path, connection, target, notify)
    others = [backup for backup in list_backups(path) if backup != target]
    same = [backup for backup in others[:1] if filecmp.cmp(backup, target, shallow=False)]
    delete_backups([*same, *others[MAX_BACKUPS - 1 + len(same) :]])
    return target


def copy_database(path: Path, connection: sqlite3.Connection, target: Path, notify: Notify = str) -> None:
    """Copy the database at `path` to `target` through an open connection, and check the copy."""
    with atomic_backup_file(path, target) as partial:
        notify(f"Backing up {path} to {target}: {_format_size(_database_bytes(connection))}.")
        progress = ProgressNotifier(notify)

        def report(_: int, remaining: int, total: int) -> None:
            progress.report(f"{100 - 100 * remaining // max(total, 1)} % are backed up.")

        with closing(sqlite3.connect(partial)) as copy:
            connection.backup(copy, pages=PAGES_PER_STEP, progress=report)
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
        for folder in (target.parent.parent, target.parent):
            refuse_planted(make_private_folder(folder))
        with _shared_folder(target.parent):
            if not create_private_file(partial):
                reason = f"because {partial} exists. Remove it and try again."
                raise WriteFailed(f"No backup of {path} could be made, {reason}")
            yield partial
            partial.rename(target)
    except OSError as error:
        raise WriteFailed(
            f"No backup of {path} could be made ({error.strerror}), so nothing was changed. Check {target.parent}."
        ) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


@contextmanager
def _shared_folder(folder: Path) -> Iterator[None]:
    """Share the lock of a backup folder with others that make a backup there.

    Who gets the lock alone at first deletes the partial backups of killed processes: no living one makes a backup.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _delete_partial_backups(folder)
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def delete_backups(backups: Iterable[Path]) -> None:
    for backup in backups:
        with suppress(OSError):
            backup.unlink()


def list_backups(path: Path) -> list[Path]:
    """Return the backups of the store, newest first."""
    return sort_newest_first(backup_folder(path).glob("*.db"))


def backup_time() -> str:
    """Return the current time, as the name of a backup begins."""
    return utc_timestamp().replace(":", "")


def sort_newest_first(backups: Iterable[Path]) -> list[Path]:
    """Sort backups by the times in their names.

    Those from the future come last: they were made before the clock was set back, and must not replace new ones.
    """
    now = backup_time()
    return sorted(backups, key=lambda backup: (backup.name[: len(now)] <= now, backup.name), reverse=True)


def backup_folder(path: Path) -> Path:
    return path.with_name(f"{path.name}.backups")
