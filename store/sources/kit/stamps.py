"""This module computes stamps of files, folders and databases, and walks folders.

It imports little, because nothing else is loaded for a store that did not change.
"""

from __future__ import annotations

import os
import stat
import time
from array import array
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from store.sources.kit.problem import Problem

try:
    from _blake2 import blake2b  # `hashlib` has the same function, and takes 2 ms to load OpenSSL for others
except ImportError:
    from hashlib import blake2b

QUIET_SECONDS = 3600.0
"""After this time without a change, an unfinished answer is read as it is."""

MAX_FOLDER_DEPTH = 12
MAX_TREE_ENTRIES = 200_000
"""Limits the files and folders that are looked at in a folder which a person named: it may be a whole disk."""

_NO_LIMIT = 2**62
_CONVERSATION_SUFFIXES = (".jsonl", ".json", ".zst")
_NOT_REGULAR = "It is not a regular file, and is not read."

SKIPPED_FOLDERS = frozenset([".git", "node_modules"])
"""Folders with many files that are never conversations. In a folder that a person named they are not entered."""

_TOO_MANY_ENTRIES = (
    f"It has more than {MAX_TREE_ENTRIES:,} files; the others were not looked at. Name a folder inside it."
)
_NAME = attrgetter("name")
_UINT64_MASK = 2**64 - 1
"""Maps a time to an unsigned number; it may be before 1970."""

SQLITE_MAGIC = b"SQLite format 3\0"
"""Begins every SQLite database."""

PATH_ERRORS = (OSError, ValueError)
"""These are raised for a path that cannot be read; the second for a name that no file can have."""


def digest(*values: object) -> str:
    """Return a stamp of values."""
    hasher = blake2b(digest_size=12)
    for value in values:
        data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return hasher.hexdigest()


def to_one_line(reason: object) -> str:
    """Return an error message as one line. SQLite may quote damaged names, which can contain line breaks."""
    return " ".join(str(reason).split())


def error_text(reason: Exception) -> str:
    """Return the reason why a path cannot be read, as the system gives it."""
    return to_one_line(getattr(reason, "strerror", None) or reason)


# ── folders ───────────────────────────────────────────────────────────────────────────────────────


def walk_files(
    root: Path,
    problems: list[Problem],
    *,
    suffixes: Collection[str] = (".jsonl",),
    depth: int = MAX_FOLDER_DEPTH,
    is_bounded: bool = False,
) -> Iterator[Path]:
    """Yield the regular files below a folder, sorted. A folder is visited once, even if several links lead to it.

    A bounded walk is for a folder of any content. It has a limit and skips some folders. A link that leads out of the
    folder is not followed, but yielded like a file.
    """
    return (Path(entry.path) for entry in _walk_entries(str(root), problems, tuple(suffixes), depth, is_bounded))


def walk_with_stat(
    root: Path,
    problems: list[Problem],
    *,
    suffixes: Collection[str] = (".jsonl",),
    depth: int = MAX_FOLDER_DEPTH,
    is_bounded: bool = False,
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the paths that `walk_files` finds, each with its status; fast enough for ten thousand files a second."""
    for entry in _walk_entries(str(root), problems, tuple(suffixes), depth, is_bounded):
        try:
            status = entry.stat()
        except OSError:
            continue
        yield entry.path, status


def _walk_entries(
    root: str, problems: list[Problem], suffixes: tuple[str, ...], depth: int, is_bounded: bool
) -> Iterator[os.DirEntry[str]]:
    """Yield the files of a folder, then those of each folder in it. It is one loop, because it runs at every sync."""
    seen: set[tuple[int, int]] = set()
    remaining = MAX_TREE_ENTRIES if is_bounded else _NO_LIMIT
    skipped: Collection[str] = SKIPPED_FOLDERS if is_bounded else ()
    pending = [(root, depth, _identity(root))]
    while pending and remaining >= 0:
        folder, levels, identity = pending.pop()
        if identity in seen:
            continue
        seen.add(identity)
        try:
            with os.scandir(folder) as entries:
                ordered = sorted(islice(entries, remaining + 1), key=_NAME)
        except PATH_ERRORS as reason:
            problems.append(Problem(folder, f"The folder cannot be read: {error_text(reason)}."))
            continue
        remaining -= len(ordered)
        folders: list[tuple[str, int, tuple[int, int]]] = []
        for entry in ordered:
            try:
                if entry.name.endswith(suffixes) and (entry.is_file() or (is_bounded and _leads_out(entry, root))):
                    yield entry
                elif entry.is_dir() and entry.name not in skipped:
                    # Only a link needs a system call; the listing already has the inode of a folder.
                    is_real_folder = not entry.is_symlink()
                    if is_bounded and not is_real_folder:
                        continue  # the walk comes to its target anyway, or must not leave the folder
                    folder_identity = (identity[0], entry.inode()) if is_real_folder else _identity(entry.path)
                    folders.append((entry.path, levels - 1, folder_identity))
                elif entry.name.endswith(suffixes) and entry.name.endswith(_CONVERSATION_SUFFIXES) and entry.stat():
                    problems.append(Problem(entry.path, _NOT_REGULAR))
            except OSError:
                continue  # a broken link
        if levels:
            pending += reversed(folders)
    if remaining < 0:
        problems.append(Problem(root, _TOO_MANY_ENTRIES))


def _leads_out(entry: os.DirEntry[str], root: str) -> bool:
    """Return whether this is a link to a folder that is not in the given one."""
    if not (entry.is_symlink() and entry.is_dir()):
        return False
    target, top = Path(os.path.realpath(entry.path)), Path(os.path.realpath(root))
    return not target.is_relative_to(top)


def _identity(folder: str) -> tuple[int, int]:
    """Return the device and inode of a folder, which are the same for every path to it."""
    try:
        status = os.stat(folder)
    except PATH_ERRORS:
        return 0, 0  # listing the folder reports the reason
    return status.st_dev, status.st_ino


def tree_stamp(
    root: Path,
    *,
    suffixes: Collection[str] = (".jsonl",),
    depth: int = MAX_FOLDER_DEPTH,
    is_bounded: bool = False,
) -> str:
    """Return a stamp that differs when a file below is added, removed or changed; empty for an unreadable folder."""
    try:
        if not root.is_dir():
            return ""
    except PATH_ERRORS:
        return ""
    names: list[str] = []
    # Numbers are hashed as bytes: formatting those of ten thousand files would block other threads for milliseconds.
    numbers = array("Q")
    for name, status in walk_with_stat(root, [], suffixes=suffixes, depth=depth, is_bounded=is_bounded):
        names.append(name)
        numbers.extend((status.st_size, status.st_mtime_ns & _UINT64_MASK, status.st_ino))
    return digest("\0".join(names).encode("utf-8", "surrogatepass"), numbers.tobytes())


# ── files and databases ───────────────────────────────────────────────────────────────────────────


def stat_stamp(status: os.stat_result) -> str:
    return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"


def plain_file_stamp(path: Path) -> str:
    """Return a stamp of the size, time and inode of a regular file; empty when it cannot be read."""
    try:
        status = path.stat()
    except PATH_ERRORS:
        return ""
    return stat_stamp(status) if stat.S_ISREG(status.st_mode) else ""


@contextmanager
def open_regular_file(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file for reading.

    It is checked before, because opening a device may do something. It is checked again when it is open, because it may
    have been replaced: by a pipe, which would block, or by a device that never ends.
    """
    _refuse_other_than_regular(os.stat(path))
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    raw: Any = _ReadyFile(handle)
    with BufferedReader(raw) as file:
        _refuse_other_than_regular(os.fstat(handle))
        yield file


class _ReadyFile(FileIO):
    """Raises OSError where a read would wait for data, as in some files of `/proc`. Python would return None."""

    def readinto(self, buffer: Any, /) -> int:
        count = super().readinto(buffer)
        if count is None:
            raise OSError(0, "it has nothing to read at the moment")
        return count


def _refuse_other_than_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "it is not a regular file")


def database_stamp(path: Path) -> str:
    """Return a stamp of the size, time and change counter of a database, and of its WAL; empty if it is unreadable."""
    try:
        with open_regular_file(path) as file:
            status = os.fstat(file.fileno())
            counter = file.read(28)[24:28].hex()
        wal = sidecar_path(path, "-wal")
        wal_status = wal.stat() if wal.exists() else None
    except (OSError, ValueError):
        return ""
    values = [status.st_size, status.st_mtime_ns, counter]
    if wal_status:
        values += [wal_status.st_size, wal_status.st_mtime_ns]
    return ":".join(map(str, values))


def quiet_stamp(path: Path) -> str:
    """Return a stamp that also changes when a database becomes quiet, so that its unfinished answers are read then.

    It changes again an hour later, because the clock may have been set back after the last answer was written.
    """
    stamp = database_stamp(path)
    try:
        changed_at = max(file.stat().st_mtime for file in (path, sidecar_path(path, "-wal")) if file.exists())
    except (OSError, ValueError):
        return ""
    quiet_hours = max(-1, min(int((time.time() - changed_at) // QUIET_SECONDS), 2))
    return f"{stamp}:{quiet_hours}" if stamp else ""


def sidecar_path(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
