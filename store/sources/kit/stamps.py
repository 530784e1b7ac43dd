"""How a foreign store is known to be as it was: folders walked without falling into a trap, and what the system says of
their files. Light, since of a store that did not change nothing else is loaded."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from array import array
from collections.abc import Collection, Iterator
from operator import attrgetter
from pathlib import Path

from store.sources.kit.problem import Problem

QUIET_SECONDS = 3600.0
"""What nobody touched for so long is told as it is, finished or not."""

MAX_FOLDER_DEPTH = 12
_NAME = attrgetter("name")
_UINT64_MASK = 2**64 - 1
"""Of a time, which may lie before 1970."""

PATH_ERRORS = (OSError, ValueError)
"""What a path that cannot be read raises; the second for a name that no file can have."""


def digest(*values: object) -> str:
    """A stamp of what was read."""
    sum_ = hashlib.blake2b(digest_size=12)
    for value in values:
        data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
        sum_.update(len(data).to_bytes(8, "big"))
        sum_.update(data)
    return sum_.hexdigest()


def to_one_line(reason: object) -> str:
    """What SQLite says of damage quotes the damaged words, line breaks and all."""
    return " ".join(str(reason).split())


def error_text(reason: Exception) -> str:
    """What the system says of a path that cannot be read."""
    return to_one_line(getattr(reason, "strerror", None) or reason)


# ── folders ───────────────────────────────────────────────────────────────────────────────────────


def walk_files(
    root: Path, problems: list[Problem], *, suffixes: Collection[str] = (".jsonl",), depth: int = MAX_FOLDER_DEPTH
) -> Iterator[Path]:
    """The regular files below, sorted, each folder once however many links lead to it."""
    return (Path(entry.path) for entry in _walk_entries(str(root), problems, tuple(suffixes), depth))


def walk_with_stat(
    root: Path,
    problems: list[Problem],
    *,
    suffixes: Collection[str] = (".jsonl",),
    depth: int = MAX_FOLDER_DEPTH,
) -> Iterator[tuple[str, os.stat_result]]:
    """The same as they are named, each with what the system says of it: cheap enough for ten thousand a second.
    Enter: told of each folder before it is looked into."""
    for entry in _walk_entries(str(root), problems, tuple(suffixes), depth):
        try:
            known = entry.stat()
        except OSError:
            continue
        yield entry.path, known


def _walk_entries(
    root: str, problems: list[Problem], suffixes: tuple[str, ...], depth: int
) -> Iterator[os.DirEntry[str]]:
    """The files of a folder, then those of each folder in it. In one loop, since most of what it meets is unchanged."""
    seen: set[tuple[int, int]] = set()
    waiting = [(root, depth, _identity(root))]
    while waiting:
        folder, below, identity = waiting.pop()
        if identity in seen:
            continue
        seen.add(identity)
        try:
            with os.scandir(folder) as entries:
                ordered = sorted(entries, key=_NAME)
        except PATH_ERRORS as reason:
            problems.append(Problem(folder, f"The folder cannot be read: {error_text(reason)}."))
            continue
        folders: list[tuple[str, int, tuple[int, int]]] = []
        for entry in ordered:
            try:
                if entry.name.endswith(suffixes) and entry.is_file():
                    yield entry
                elif entry.is_dir():
                    # Only where a link leads must be asked for: the others' numbers stand in the folder itself.
                    is_own = not entry.is_symlink()
                    inside = (identity[0], entry.inode()) if is_own else _identity(entry.path)
                    folders.append((entry.path, below - 1, inside))
            except OSError:
                continue  # a link that leads nowhere
        if below:
            waiting += reversed(folders)


def _identity(folder: str) -> tuple[int, int]:
    """The same whichever way leads to it."""
    try:
        known = os.stat(folder)
    except PATH_ERRORS:
        return 0, 0  # to list it tells why
    return known.st_dev, known.st_ino


def tree_stamp(root: Path, *, suffixes: Collection[str] = (".jsonl",), depth: int = MAX_FOLDER_DEPTH) -> str:
    """Differs when a file below came, went or changed; empty when it cannot be told."""
    try:
        if not root.is_dir():
            return ""
    except PATH_ERRORS:
        return ""
    names: list[str] = []
    # As they are: to spell those of ten thousand files takes milliseconds in which no other thread can do anything.
    numbers = array("Q")
    for name, known in walk_with_stat(root, [], suffixes=suffixes, depth=depth):
        names.append(name)
        numbers.extend((known.st_size, known.st_mtime_ns & _UINT64_MASK, known.st_ino))
    return digest("\0".join(names).encode("utf-8", "surrogatepass"), numbers.tobytes())


# ── files and databases ───────────────────────────────────────────────────────────────────────────


def stat_stamp(found: os.stat_result) -> str:
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ino}"


def plain_file_stamp(path: Path) -> str:
    """Size, time and inode of one regular file; empty when it cannot be told."""
    try:
        found = path.stat()
    except PATH_ERRORS:
        return ""
    return stat_stamp(found) if stat.S_ISREG(found.st_mode) else ""


def database_stamp(path: Path) -> str:
    """Size, time and change counter of the file, and of the WAL beside it. Empty when it cannot be told."""
    try:
        main = path.stat()
        # A pipe would be waited for until somebody writes to it.
        if not stat.S_ISREG(main.st_mode):
            return ""
        with path.open("rb") as file:
            counter = file.read(28)[24:28].hex()
        wal = sidecar_path(path, "-wal")
        beside = wal.stat() if wal.exists() else None
    except (OSError, ValueError):
        return ""
    told = [main.st_size, main.st_mtime_ns, counter]
    if beside:
        told += [beside.st_size, beside.st_mtime_ns]
    return ":".join(map(str, told))


def quiet_stamp(path: Path) -> str:
    """Also tells a store at rest from one that moves, so that what was held back unfinished is told in the end."""
    told = database_stamp(path)
    try:
        moved = max(file.stat().st_mtime for file in (path, sidecar_path(path, "-wal")) if file.exists())
    except (OSError, ValueError):
        return ""
    return f"{told}:{time.time() - moved > QUIET_SECONDS}" if told else ""


def sidecar_path(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
