"""What skimming transcripts takes: their lines as bytes, and which of them are worth being understood."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from store.model.entry import Json
from store.sources.kit.jsonl import UNREADABLE, mapping, opened, words

STRING = rb'"(?:[^"\\]++|\\.)*+"'
"""In a pattern: JSON's, with its quotes."""

_PIECE = 4 * 1024 * 1024
_LONGEST = 16 * 1024 * 1024
"""Of a line that is looked at; nobody said so much."""


def pieces(path: Path) -> Iterator[bytes]:
    """The file in whole lines, mostly all of them at once. None of one that cannot be read: whoever reads it tells."""
    with suppress(*UNREADABLE):
        known = path.stat()
        if stat.S_ISREG(known.st_mode) and known.st_size < _PIECE and path.suffix != ".zst":
            yield path.read_bytes()
        else:
            yield from _pieces_of_many(path)


def _pieces_of_many(path: Path) -> Iterator[bytes]:
    with opened(path) as file:
        rest = b""
        while read := file.read(_PIECE):
            whole, _, rest = (rest + read).rpartition(b"\n")
            yield whole
            if len(rest) > _LONGEST:
                rest = b""
        yield rest


def lines_with(mark: bytes, piece: bytes, near: int) -> Iterator[bytes]:
    """Those that have it in their first bytes. The others are not even taken apart."""
    at = piece.find(mark)
    while at >= 0:
        start, line = _around(at, piece)
        if at - start < near:
            yield line
        at = piece.find(mark, start + len(line))


def last_line_with(mark: bytes, piece: bytes, near: int) -> bytes:
    """Nothing where there is none."""
    at = piece.rfind(mark)
    while at >= 0:
        start, line = _around(at, piece)
        if at - start < near:
            return line
        at = piece.rfind(mark, 0, start)
    return b""


def _around(at: int, piece: bytes) -> tuple[int, bytes]:
    """The line there, and where it begins."""
    start, end = piece.rfind(b"\n", 0, at) + 1, piece.find(b"\n", at)
    return start, piece[start:end] if end >= 0 else piece[start:]


def told_in(line: bytes) -> Mapping[str, Json]:
    """Nothing where it is broken, or something other than an object."""
    return mapping(_parsed(line))


def text_in(string: bytes) -> str:
    """Nothing where it is broken."""
    return words(_parsed(string))


def _parsed(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
