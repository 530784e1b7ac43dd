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
from store.sources.kit.sqlite import normalize_time
from store.sources.kit.stamps import PATH_ERRORS as PATH_ERRORS
from store.sources.kit.stamps import error_text
from store.sources.kit.stamps import plain_file_stamp as plain_file_stamp
from store.sources.kit.stamps import stat_stamp as stat_stamp
from store.sources.kit.stamps import tree_stamp as tree_stamp
from store.sources.kit.stamps import walk_files as walk_files
from store.sources.kit.stamps import walk_with_stat as walk_with_stat
from store.text.validate import parse_bytes

MAX_LINE_BYTES = 32 * 1024 * 1024
MAX_JSON_FILE_BYTES = 64 * 1024 * 1024
"""Of a file that is one JSON value, which can only be held whole."""

MAX_LINES_FILE_BYTES = 8 * 1024 * 1024 * 1024
"""Of one file of lines: a few kilobytes of zstd can stand for any amount."""

MAX_APPENDED_BYTES = 8 * 1024 * 1024
"""Of a file that is gone on with; what came in greater lumps is read as if it were new, piece by piece."""

MAX_CACHED_FILE_BYTES = 8 * 1024 * 1024
"""Of a file that is parsed once for all who look at it in turn; parsed it takes some times as much."""

_MAX_ZSTD_WINDOW = 128 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024


class JsonLine(NamedTuple):
    offset: int
    data: bytes
    "Verbatim, without the newline."
    value: Json


# ── JSON in files ─────────────────────────────────────────────────────────────────────────────────


@contextmanager
def open_file(path: Path) -> Iterator[io.BufferedReader]:
    """A regular file, unpacked on the way where it is zstd. A pipe is refused rather than waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "it is not a regular file")
        if path.suffix == ".zst":
            yield _open_zstd(file)
        else:
            yield file


def _open_zstd(file: io.BufferedReader) -> io.BufferedReader:
    # Here, since few files are packed.
    import zstandard

    class ZstdStream(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # what io asks of it
            try:
                data = stream.read(len(buffer))
            except zstandard.ZstdError as reason:
                raise OSError(0, str(reason)) from None
            buffer[: len(data)] = data
            return len(data)

    unpacker = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW)
    stream = unpacker.stream_reader(file, read_across_frames=True)
    return io.BufferedReader(ZstdStream())


def read_json_lines(path: Path, problems: list[Problem], *, name: str = "", start: int = 0) -> Iterator[JsonLine]:
    """Each line that is JSON; each that is not is a problem, but for a last one that is still being written."""
    name = name or str(path)
    try:
        with open_file(path) as file:
            if start:
                file.seek(start)
            yield from _parse_lines(file, problems, name, start)
    except PATH_ERRORS as reason:
        problems.append(Problem(name, f"It cannot be read: {error_text(reason)}."))


def read_cached_lines(path: Path, problems: list[Problem]) -> Iterator[JsonLine]:
    """The same, parsed once however often it is asked for in a row; but for a file too large to be held."""
    stamp = plain_file_stamp(path)
    if path.suffix == ".zst" or not stamp or int(stamp.partition(":")[0]) > MAX_CACHED_FILE_BYTES:
        return read_json_lines(path, problems)
    found, met = _parse_cached(path, stamp)
    problems += met
    return iter(found)


@lru_cache(maxsize=1)
def _parse_cached(path: Path, stamp: str) -> tuple[list[JsonLine], list[Problem]]:
    met: list[Problem] = []
    try:
        with open_file(path) as file:
            data = file.read(MAX_CACHED_FILE_BYTES)
    except PATH_ERRORS as reason:
        return [], [Problem(str(path), f"It cannot be read: {error_text(reason)}.")]
    return list(_split_lines(data, met, str(path))), met


def _split_lines(data: bytes, problems: list[Problem], name: str) -> Iterator[JsonLine]:
    """What is held already, in a third of the time that line by line takes."""
    *whole, last = data.split(b"\n")
    offset = 0
    for line in whole:
        if len(line) > MAX_LINE_BYTES:
            problems.append(_line_too_long(name, offset))
        elif stripped := line.rstrip(b"\r"):
            try:
                yield JsonLine(offset, stripped, parse_bytes(stripped))
            except BadValue as reason:
                problems.append(Problem(f"{name}:{offset}", str(reason)))
        offset += len(line) + 1
    if stripped := last.rstrip(b"\r"):
        with suppress(BadValue):  # it is still being written
            yield JsonLine(offset, stripped, parse_bytes(stripped))


def _parse_lines(file: io.BufferedReader, problems: list[Problem], name: str, offset: int) -> Iterator[JsonLine]:
    while data := file.readline(MAX_LINE_BYTES + 1):
        start, offset = offset, offset + len(data)
        if offset > MAX_LINES_FILE_BYTES:
            raise OSError(0, f"it is larger than {MAX_LINES_FILE_BYTES >> 30} GB")
        whole = data.endswith(b"\n")
        if not whole and len(data) > MAX_LINE_BYTES:
            offset += _skip_line(file)
            problems.append(_line_too_long(name, start))
        elif stripped := data.rstrip(b"\r\n"):
            try:
                value = parse_json(stripped)
            except BadValue as reason:
                if whole:
                    problems.append(Problem(f"{name}:{start}", str(reason)))
            else:
                yield JsonLine(start, stripped, value)


def _line_too_long(name: str, offset: int) -> Problem:
    return Problem(f"{name}:{offset}", f"The line is longer than {MAX_LINE_BYTES >> 20} MB and is left out.")


def _skip_line(file: io.BufferedReader) -> int:
    """How many bytes were left of it."""
    skipped = 0
    while piece := file.readline(_CHUNK_BYTES):
        skipped += len(piece)
        if piece.endswith(b"\n") or skipped > MAX_LINES_FILE_BYTES:
            break
    return skipped


class FileMark(NamedTuple):
    "How far a file was read. It is gone on with only where all that came before is still the same."

    path: str
    end: int
    digest: str

    @classmethod
    def from_file(cls, path: Path, end: int) -> FileMark | None:
        """None where the file cannot be gone on with."""
        sum_ = _PrefixDigest(path).digest_up_to(end) if path.suffix != ".zst" else ""
        return cls(str(path), end, sum_) if sum_ else None

    def read_appended(self, path: Path) -> tuple[list[JsonLine], FileMark] | None:
        """What came since; None when the file was rewritten, cut, packed or moved, or too much came to be held."""
        try:
            much = path.stat().st_size - self.end > MAX_APPENDED_BYTES
        except PATH_ERRORS:
            return None
        sum_ = _PrefixDigest(path)
        if much or str(path) != self.path or sum_.digest_up_to(self.end) != self.digest:
            return None
        problems: list[Problem] = []
        found = list(read_json_lines(path, problems, start=self.end))
        if problems:
            return None  # who reads it all tells of them
        end = found[-1].offset + len(found[-1].data) if found else self.end
        return found, self._replace(end=end, digest=sum_.digest_up_to(end))


class _PrefixDigest:
    """Of a file's bytes from the first on, a little further each time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        # Processors have instructions for this one.
        self._hash = hashlib.sha256(usedforsecurity=False)

    def digest_up_to(self, end: int) -> str:
        """Empty when the file ends before."""
        try:
            with open_file(self._path) as file:
                file.seek(self._position)
                while self._position < end and (piece := file.read(min(end - self._position, 1 << 20))):
                    self._hash.update(piece)
                    self._position += len(piece)
        except PATH_ERRORS:
            return ""
        return self._hash.hexdigest()[:24] if self._position == end else ""


def read_json_file(path: Path, problems: list[Problem], *, name: str = "") -> Json | None:
    """A file that is one JSON value; None and a problem when it is not, or is too large to be held."""
    whole = read_json_record(path, problems, name=name)
    return whole.value if whole else None


def read_json_record(path: Path, problems: list[Problem], *, name: str = "") -> JsonLine | None:
    """The same with what it was parsed from."""
    name = name or str(path)
    try:
        with open_file(path) as file:
            data = file.read(MAX_JSON_FILE_BYTES + 1)
        if len(data) > MAX_JSON_FILE_BYTES:
            raise OSError(0, f"it is larger than {MAX_JSON_FILE_BYTES >> 20} MB")
        return JsonLine(0, data, parse_json(data))
    except PATH_ERRORS as reason:
        problems.append(Problem(name, f"It cannot be read: {error_text(reason)}."))
    except BadValue as reason:
        problems.append(Problem(name, str(reason)))
    return None


def parse_json(data: bytes) -> Json:
    """A stray byte inside a string costs a character; the record keeps it as it was."""
    return parse_bytes(data)


def record_from_line(line: JsonLine, place: str) -> NewRecord:
    return NewRecord(line.data, place, str(line.offset))


# ── fields of any type at all ─────────────────────────────────────────────────────────────────────


def as_str(value: Json) -> str:
    """Of a field that should be text."""
    return value if isinstance(value, str) else ""


def first_str(told: Mapping[str, Json], names: Iterable[str]) -> str:
    """Of the first of these fields that has any."""
    for name in names:
        if isinstance(text := told.get(name), str) and text:
            return text
    return ""


def as_dict(value: Json) -> Mapping[str, Json]:
    """Of a field that should be an object."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    """Of a field that should be a list."""
    return value if isinstance(value, list) else []


def as_count(value: Json) -> int:
    """Of a field that should be a number of something."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def cost_fields(value: Json) -> SessionFields:
    """Of a field that should be an amount of money; nothing is said where nothing was paid, or nobody knows."""
    paid = float(value) if isinstance(value, int | float) and 0 < value < 1e9 and not isinstance(value, bool) else 0.0
    return {"cost": paid} if paid else {}


def as_time(value: Json) -> str:
    """Of a field that should be a time."""
    return (
        normalize_time(value)
        if isinstance(value, str) or (isinstance(value, int | float) and abs(value) < 2**53)
        else ""
    )
