"""This module scans transcripts quickly: it reads lines as bytes and parses only those that a quick index needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, cast

import orjson

from store.model.entry import Json
from store.sources.kit.jsonl import BYTE_ORDER_MARK, PATH_ERRORS, as_dict, as_str, open_file, skip_byte_order_mark

JSON_STRING = rb'"(?:[^"\\]++|\\.)*+"'
"""Matches a JSON string with its quotes."""

_RECORD_BOUNDARY = re.compile(rb'\}[ \t]*(?=\{"[A-Za-z_$])')
"""Matches the end of a record that another one follows on the same line. No string can contain it: the quote would end
the string, and a letter cannot follow there."""

_CHUNK_BYTES = 4 * 1024 * 1024
_BUFFER_BYTES = 1024 * 1024
"""Is how much is read ahead where lines are read one by one."""

_JOINED_BYTES = 2048
"""Is how much of the end of a line is searched for a second record. Searching long outputs of tools for it takes longer
than everything else, and a message behind one that is longer than this is still found when its session is read."""

_MAX_LINE_BYTES = 16 * 1024 * 1024
"""Limits the length of a scanned line; no prompt or answer is that long."""


def scan_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file. An unreadable file yields nothing, because the full read reports it."""
    with suppress(*PATH_ERRORS), open_file(path) as file:
        size = min(_BUFFER_BYTES, path.stat().st_size + 1)
        buffered = BufferedReader(cast("RawIOBase", file), size)
        skip_byte_order_mark(buffered)
        for line in iter(partial(buffered.readline, _MAX_LINE_BYTES), b""):
            if _RECORD_BOUNDARY.search(line, len(line) - _JOINED_BYTES):
                yield from separate_records(line).split(b"\n")
            else:
                yield line


def read_chunks(path: Path) -> Iterator[bytes]:
    """Yield the file in pieces of complete lines, usually in one piece.

    An unreadable file yields nothing, because the full read reports it.
    """
    with suppress(*PATH_ERRORS), open_file(path) as file:
        # Asking for no more than there is saves the memory of a large buffer for each small file.
        is_packed = path.suffix == ".zst"
        data = file.read(_CHUNK_BYTES if is_packed else min(_CHUNK_BYTES, path.stat().st_size + 1))
        data = data.removeprefix(BYTE_ORDER_MARK)
        if len(data) < _CHUNK_BYTES:
            yield separate_records(data)
        else:
            yield from map(separate_records, _split_large_file(file, data))


def separate_records(chunk: bytes) -> bytes:
    """Put each of several records on one line on a line of its own."""
    return _RECORD_BOUNDARY.sub(b"}\n", chunk) if _RECORD_BOUNDARY.search(chunk) else chunk


def _split_large_file(file: BufferedReader, data: bytes) -> Iterator[bytes]:
    rest = b""
    while data:
        lines, _, rest = (rest + data).rpartition(b"\n")
        yield lines
        if len(rest) > _MAX_LINE_BYTES:
            rest = b""
        data = file.read(_CHUNK_BYTES)
    yield rest


def find_lines(marker: bytes, chunk: bytes, limit: int) -> Iterator[bytes]:
    """Yield the lines that contain the marker in their first bytes. Other lines are not even split."""
    position = chunk.find(marker)
    while position >= 0:
        start, line = _line_at(position, chunk)
        if position - start < limit:
            yield line
        position = chunk.find(marker, start + len(line))


def find_last_line(marker: bytes, chunk: bytes, limit: int) -> bytes:
    """Return the last line that contains the marker in its first bytes; empty when there is none."""
    position = chunk.rfind(marker)
    while position >= 0:
        start, line = _line_at(position, chunk)
        if position - start < limit:
            return line
        position = chunk.rfind(marker, 0, start)
    return b""


def _line_at(position: int, chunk: bytes) -> tuple[int, bytes]:
    """Return where the line at this position begins, and the line."""
    start, end = chunk.rfind(b"\n", 0, position) + 1, chunk.find(b"\n", position)
    return start, chunk[start:end] if end >= 0 else chunk[start:]


def parse_object(line: bytes) -> Mapping[str, Json]:
    """Return an object; empty when the line is broken or not an object."""
    return as_dict(_parse_or_none(line))


def parse_string(string: bytes) -> str:
    """Return a string; empty when it is broken."""
    return as_str(_parse_or_none(string))


def _parse_or_none(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
