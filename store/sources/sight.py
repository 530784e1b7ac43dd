"""What skimming transcripts takes: their lines as bytes, and which of them are worth being understood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import orjson

from store.model import Json
from store.sources.lines import UNREADABLE, mapping, opened

HEAD = 640
"""Bytes at the beginning of a line that tell what it is."""

_CHUNK = 4 * 1024 * 1024
_LONGEST = 16 * 1024 * 1024
"""Of a line that is looked at; nobody said so much."""


def lines_at_sight(path: Path) -> Iterator[bytes]:
    """None of a file that cannot be read: whoever reads it tells of that."""
    with suppress(*UNREADABLE), opened(path) as file:
        rest = b""
        while chunk := file.read(_CHUNK):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole
            if len(rest) > _LONGEST:
                rest = b""
        yield rest


def told_in(line: bytes) -> Mapping[str, Json]:
    """Nothing where it is broken, or something other than an object."""
    try:
        return mapping(orjson.loads(line))
    except orjson.JSONDecodeError:
        return {}
