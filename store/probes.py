"""Questions to the system on which it depends whether a sync has anything to do: which files are there, what their
stamps are, what the environment says.

A sync notes these questions with their answers. The next one asks them again before it loads anything else: if every
answer is the same, nothing changed. So everything that decides where a store is, or what its stamp is, is asked here.

An unchanged sync loads little more than this module, so it imports next to nothing, not even `typing` and `pathlib`.
"""

from __future__ import annotations

import os
import stat
import time
from array import array
from itertools import islice
from operator import attrgetter

try:
    from _blake2 import blake2b  # `hashlib` has the same function, and takes 2 ms to load OpenSSL for others
except ImportError:
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any, TypeVarTuple

    Arguments = TypeVarTuple("Arguments")

QUIET_SECONDS = 3600.0
"""After this time without a change, an unfinished answer is read as it is."""

MAX_TREE_ENTRIES = 200_000
"""Limits the files and folders that are looked at in a folder which a person named: it may be a whole disk."""

SKIPPED_FOLDERS = frozenset([".git", "node_modules"])
"""Folders with many files that are never conversations. In a folder that a person named they are not entered."""

PATH_ERRORS = (OSError, ValueError)
"""These are raised for a path that cannot be read; the second for a name that no file can have."""

SEPARATOR = "/"
"""Separates several names in an answer or a question. No name of a file contains it."""

_NO_LIMIT = 2**62
_CONVERSATION_SUFFIXES = (".jsonl", ".json", ".zst")
_NOT_REGULAR = "It is not a regular file, and is not read."
_TOO_MANY_ENTRIES = (
    f"It has more than {MAX_TREE_ENTRIES:,} files; the others were not looked at. Name a folder inside it."
)
_NAME = attrgetter("name")
_UINT64_MASK = 2**64 - 1
"""Maps a time to an unsigned number; it may be before 1970."""

# ── asking, noting and asking again ───────────────────────────────────────────────────────────────

_PROBES: dict[str, Callable[..., str]] = {}
_notes: dict[tuple[Any, ...], str] | None = None


def _probe(look: Callable[[*Arguments], str]) -> Callable[[*Arguments], str]:
    """Let the answers of a function be noted. Its arguments are texts and numbers, by position only."""
    name = look.__name__
    _PROBES[name] = look

    def ask(*arguments: *Arguments) -> str:
        answer = look(*arguments)
        if _notes is not None:
            _notes.setdefault((name, *arguments), answer)
        return answer

    ask.__doc__ = look.__doc__
    return ask


class ProbeNotes:
    """Notes what is asked while it is entered, with the first answer to each question. Others note nothing then."""

    def __init__(self) -> None:
        self._answers: dict[tuple[Any, ...], str] = {}
        self._outer: dict[tuple[Any, ...], str] | None = None

    def __enter__(self) -> ProbeNotes:
        global _notes
        self._outer, _notes = _notes, self._answers
        return self

    def __exit__(self, *_: object) -> None:
        global _notes
        _notes = self._outer

    def rows(self) -> list[Sequence[Any]]:
        """Return a row for each question: the answer, the name of the probe, and its arguments. Stamps come last,
        because they take most of the time."""
        return [(self._answers[question], *question) for question in sorted(self._answers)]


def are_answers_equal(rows: Iterable[Sequence[Any]]) -> bool:
    """Ask noted questions again, and return whether all answers are still the same."""
    return all(_PROBES[name](*arguments) == answer for answer, name, *arguments in rows)


# ── the environment ───────────────────────────────────────────────────────────────────────────────


@_probe
def read_variable(name: str) -> str:
    """Return the value of an environment variable, or an empty text."""
    return os.environ.get(name, "")


@_probe
def find_working_folder() -> str:
    """Return the current folder; empty when it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""


@_probe
def find_home_folder() -> str:
    return os.path.expanduser("~")


@_probe
def read_clock() -> str:
    """Return the time, for an answer that is never the same again: a database server must always be asked."""
    return str(time.time_ns())


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


@_probe
def resolve_path(path: str) -> str:
    """Return the path without links."""
    return os.path.realpath(path)


@_probe
def find_kind(path: str) -> str:
    """Return `file` or `folder`, `other` for anything else, and an empty text for nothing at all."""
    try:
        mode = os.stat(path).st_mode
    except PATH_ERRORS:
        return ""
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def is_file(path: str) -> bool:
    return find_kind(path) == "file"


def is_folder(path: str) -> bool:
    return find_kind(path) == "folder"


@_probe
def list_names(folder: str, prefix: str, suffix: str) -> str:
    """Return the sorted names in a folder that begin and end so."""
    try:
        return SEPARATOR.join(sorted(name for name in os.listdir(folder) if _is_between(name, prefix, suffix)))
    except PATH_ERRORS:
        return ""


def _is_between(name: str, prefix: str, suffix: str) -> bool:
    return name.startswith(prefix) and name.endswith(suffix)


@_probe
def list_folders_with(folder: str, path: str) -> str:
    """Return the sorted names of the folders inside the given one that have a file at this path."""
    try:
        names = sorted(os.listdir(folder))
    except PATH_ERRORS:
        return ""
    return SEPARATOR.join(name for name in names if os.path.exists(os.path.join(folder, name, path)))


def split_answer(answer: str) -> list[str]:
    """Return the names in an answer."""
    return answer.split(SEPARATOR) if answer else []


# ── stamps ────────────────────────────────────────────────────────────────────────────────────────


def digest(*values: object) -> str:
    """Return a stamp of values."""
    hasher = blake2b(digest_size=12)
    for value in values:
        data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return hasher.hexdigest()


def stat_stamp(status: os.stat_result) -> str:
    return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"


@_probe
def stamp_file(path: str) -> str:
    """Return a stamp of the size, time and inode of a regular file; empty when it cannot be read."""
    try:
        status = os.stat(path)
    except PATH_ERRORS:
        return ""
    return stat_stamp(status) if stat.S_ISREG(status.st_mode) else ""


@_probe
def stamp_tree(root: str, suffixes: str, depth: int, is_bounded: bool) -> str:
    """Return a stamp that differs when a file below is added, removed or changed; empty for an unreadable folder.

    The suffixes are separated like names.
    """
    if not os.path.isdir(root):
        return ""
    names: list[str] = []
    # Numbers are hashed as bytes: formatting those of ten thousand files would block other threads for milliseconds.
    numbers = array("Q")
    for name, status in walk_with_stat(root, suffixes.split(SEPARATOR), depth, is_bounded, lambda *problem: None):
        names.append(name)
        numbers.extend((status.st_size, status.st_mtime_ns & _UINT64_MASK, status.st_ino))
    return digest("\0".join(names).encode("utf-8", "surrogatepass"), numbers.tobytes())


@_probe
def stamp_database(path: str) -> str:
    """Return a stamp of the size, time and change counter of a database, and of its WAL; empty if it is unreadable."""
    try:
        status, counter = _read_change_counter(path)
        wal_status = _stat_or_none(f"{path}-wal")
    except PATH_ERRORS:
        return ""
    values = [status.st_size, status.st_mtime_ns, counter]
    if wal_status:
        values += [wal_status.st_size, wal_status.st_mtime_ns]
    return ":".join(map(str, values))


def _read_change_counter(path: str) -> tuple[os.stat_result, str]:
    handle = open_regular(path)
    try:
        return os.fstat(handle), os.pread(handle, 4, 24).hex()
    finally:
        os.close(handle)


def _stat_or_none(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


@_probe
def stamp_quiet_database(path: str) -> str:
    """Return a stamp that also changes when a database becomes quiet, so that its unfinished answers are read then.

    It changes again an hour later, because the clock may have been set back after the last answer was written.
    """
    stamp = _PROBES["stamp_database"](path)
    try:
        found = filter(None, map(_stat_or_none, (path, f"{path}-wal")))
        changed_at = max(status.st_mtime for status in found)
    except PATH_ERRORS:
        return ""
    quiet_hours = max(-1, min(int((time.time() - changed_at) // QUIET_SECONDS), 2))
    return f"{stamp}:{quiet_hours}" if stamp else ""


def open_regular(path: str) -> int:
    """Open a regular file for reading.

    It is checked before, because opening a device may do something. It is checked again when it is open, because it may
    have been replaced: by a pipe, which would block, or by a device that never ends.
    """
    _refuse_other_than_regular(os.stat(path))
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _refuse_other_than_regular(os.fstat(handle))
    except OSError:
        os.close(handle)
        raise
    return handle


def _refuse_other_than_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "it is not a regular file")


# ── folders ───────────────────────────────────────────────────────────────────────────────────────


def walk_with_stat(
    root: str, suffixes: Iterable[str], depth: int, is_bounded: bool, report: Callable[[str, str], object]
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the paths that `walk_entries` finds, each with its status; fast enough for ten thousand files a second."""
    for entry in walk_entries(root, tuple(suffixes), depth, is_bounded, report):
        try:
            status = entry.stat()
        except OSError:
            continue
        yield entry.path, status


def walk_entries(
    root: str, suffixes: tuple[str, ...], depth: int, is_bounded: bool, report: Callable[[str, str], object]
) -> Iterator[os.DirEntry[str]]:
    """Yield the files of a folder, then those of each folder in it. It is one loop, because it runs at every sync.

    `report` gets the path and the reason of each problem.
    """
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
            report(folder, f"The folder cannot be read: {error_text(reason)}.")
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
                    report(entry.path, _NOT_REGULAR)
            except OSError:
                continue  # a broken link
        if levels:
            pending += reversed(folders)
    if remaining < 0:
        report(root, _TOO_MANY_ENTRIES)


def _leads_out(entry: os.DirEntry[str], root: str) -> bool:
    """Return whether this is a link to a folder that is not in the given one."""
    if not (entry.is_symlink() and entry.is_dir()):
        return False
    target, top = os.path.realpath(entry.path), os.path.realpath(root)
    return target != top and not target.startswith(os.path.join(top, ""))


def _identity(folder: str) -> tuple[int, int]:
    """Return the device and inode of a folder, which are the same for every path to it."""
    try:
        status = os.stat(folder)
    except PATH_ERRORS:
        return 0, 0  # listing the folder reports the reason
    return status.st_dev, status.st_ino


# ── the reasons of problems ───────────────────────────────────────────────────────────────────────


def to_one_line(reason: object) -> str:
    """Return an error message as one line. SQLite may quote damaged names, which can contain line breaks."""
    return " ".join(str(reason).split())


def error_text(reason: Exception) -> str:
    """Return the reason why a path cannot be read, as the system gives it."""
    return to_one_line(getattr(reason, "strerror", None) or reason)
