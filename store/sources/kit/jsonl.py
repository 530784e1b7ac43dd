"""This module reads JSON from files: line by line, even if lines are huge, broken or binary."""

from __future__ import annotations

import io
import os
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from store.errors import BadValue
from store.model.entry import Json, NewRecord
from store.model.session import SessionFields
from store.sources.kit.problem import Problem
from store.sources.kit.sqlite import normalize_time
from store.sources.kit.stamps import PATH_ERRORS as PATH_ERRORS
from store.sources.kit.stamps import error_text, open_regular_file
from store.sources.kit.stamps import plain_file_stamp as plain_file_stamp
from store.sources.kit.stamps import stat_stamp as stat_stamp
from store.sources.kit.stamps import tree_stamp as tree_stamp
from store.sources.kit.stamps import walk_files as walk_files
from store.sources.kit.stamps import walk_with_stat as walk_with_stat
from store.text.validate import parse_bytes

T = TypeVar("T")

MAX_LINE_BYTES = 32 * 1024 * 1024
"""Limits a line that is parsed. A longer one is kept in pieces, so that it need not fit into memory."""

MAX_KEPT_LINE_BYTES = 256 * 1024 * 1024
"""Limits how much is kept of one line."""

PIECE_BYTES = 8 * 1024 * 1024
"""Is the size of the pieces in which a line is kept that is too long to be parsed."""

MAX_JSON_FILE_BYTES = 64 * 1024 * 1024
"""Limits a file that is one JSON value, because it must fit into memory."""

MAX_LINES_FILE_BYTES = 8 * 1024 * 1024 * 1024
"""Limits a file of lines: a few kilobytes of zstd can unpack to any amount."""

MAX_APPENDED_BYTES = 8 * 1024 * 1024
"""Limits what may be appended to a file since its mark. After more, the file is read from its beginning."""

MAX_CACHED_FILE_BYTES = 6 * 1024 * 1024
"""Limits a file whose parsed lines are cached; they take several times the size of the file."""

MAX_RECORDS_PER_LINE = 1000
"""Limits the records that are read from one line; more than two were never seen."""

_JSON_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{}\[\]]', re.DOTALL)
"""Matches a string or a bracket. A string without an end is matched up to the end of the line, which is faster than
trying again at each of its quotes."""

MAX_UNPACKED_RATIO = 200
MIN_UNPACKED_BYTES = 64 * 1024 * 1024
"""A packed file may unpack to this many times its size. Transcripts become thirty times smaller at most."""

MAX_HOLE_BYTES = 512 * 1024 * 1024
"""Limits the holes in a file. They take no space on the disk, but reading them takes as long as reading data."""

_MAX_ZSTD_WINDOW = 128 * 1024 * 1024
_MAX_ZSTD_HEADER = 18
_ZSTD_BLOCK_HEAD, _ZSTD_CHECKSUM_BYTES = 3, 4
_CHUNK_BYTES = 256 * 1024

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Is what some editors write at the beginning of a file. It is no part of the first line."""


class UnreadableText(str):
    """Is the text of a line that is not JSON, or describes a piece of a line that is too long. Readers keep it like any
    other value that they do not understand."""

    __slots__ = ()


class JsonLine(NamedTuple):
    """Holds a line of a file, parsed and verbatim. Two records on one line are two of these."""

    offset: int
    data: bytes
    "Is verbatim, without the newline."
    value: Json


# ── JSON in files ─────────────────────────────────────────────────────────────────────────────────


@contextmanager
def open_file(path: Path) -> Iterator[io.BufferedReader]:
    """Open a regular file; a zstd file is unpacked while it is read. A pipe is refused, because it would block.

    Reading fails where a large hole begins, and where a packed file has become suspiciously large.
    """
    with open_regular_file(path) as file:
        handle, status = file.fileno(), os.fstat(file.fileno())
        if path.suffix == ".zst":
            yield _open_zstd(file, max(MIN_UNPACKED_BYTES, status.st_size * MAX_UNPACKED_RATIO))
        elif (hole := _find_large_hole(handle, status.st_size)) is not None:
            yield io.BufferedReader(_FileWithHole(handle, hole))
        else:
            yield file


def _find_large_hole(handle: int, size: int) -> int | None:
    """Return where the hole begins with which the holes of a file become too large; usually None."""
    total = data = 0
    try:
        while size > MAX_HOLE_BYTES and (hole := os.lseek(handle, data, os.SEEK_HOLE)) < size:
            try:
                data = os.lseek(handle, hole, os.SEEK_DATA)
            except OSError:
                data = size  # no data follows
            total += data - hole
            if total > MAX_HOLE_BYTES:
                return hole
    except OSError:
        return None  # this file system does not know its holes
    finally:
        os.lseek(handle, 0, os.SEEK_SET)
    return None


class _FileWithHole(io.FileIO):
    """Reads a file up to a hole. Going on would take hours for a hole of a terabyte."""

    def __init__(self, handle: int, hole: int) -> None:
        super().__init__(handle, closefd=False)
        self._hole = hole

    def readinto(self, buffer: Any) -> int:
        remaining = self._hole - self.tell()
        if remaining <= 0:
            raise OSError(0, f"it has a hole of more than {MAX_HOLE_BYTES >> 20} MB at {self._hole}")
        return super().readinto(memoryview(buffer)[:remaining])

    def readall(self) -> bytes:
        raise OSError(0, f"it has a hole of more than {MAX_HOLE_BYTES >> 20} MB at {self._hole}")


def _open_zstd(file: io.BufferedReader, max_bytes: int) -> io.BufferedReader:
    # Few files are packed, so most syncs need not import it.
    import zstandard

    class ZstdStream(io.RawIOBase):
        unpacked = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # io passes a memoryview
            try:
                data = stream.read(len(buffer))
            except zstandard.ZstdError as reason:
                raise OSError(0, str(reason)) from None
            if not data and len(buffer) and _is_cut_off(file):
                raise OSError(0, "its end is missing")
            self.unpacked += len(data)
            if self.unpacked > max_bytes:
                raise OSError(0, f"it unpacks to more than {max_bytes >> 20:,} MB")
            buffer[: len(data)] = data
            return len(data)

    unpacker = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW)
    stream = unpacker.stream_reader(file, read_across_frames=True)
    return io.BufferedReader(ZstdStream())


def _is_cut_off(file: io.BufferedReader) -> bool:
    """Return whether a zstd file ends within a frame. The unpacker takes that for the end of the text."""
    import zstandard

    size = os.fstat(file.fileno()).st_size
    position = 0
    try:
        while position < size:
            file.seek(position)
            header = file.read(_MAX_ZSTD_HEADER)
            has_checksum = zstandard.get_frame_parameters(header).has_checksum
            position += zstandard.frame_header_size(header)
            is_last = False
            while not is_last:
                file.seek(position)
                if len(head := file.read(_ZSTD_BLOCK_HEAD)) < _ZSTD_BLOCK_HEAD:
                    return True
                block = int.from_bytes(head, "little")
                is_last, is_repeated = bool(block & 1), block >> 1 & 3 == 1
                position += _ZSTD_BLOCK_HEAD + (1 if is_repeated else block >> 3)
            position += _ZSTD_CHECKSUM_BYTES * has_checksum
    except zstandard.ZstdError:
        return position == 0  # what follows a frame is none of its business
    return position > size


def read_json_lines(path: Path, problems: list[Problem]) -> Iterator[JsonLine]:
    """Yield only the lines that are JSON, for those who look for a certain record."""
    return (line for line in read_lines(path, problems) if not isinstance(line.value, UnreadableText))


def read_lines(path: Path, problems: list[Problem], *, name: str = "", start: int = 0) -> Iterator[JsonLine]:
    """Yield each line. One that is not JSON is a problem, and is yielded as text so that it is not lost.

    An incomplete last line is being written, and is left out.
    """
    name = name or str(path)
    try:
        with open_file(path) as file:
            if start:
                file.seek(start)
            else:
                start = skip_byte_order_mark(file)
            yield from _parse_lines(file, problems, name, start)
    except PATH_ERRORS as reason:
        problems.append(Problem(name, f"It cannot be read: {error_text(reason)}."))


def skip_byte_order_mark(file: io.BufferedReader[Any]) -> int:
    """Go on behind the mark with which some editors begin a file. Return its length, or zero if there is none."""
    has_mark = file.peek(len(BYTE_ORDER_MARK)).startswith(BYTE_ORDER_MARK)
    return len(file.read(len(BYTE_ORDER_MARK))) if has_mark else 0


class LineCache(Generic[T]):
    """Reads files of lines, and converts each line. Repeated reads of one file do that once, unless it is too large."""

    def __init__(self, convert: Callable[[JsonLine], T]) -> None:
        self._convert = convert
        self._cached: tuple[tuple[Path, str], list[T], list[Problem]] | None = None

    def read(self, path: Path, problems: list[Problem]) -> Iterator[T]:
        """Yield every line, as `read_lines` does."""
        stamp = plain_file_stamp(path)
        if path.suffix == ".zst" or not stamp or int(stamp.partition(":")[0]) > MAX_CACHED_FILE_BYTES:
            return map(self._convert, read_lines(path, problems))
        cached = self._cached
        if cached is None or cached[0] != (path, stamp):
            cached = self._cached = None  # frees the memory of the last file first
            found: list[Problem] = []
            cached = self._cached = (path, stamp), list(map(self._convert, _load_lines(path, found))), found
        problems += cached[2]
        return iter(cached[1])


def _load_lines(path: Path, problems: list[Problem]) -> Iterator[JsonLine]:
    try:
        with open_file(path) as file:
            # Asking for no more than there is saves the time to allocate a large buffer for each small file.
            data = file.read(min(os.fstat(file.fileno()).st_size + 1, MAX_CACHED_FILE_BYTES))
    except PATH_ERRORS as reason:
        problems.append(Problem(str(path), f"It cannot be read: {error_text(reason)}."))
    else:
        yield from _parse_loaded_lines(data, problems, str(path))


def _parse_loaded_lines(data: bytes, problems: list[Problem], name: str) -> Iterator[JsonLine]:
    """Parse lines that are in memory; three times as fast as reading them one by one."""
    offset = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0
    while (end := data.find(b"\n", offset)) >= 0:
        line = data[offset:end]
        if len(line) > MAX_LINE_BYTES:
            yield from _read_long_line(io.BytesIO(line + b"\n"), b"", offset, problems, name)
        elif stripped := line.rstrip(b"\r"):
            try:
                yield JsonLine(offset, stripped, parse_bytes(stripped))
            except BadValue as reason:
                yield from _read_broken_line(stripped, offset, str(reason), problems, name)
        offset = end + 1
    if stripped := data[offset:].rstrip(b"\r"):
        yield from _read_last_line(stripped, offset)


def _parse_lines(file: io.BufferedReader, problems: list[Problem], name: str, offset: int) -> Iterator[JsonLine]:
    while data := file.readline(MAX_LINE_BYTES + 1):
        start, offset = offset, offset + len(data)
        if offset > MAX_LINES_FILE_BYTES:
            raise OSError(0, f"it is larger than {MAX_LINES_FILE_BYTES >> 30} GB")
        is_complete = data.endswith(b"\n")
        if not is_complete and len(data) > MAX_LINE_BYTES:
            offset = start + (yield from _read_long_line(file, data, start, problems, name))
        elif not is_complete:
            yield from _read_last_line(data.rstrip(b"\r"), start)
        elif stripped := data.rstrip(b"\r\n"):
            try:
                value = parse_json(stripped)
            except BadValue as reason:
                yield from _read_broken_line(stripped, start, str(reason), problems, name)
            else:
                yield JsonLine(start, stripped, value)


def _read_broken_line(line: bytes, offset: int, reason: str, problems: list[Problem], name: str) -> Iterator[JsonLine]:
    """Yield the records of a line that is not one JSON value, and what is left as text."""
    records, rest = split_records(line, offset)
    yield from records
    if rest is not None:
        problems.append(Problem(f"{name}:{rest.offset}", reason))
        yield rest


def _read_last_line(line: bytes, offset: int) -> Iterator[JsonLine]:
    """Yield the records of a last line without a newline, or nothing while it is still being written."""
    try:
        yield JsonLine(offset, line, parse_json(line))
    except BadValue:
        records, rest = split_records(line, offset)
        yield from records if rest is None else ()


def split_records(line: bytes, offset: int = 0) -> tuple[list[JsonLine], JsonLine | None]:
    """Return the objects that a line begins with, and the rest if it cannot be read.

    Two processes that write to one file, or a crash, leave out the newline between two records.
    """
    records: list[JsonLine] = []
    start = end = depth = 0
    for token in _JSON_TOKEN.finditer(line):
        if depth == 0:
            start = token.start()
            if token[0] != b"{" or line[end:start].strip() or len(records) == MAX_RECORDS_PER_LINE:
                break
        depth += (token[0] in b"{[") - (token[0] in b"}]")
        if depth == 0:
            try:
                records.append(
                    JsonLine(offset + start, line[start : token.end()], parse_json(line[start : token.end()]))
                )
            except BadValue:
                break
            end = token.end()
    rest = line[end:].lstrip() if records else line
    if not rest.strip():
        return records, None
    return records, JsonLine(offset + len(line) - len(rest), rest, UnreadableText(rest.decode("utf-8", "replace")))


def _read_long_line(
    file: io.BufferedIOBase, beginning: bytes, start: int, problems: list[Problem], name: str
) -> Generator[JsonLine, None, int]:
    """Yield a line that is too long to be parsed, in pieces, and return its length.

    An incomplete last line is left out, because its end is still being written.
    """
    rest = file.tell() if file.seekable() else None
    if rest is not None:
        length, is_complete = _measure_line(file)
        if not is_complete:
            reason = f"The last line is longer than {MAX_LINE_BYTES >> 20} MB and has no end yet."
            problems.append(Problem(f"{name}:{start}", reason))
            return len(beginning) + length
        file.seek(rest)
    length = 0
    for piece in _read_pieces(beginning, file):
        if length < MAX_KEPT_LINE_BYTES and (data := piece.rstrip(b"\r\n")):
            text = f"{len(data):,} bytes, from byte {length:,} on, of a line that is too long to be read"
            yield JsonLine(start + length, data, UnreadableText(text))
        length += len(piece)
    kept = "It is" if length <= MAX_KEPT_LINE_BYTES else f"Its first {MAX_KEPT_LINE_BYTES >> 20} MB are"
    reason = f"The line has {length:,} bytes and is too long to be read. {kept} kept in pieces."
    problems.append(Problem(f"{name}:{start}", reason))
    return length


def _read_pieces(beginning: bytes, file: io.BufferedIOBase) -> Iterator[bytes]:
    """Yield the rest of a line, whose beginning was read already, in pieces."""
    size = 0
    while size < len(beginning):
        piece = beginning[size : size + PIECE_BYTES]
        piece += file.readline(PIECE_BYTES - len(piece)) if len(piece) < PIECE_BYTES else b""
        size += len(piece)
        yield piece
        if piece.endswith(b"\n"):
            return
    while size <= MAX_LINES_FILE_BYTES and (piece := file.readline(PIECE_BYTES)):
        size += len(piece)
        yield piece
        if piece.endswith(b"\n"):
            return


def _measure_line(file: io.BufferedIOBase) -> tuple[int, bool]:
    """Skip the rest of a line, and return its length and whether it has an end."""
    skipped = 0
    while chunk := file.readline(_CHUNK_BYTES):
        skipped += len(chunk)
        if chunk.endswith(b"\n"):
            return skipped, True
        if skipped > MAX_LINES_FILE_BYTES:
            break
    return skipped, False


class FileMark(NamedTuple):
    """Says how far a file was read. Reading continues there only if everything before it is unchanged."""

    path: str
    end: int
    checksum: str
    "Is that of everything before the end. Marks of version 0.1.0 have a digest here, so their files are read again."

    @classmethod
    def from_file(cls, path: Path, end: int, stamp: str) -> FileMark | None:
        """Return a mark; None when reading this file cannot be continued.

        `stamp` is that of the file before it was read. A file that changed since then may be another one than was read.
        """
        checksum = _PrefixChecksum(path).compute_up_to(end) if path.suffix not in (".zst", ".json") else ""
        return cls(str(path), end, checksum) if checksum and plain_file_stamp(path) == stamp else None

    def read_appended(self, path: Path) -> tuple[list[JsonLine], FileMark] | None:
        """Return the appended lines and the next mark.

        Returns None when the file was rewritten, cut or packed, or when it grew too much. It may have been moved.
        """
        try:
            grew_too_much = path.stat().st_size - self.end > MAX_APPENDED_BYTES
        except PATH_ERRORS:
            return None
        prefix = _PrefixChecksum(path)
        if grew_too_much or prefix.compute_up_to(self.end) != self.checksum:
            return None
        problems: list[Problem] = []
        lines = list(read_lines(path, problems, start=self.end))
        if problems:
            return None  # a read from the beginning reports them
        end = lines[-1].offset + len(lines[-1].data) if lines else self.end
        return lines, FileMark(str(path), end, prefix.compute_up_to(end))


class _PrefixChecksum:
    """Computes checksums of the beginning of a file, each a little longer than the one before.

    It is a CRC-32, which takes a third of the time of a digest. The records themselves have digests.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = self._crc = 0

    def compute_up_to(self, end: int) -> str:
        """Return the checksum; empty when the file is shorter."""
        try:
            with open_file(self._path) as file:
                file.seek(self._position)
                while self._position < end and (chunk := file.read(min(end - self._position, 1 << 20))):
                    self._crc = zlib.crc32(chunk, self._crc)
                    self._position += len(chunk)
        except PATH_ERRORS:
            return ""
        return f"{self._crc:08x}" if self._position == end else ""


def modified_at(path: Path) -> str:
    """Return when a file was changed; empty when it cannot be read."""
    try:
        return normalize_time(path.stat().st_mtime)
    except PATH_ERRORS:
        return ""


def read_json_file(path: Path, problems: list[Problem], *, name: str = "") -> Json | None:
    """Return the value of a JSON file; None, and a problem, when it is broken or too large."""
    record = read_json_record(path, problems, name=name)
    return record.value if record else None


@lru_cache(maxsize=1)
def load_json_file(path: Path, stamp: str) -> tuple[Mapping[str, Json], tuple[Problem, ...]]:
    """Return the object in a file, and its problems. The last file is cached, because its sub-agents are read after
    it; a file with another stamp is read again."""
    problems: list[Problem] = []
    value = read_json_file(path, problems)
    return value if isinstance(value, dict) else {}, tuple(problems)


def read_json_record(path: Path, problems: list[Problem], *, name: str = "") -> JsonLine | None:
    """Return the value of a JSON file together with its bytes; None, and a problem, when it is broken or too large."""
    name = name or str(path)
    try:
        with open_file(path) as file:
            skip_byte_order_mark(file)
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
    """Parse JSON. A byte that is not UTF-8 inside a string is replaced; the record keeps it."""
    return parse_bytes(data)


def record_from_line(line: JsonLine, path: str) -> NewRecord:
    return NewRecord(line.data, path, str(line.offset))


# ── fields of foreign records, which may have any type ────────────────────────────────────────────


def as_str(value: Json) -> str:
    """Return a text; empty for any other value."""
    return value if isinstance(value, str) else ""


def first_str(record: Mapping[str, Json], names: Iterable[str]) -> str:
    """Return the first of these fields that is a text and not empty; empty when there is none."""
    for name in names:
        if name in record and isinstance(text := record[name], str) and text:
            return text
    return ""


def as_dict(value: Json) -> Mapping[str, Json]:
    """Return an object; empty for any other value."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    """Return a list; empty for any other value."""
    return value if isinstance(value, list) else []


def as_count(value: Json) -> int:
    """Return a count; 0 for any value that cannot be one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def cost_fields(value: Json) -> SessionFields:
    """Return the cost of a session as a field; nothing when the value is no amount or nothing was paid."""
    cost = float(value) if isinstance(value, int | float) and 0 < value < 1e9 and not isinstance(value, bool) else 0.0
    return {"cost": cost} if cost else {}


def as_time(value: Json) -> str:
    """Return a time in the store's format; empty for a value that is none."""
    return (
        normalize_time(value)
        if isinstance(value, str) or (isinstance(value, int | float) and abs(value) < 2**53)
        else ""
    )
