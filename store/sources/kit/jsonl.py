"""What readers of files share: JSON taken line by line, however long, broken or binary a line may be."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from store.errors import BadValue
from store.model.entry import Json, NewRecord
from store.model.session import SessionFields
from store.sources.kit.problem import Problem
from store.sources.kit.sqlite import utc
from store.sources.kit.stamps import UNREADABLE as UNREADABLE
from store.sources.kit.stamps import file_digest_stamp as file_digest_stamp
from store.sources.kit.stamps import said
from store.sources.kit.stamps import stamp_of as stamp_of
from store.sources.kit.stamps import tree_stamp as tree_stamp
from store.sources.kit.stamps import walk as walk
from store.sources.kit.stamps import walk_stamped as walk_stamped
from store.text.validate import parse_bytes

LONGEST_LINE = 32 * 1024 * 1024
LONGEST_FILE = 64 * 1024 * 1024
"""Of a file that is one JSON value, which can only be held whole."""

LONGEST_LINES = 8 * 1024 * 1024 * 1024
"""Of one file of lines: a few kilobytes of zstd can stand for any amount."""

LONGEST_GROWTH = 8 * 1024 * 1024
"""Of a file that is gone on with; what came in greater lumps is read as if it were new, piece by piece."""

LONGEST_HELD = 8 * 1024 * 1024
"""Of a file that is parsed once for all who look at it in turn; parsed it takes some times as much."""

_WIDEST_WINDOW = 128 * 1024 * 1024
_CHUNK = 256 * 1024


class Line(NamedTuple):
    offset: int
    data: bytes
    "Verbatim, without the newline."
    value: Json


# ── JSON in files ─────────────────────────────────────────────────────────────────────────────────


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """A regular file, unpacked on the way where it is zstd. A pipe is refused rather than waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "it is not a regular file")
        if path.suffix == ".zst":
            yield _unpacked(file)
        else:
            yield file


def _unpacked(file: io.BufferedReader) -> io.BufferedReader:
    # Here, since few files are packed.
    import zstandard

    class Unpacked(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what io asks of it
            try:
                data = stream.read(len(buffer))
            except zstandard.ZstdError as reason:
                raise OSError(0, str(reason)) from None
            buffer[: len(data)] = data
            return len(data)

    unpacker = zstandard.ZstdDecompressor(max_window_size=_WIDEST_WINDOW)
    stream = unpacker.stream_reader(file, read_across_frames=True)
    return io.BufferedReader(Unpacked())


def json_lines(path: Path, problems: list[Problem], *, name: str = "", start: int = 0) -> Iterator[Line]:
    """Each line that is JSON; each that is not is a problem, but for a last one that is still being written."""
    name = name or str(path)
    try:
        with opened(path) as file:
            if start:
                file.seek(start)
            yield from _json_lines(file, problems, name, start)
    except UNREADABLE as reason:
        problems.append(Problem(name, f"It cannot be read: {said(reason)}."))


def held_lines(path: Path, problems: list[Problem]) -> Iterator[Line]:
    """The same, parsed once however often it is asked for in a row; but for a file too large to be held."""
    stamp = file_digest_stamp(path)
    if path.suffix == ".zst" or not stamp or int(stamp.partition(":")[0]) > LONGEST_HELD:
        return json_lines(path, problems)
    found, met = _held(path, stamp)
    problems += met
    return iter(found)


@lru_cache(maxsize=1)
def _held(path: Path, stamp: str) -> tuple[list[Line], list[Problem]]:
    met: list[Problem] = []
    try:
        with opened(path) as file:
            data = file.read(LONGEST_HELD)
    except UNREADABLE as reason:
        return [], [Problem(str(path), f"It cannot be read: {said(reason)}.")]
    return list(_split(data, met, str(path))), met


def _split(data: bytes, problems: list[Problem], name: str) -> Iterator[Line]:
    """What is held already, in a third of the time that line by line takes."""
    *whole, last = data.split(b"\n")
    offset = 0
    for line in whole:
        if len(line) > LONGEST_LINE:
            problems.append(_too_long(name, offset))
        elif stripped := line.rstrip(b"\r"):
            try:
                yield Line(offset, stripped, parse_bytes(stripped))
            except BadValue as reason:
                problems.append(Problem(f"{name}:{offset}", str(reason)))
        offset += len(line) + 1
    if stripped := last.rstrip(b"\r"):
        with suppress(BadValue):  # it is still being written
            yield Line(offset, stripped, parse_bytes(stripped))


def _json_lines(file: io.BufferedReader, problems: list[Problem], name: str, offset: int) -> Iterator[Line]:
    while data := file.readline(LONGEST_LINE + 1):
        start, offset = offset, offset + len(data)
        if offset > LONGEST_LINES:
            raise OSError(0, f"it is larger than {LONGEST_LINES >> 30} GB")
        whole = data.endswith(b"\n")
        if not whole and len(data) > LONGEST_LINE:
            offset += _skip_line(file)
            problems.append(_too_long(name, start))
        elif stripped := data.rstrip(b"\r\n"):
            try:
                value = parsed(stripped)
            except BadValue as reason:
                if whole:
                    problems.append(Problem(f"{name}:{start}", str(reason)))
            else:
                yield Line(start, stripped, value)


def _too_long(name: str, offset: int) -> Problem:
    return Problem(f"{name}:{offset}", f"The line is longer than {LONGEST_LINE >> 20} MB and is left out.")


def _skip_line(file: io.BufferedReader) -> int:
    """How many bytes were left of it."""
    skipped = 0
    while piece := file.readline(_CHUNK):
        skipped += len(piece)
        if piece.endswith(b"\n") or skipped > LONGEST_LINES:
            break
    return skipped


class Mark(NamedTuple):
    "How far a file was read. It is gone on with only where all that came before is still the same."

    place: str
    end: int
    digest: str

    @classmethod
    def behind(cls, path: Path, end: int) -> Mark | None:
        """None where the file cannot be gone on with."""
        sum_ = _Sum(path).until(end) if path.suffix != ".zst" else ""
        return cls(str(path), end, sum_) if sum_ else None

    def grown(self, path: Path) -> tuple[list[Line], Mark] | None:
        """What came since; None when the file was rewritten, cut, packed or moved, or too much came to be held."""
        try:
            much = path.stat().st_size - self.end > LONGEST_GROWTH
        except UNREADABLE:
            return None
        sum_ = _Sum(path)
        if much or str(path) != self.place or sum_.until(self.end) != self.digest:
            return None
        problems: list[Problem] = []
        found = list(json_lines(path, problems, start=self.end))
        if problems:
            return None  # who reads it all tells of them
        end = found[-1].offset + len(found[-1].data) if found else self.end
        return found, self._replace(end=end, digest=sum_.until(end))


class _Sum:
    """Of a file's bytes from the first on, a little further each time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        # Processors have instructions for this one.
        self._sum = hashlib.sha256(usedforsecurity=False)

    def until(self, end: int) -> str:
        """Empty when the file ends before."""
        try:
            with opened(self._path) as file:
                file.seek(self._at)
                while self._at < end and (piece := file.read(min(end - self._at, 1 << 20))):
                    self._sum.update(piece)
                    self._at += len(piece)
        except UNREADABLE:
            return ""
        return self._sum.hexdigest()[:24] if self._at == end else ""


def json_file(path: Path, problems: list[Problem], *, name: str = "") -> Json | None:
    """A file that is one JSON value; None and a problem when it is not, or is too large to be held."""
    whole = whole_file(path, problems, name=name)
    return whole.value if whole else None


def whole_file(path: Path, problems: list[Problem], *, name: str = "") -> Line | None:
    """The same with what it was parsed from."""
    name = name or str(path)
    try:
        with opened(path) as file:
            data = file.read(LONGEST_FILE + 1)
        if len(data) > LONGEST_FILE:
            raise OSError(0, f"it is larger than {LONGEST_FILE >> 20} MB")
        return Line(0, data, parsed(data))
    except UNREADABLE as reason:
        problems.append(Problem(name, f"It cannot be read: {said(reason)}."))
    except BadValue as reason:
        problems.append(Problem(name, str(reason)))
    return None


def parsed(data: bytes) -> Json:
    """A stray byte inside a string costs a character; the record keeps it as it was."""
    return parse_bytes(data)


def record(line: Line, place: str) -> NewRecord:
    return NewRecord(line.data, place, str(line.offset))


# ── fields of any type at all ─────────────────────────────────────────────────────────────────────


def words(value: Json) -> str:
    """Of a field that should be text."""
    return value if isinstance(value, str) else ""


def first_words(told: Mapping[str, Json], names: Iterable[str]) -> str:
    """Of the first of these fields that has any."""
    for name in names:
        if isinstance(text := told.get(name), str) and text:
            return text
    return ""


def mapping(value: Json) -> Mapping[str, Json]:
    """Of a field that should be an object."""
    return value if isinstance(value, dict) else {}


def items(value: Json) -> list[Json]:
    """Of a field that should be a list."""
    return value if isinstance(value, list) else []


def count(value: Json) -> int:
    """Of a field that should be a number of something."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def cost(value: Json) -> SessionFields:
    """Of a field that should be an amount of money; nothing is said where nothing was paid, or nobody knows."""
    paid = float(value) if isinstance(value, int | float) and 0 < value < 1e9 and not isinstance(value, bool) else 0.0
    return {"cost": paid} if paid else {}


def moment(value: Json) -> str:
    """Of a field that should be a time."""
    return utc(value) if isinstance(value, str) or (isinstance(value, int | float) and abs(value) < 2**53) else ""
