"""This module rewrites text files of agents, so that each is whole at any moment, old or new.

A new file is written beside the old one, and takes its name if the old one has not changed meanwhile. What a process
appended to the old one in the last moment is appended to the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, NamedTuple

from store.errors import ChangedMeanwhile, Refused
from store.paths import sync_folder
from store.sources.kit.stamps import open_regular_file

QUIET_SECONDS = 60.0
"""A file that changed within this time may be in use."""

SEGMENT_BYTES = 4 * 1024 * 1024
"""Is how much of a file is read at a time. It ends with a line, so that a longer line is read as a whole."""

_PARTIAL_SUFFIX = ".redacting"
_MODE_BITS = 0o7777

ChangeText = Callable[[bytes], bytes]
"""Returns the next part of a text as it is to be. The parts come in their order, and each has complete lines."""


class FileState(NamedTuple):
    """Identifies the content of a file without reading it."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileState:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class PreparedFile:
    """Is a new file that is complete, but does not have its name yet."""

    def __init__(
        self, path: Path, partial: Path, old: BinaryIO, state: FileState, original: bytes, redacted: bytes
    ) -> None:
        self.path = path
        self._partial = partial
        self._old = old
        self._state = state
        self.original = original
        "Is the SHA-256 of the old file."
        self.redacted = redacted
        "Is the SHA-256 of the new file."

    def replace(self, change: ChangeText) -> None:
        """Give the new file its name, unless the old one has changed. `change` is applied to what was appended."""
        self._refuse_changed(os.stat(self.path))
        if _compute_digest(self._old) != self.original:
            raise _changed(self.path)
        self._refuse_changed(os.stat(self.path))
        os.rename(self._partial, self.path)
        sync_folder(self.path.parent)
        self._follow_old_file(change)

    def _refuse_changed(self, status: os.stat_result) -> None:
        if FileState.of(status) != self._state:
            raise _changed(self.path)

    def _follow_old_file(self, change: ChangeText) -> None:
        """Append what was appended to the old file, or restore the old file if it was changed in another way."""
        status = os.fstat(self._old.fileno())
        if FileState.of(status) == self._state:
            return
        self._old.seek(0)
        if status.st_size < self._state.size or _hash(self._old, self._state.size) != self.original:
            self._restore_old_file(status)
            raise _changed(self.path)
        self._old.seek(self._state.size)
        with open(self.path, "ab") as file:
            file.write(change(self._old.read()))
            file.flush()
            os.fsync(file.fileno())

    def _restore_old_file(self, status: os.stat_result) -> None:
        self._old.seek(0)
        with create_beside(self.path) as (file, partial):
            while data := self._old.read(SEGMENT_BYTES):
                file.write(data)
            finish_file(file, status)
            os.rename(partial, self.path)
            sync_folder(self.path.parent)


@contextmanager
def prepare_file(path: Path, change: ChangeText) -> Iterator[PreparedFile]:
    """Yield a new file beside the old one. It is deleted in the end, unless it replaced the old one."""
    with open_regular_file(path) as old:
        status = os.fstat(old.fileno())
        before, after = hashlib.sha256(), hashlib.sha256()
        with create_beside(path) as (file, partial):
            for segment in iter_segments(old):
                new = change(segment)
                if new != segment:
                    refuse_broken_json(path, segment, new)
                before.update(segment)
                after.update(new)
                file.write(new)
            finish_file(file, status)
            yield PreparedFile(path, partial, old, FileState.of(status), before.digest(), after.digest())


@contextmanager
def create_beside(path: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """Yield an empty private file in the same folder. It is deleted in the end, unless it was renamed."""
    partial = path.with_name(f".{path.name[:200]}.{token_hex(4)}{_PARTIAL_SUFFIX}")
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.fdopen(os.open(partial, flags, 0o600), "wb")
    try:
        yield file, partial
    finally:
        with suppress(OSError):  # a full disk was reported already
            file.close()
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def finish_file(file: BinaryIO, status: os.stat_result) -> None:
    """Write everything to the disk, with the owner, rights and times of the old file.

    Agents order their conversations by these times, and delete old ones.
    """
    file.flush()
    handle = file.fileno()
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(handle, status.st_uid, status.st_gid)
    os.fchmod(handle, status.st_mode & _MODE_BITS)
    os.utime(handle, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.fsync(handle)


def iter_segments(file: BinaryIO) -> Iterator[bytes]:
    """Yield the file in pieces of complete lines."""
    while data := file.read(SEGMENT_BYTES):
        yield data + (b"" if data.endswith(b"\n") else file.readline())


def refuse_broken_json(path: Path, old: bytes, new: bytes) -> None:
    """Refuse a change that removes a line from a file of lines, or makes a line that was JSON anything else."""
    if path.suffix == ".jsonl" and old.count(b"\n") != new.count(b"\n"):
        raise Refused(f"A value in {path} goes over several lines.")
    if path.suffix not in (".json", ".jsonl"):
        return
    lines = [(old, new)] if path.suffix == ".json" else zip(old.split(b"\n"), new.split(b"\n"), strict=True)
    for before, after in lines:
        if before != after and _is_json(before) and not _is_json(after):
            raise Refused(f"{path} would not be valid JSON any more.")


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def compute_file_digest(path: Path) -> bytes:
    with open_regular_file(path) as file:
        return _compute_digest(file)


def _compute_digest(file: BinaryIO) -> bytes:
    file.seek(0)
    return _hash(file, os.fstat(file.fileno()).st_size)


def _hash(file: BinaryIO, size: int) -> bytes:
    hasher = hashlib.sha256()
    while size > 0 and (data := file.read(min(size, SEGMENT_BYTES))):
        hasher.update(data)
        size -= len(data)
    return hasher.digest()


def delete_partial_files(path: Path) -> None:
    """Delete what a killed process left beside a file."""
    with suppress(OSError):
        for partial in path.parent.iterdir():
            name = partial.name
            if name.startswith(f".{path.name[:200]}.") and name.endswith(_PARTIAL_SUFFIX) and not partial.is_symlink():
                partial.unlink()


def find_obstacle(path: Path) -> str:
    """Say why a file cannot be rewritten now, or nothing if it can."""
    try:
        status = path.lstat()
    except OSError as error:
        return error.strerror or "It cannot be read."
    if not stat.S_ISREG(status.st_mode):
        return "It is not a regular file."
    if status.st_nlink > 1:
        return "It has a second name (a hard link)."
    if abs(time.time() - status.st_mtime) < QUIET_SECONDS:
        return "It changed less than a minute ago."
    if not os.access(path, os.W_OK):
        return "It cannot be written to."
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return "Its folder cannot be written to."
    return ""


def _changed(path: Path) -> ChangedMeanwhile:
    return ChangedMeanwhile(f"{path} has changed meanwhile.", None)
