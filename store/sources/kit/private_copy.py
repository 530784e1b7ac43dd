"""This module copies foreign databases, so that they are read without disturbing their owners.

Reading the file itself would hold a lock, and an agent without a busy timeout would lose what it writes meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path

from store.errors import Busy, Unreadable
from store.sources.kit.stamps import database_stamp, error_text, open_regular_file, sidecar_path

MAX_DATABASE_BYTES = 64 * 1024 * 1024 * 1024
MAX_SHARE_OF_FREE_SPACE = 0.9
"""A copy that would fill the disk would disturb every other program."""

MAX_COPY_ATTEMPTS = 3
LOCK_TIMEOUT_SECONDS = 1.0
MIN_ABANDONED_SECONDS = 60.0
"""A folder is younger than this when its owner has not locked it yet."""

_FOLDER_PREFIX = "backscroll-"
_COPY_NAME = "copy.db"
_CHUNK_BYTES = 1024 * 1024
_BLOCK_BYTES = 512
_SIDECARS = ("-wal", "-journal")
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_MAX_NAME_BYTES = 4096


def is_sqlite(path: Path) -> bool:
    try:
        with open_regular_file(path) as file:
            return file.read(16) == b"SQLite format 3\0"
    except (OSError, ValueError):
        return False


@contextmanager
def private_copy(path: Path) -> Iterator[Path]:
    """Yield the path of a copy, which is deleted in the end."""
    if not is_sqlite(path):
        raise Unreadable(f"{path} is not a SQLite database.")
    raise_if_too_large(path)
    with _private_folder(path) as folder:
        copy = folder / _COPY_NAME
        try:
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            _copy_with_retries(path, copy)
        except OSError as reason:
            raise Unreadable(f"{path} cannot be read: {error_text(reason)}.") from None
        yield copy


# ── folders ───────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _private_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder, which is locked while it is used. The system unlocks it when the process is killed."""
    try:
        folder = tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}copy-")
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as reason:
        raise Unreadable(f"{path} cannot be copied to be read: {error_text(reason)}.") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


@cache
def sweep_abandoned_copies() -> None:
    """Delete the copies whose process was killed, once in the life of this process."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_FOLDER_PREFIX):
                with suppress(OSError):
                    _delete_if_abandoned(entry.path)


def _delete_if_abandoned(folder: str) -> None:
    """Delete a folder if it is ours, holds nothing but a copy, and no process has it locked."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        is_old = time.time() - status.st_mtime > MIN_ABANDONED_SECONDS
        if status.st_uid == os.getuid() and is_old and all(name.startswith(_COPY_NAME) for name in os.listdir(handle)):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
    finally:
        os.close(handle)


# ── copying ───────────────────────────────────────────────────────────────────────────────────────


def raise_if_too_large(path: Path) -> None:
    """Raise Unreadable for a database that is larger than the limit, or than there is room for. Holes need none."""
    files = [status for suffix in ("", *_SIDECARS) if (status := _status(sidecar_path(path, suffix)))]
    if sum(status.st_size for status in files) > MAX_DATABASE_BYTES:
        raise Unreadable(f"{path} is larger than {MAX_DATABASE_BYTES >> 30} GB, so it is not read.")
    _raise_if_no_room(path, sum(map(used_bytes, files)))


def used_bytes(status: os.stat_result) -> int:
    """Return how much space a file takes on the disk."""
    return min(status.st_size, status.st_blocks * _BLOCK_BYTES)


def _raise_if_no_room(path: Path, needed: int) -> None:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if needed > free * MAX_SHARE_OF_FREE_SPACE:
        raise Unreadable(
            f"{path} needs {_megabytes(needed)} in {folder} to be read, and {_megabytes(free)} are free there. "
            "Make room, or set TMPDIR to another folder."
        )


def _megabytes(size: int) -> str:
    return f"{size >> 20:,} MB"


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _copy_with_retries(path: Path, copy: Path) -> None:
    for attempt in range(MAX_COPY_ATTEMPTS):
        time.sleep(0.05 * attempt)
        if _try_copy_files(path, copy, journal_too=attempt == MAX_COPY_ATTEMPTS - 1) or _try_backup_live(path, copy):
            return
    raise Busy(f"{path} is being written to; it will be read later.")


def _try_copy_files(path: Path, copy: Path, *, journal_too: bool) -> bool:
    """Copy the files byte by byte without any SQLite lock, and return whether nothing changed meanwhile.

    The WAL is copied after the database, so that it still has every page that a checkpoint moved into the database. A
    journal means that a transaction is running. If it is still there at the last attempt, it was left by a crash or
    its owner is slow: a copy with the journal returns to the state before the transaction.
    """
    before = _all_stamps(path)
    if not journal_too and _size(sidecar_path(path, "-journal")):
        return False
    suffix = "-wal" if _is_wal(path) else "-journal"
    _copy_sparsely(path, copy)
    sidecar_path(copy, suffix).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        _copy_sparsely(sidecar_path(path, suffix), sidecar_path(copy, suffix))
        _drop_super_journal(sidecar_path(copy, "-journal"))
    return _all_stamps(path) == before


def read_super_journal(journal: Path) -> str:
    """Return the name of the file at the end of a journal; empty if there is none.

    A transaction over several databases has such a file. SQLite deletes it after a rollback, so a journal that was made
    with bad intentions can name any file.
    """
    with open_regular_file(journal) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 16))
        end = file.read(16)
        length = int.from_bytes(end[:4], "big")
        if size < 16 or end[8:] != _JOURNAL_MAGIC or length > size - 16:
            return ""
        file.seek(size - 16 - length)
        return os.fsdecode(file.read(min(length, _MAX_NAME_BYTES)))


def _drop_super_journal(journal: Path) -> None:
    """Make a journal one of a single database. If the file that it names is gone, its transaction was committed."""
    if not journal.exists() or not (name := read_super_journal(journal)):
        return
    if "\0" not in name and os.path.exists(name):
        os.truncate(journal, journal.stat().st_size - 1)
    else:
        journal.unlink()


def _copy_sparsely(path: Path, copy: Path) -> None:
    """Copy a regular file without its holes, which take no space on the disk."""
    with open_regular_file(path) as original, copy.open("wb") as target:
        size = os.fstat(original.fileno()).st_size
        for start, end in _find_data(original.fileno(), size):
            original.seek(start)
            target.seek(start)
            while start < end and (chunk := original.read(min(end - start, _CHUNK_BYTES))):
                target.write(chunk)
                start += len(chunk)
        target.truncate(size)


def _find_data(handle: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield where each piece between two holes begins and ends."""
    end = 0
    while end < size:
        try:
            start = os.lseek(handle, end, os.SEEK_DATA)
            end = os.lseek(handle, start, os.SEEK_HOLE)
        except OSError as reason:
            if reason.errno == errno.ENXIO:
                return  # only a hole follows
            start, end = end, size  # this file system does not know its holes
        yield start, end


def _try_backup_live(path: Path, copy: Path) -> bool:
    """Copy the database in one short read transaction, for which no writer waits in WAL mode.

    An owner that locks the database for itself alone is not waited for; `backup` would wait for ever.
    """

    def refuse_waiting(status: int, *_: int) -> None:
        if status != sqlite3.SQLITE_DONE:
            raise sqlite3.OperationalError("the database is locked")

    if not (_is_wal(path) and _size(sidecar_path(path, "-wal")) and _size(sidecar_path(path, "-shm"))):
        return False
    os.truncate(copy, 0)
    sidecar_path(copy, "-wal").unlink(missing_ok=True)
    _raise_if_no_room(path, _size(path) + _size(sidecar_path(path, "-wal")))
    try:
        with (
            closing(
                sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=LOCK_TIMEOUT_SECONDS)
            ) as live,
            closing(sqlite3.connect(copy)) as target,
        ):
            live.backup(target, progress=refuse_waiting)
    except sqlite3.Error:
        return False
    return True


def _is_wal(path: Path) -> bool:
    with open_regular_file(path) as file:
        return file.read(20)[18:20] == b"\x02\x02"


def _size(path: Path) -> int:
    status = _status(path)
    return status.st_size if status else 0


def _all_stamps(path: Path) -> tuple[str, str, bytes]:
    """Return the stamps of the files, and the header of the WAL, which differs each time the WAL is restarted."""
    wal = sidecar_path(path, "-wal")
    try:
        with open_regular_file(wal) as file:
            header = file.read(32)
    except FileNotFoundError:
        header = b""
    return database_stamp(path), database_stamp(sidecar_path(path, "-journal")), header
