"""What skimming transcripts takes: their lines as bytes, and which of them are worth being understood."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from store.model.entry import Json
from store.sources.kit.jsonl import PATH_ERRORS, as_dict, as_str, open_file

JSON_STRING = rb'"(?:[^"\\]++|\\.)*+"'
"""In a pattern: JSON's, with its quotes."""

_CHUNK_BYTES = 4 * 1024 * 1024
_MAX_LINE_BYTES = 16 * 1024 * 1024
"""Of a line that is looked at; nobody said so much."""


def read_chunks(path: Path) -> Iterator[bytes]:
    """The file in whole lines, mostly all of them at once. None of one that cannot be read: whoever reads it tells."""
    with suppress(*PATH_ERRORS):
        known = path.stat()
        if stat.S_ISREG(known.st_mode) and known.st_size < _CHUNK_BYTES and path.suffix != ".zst":
            yield path.read_bytes()
        else:
            yield from _read_large_file(path)


def _read_large_file(path: Path) -> Iterator[bytes]:
    with open_file(path) as file:
        rest = b""
        while read := file.read(_CHUNK_BYTES):
            whole, _, rest = (rest + read).rpartition(b"\n")
            yield whole
            if len(rest) > _MAX_LINE_BYTES:
                rest = b""
        yield rest


def find_lines(mark: bytes, piece: bytes, near: int) -> Iterator[bytes]:
    """Those that have it in their first bytes. The others are not even taken apart."""
    at = piece.find(mark)
    while at >= 0:
        start, line = _line_at(at, piece)
        if at - start < near:
            yield line
        at = piece.find(mark, start + len(line))


def find_last_line(mark: bytes, piece: bytes, near: int) -> bytes:
    """Nothing where there is none."""
    at = piece.rfind(mark)
    while at >= 0:
        start, line = _line_at(at, piece)
        if at - start < near:
            return line
        at = piece.rfind(mark, 0, start)
    return b""


def _line_at(at: int, piece: bytes) -> tuple[int, bytes]:
    """The line there, and where it begins."""
    start, end = piece.rfind(b"\n", 0, at) + 1, piece.find(b"\n", at)
    return start, piece[start:end] if end >= 0 else piece[start:]


def parse_object(line: bytes) -> Mapping[str, Json]:
    """Nothing where it is broken, or something other than an object."""
    return as_dict(_parse_or_none(line))


def parse_string(string: bytes) -> str:
    """Nothing where it is broken."""
    return as_str(_parse_or_none(string))


def _parse_or_none(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
