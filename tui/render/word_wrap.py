"""Long text in lines that fit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from store.text.sanitize import cells, clean, expand_tabs

WRAP_AT_LEAST = 20
SLICE = 16_384


class Chunk(str):
    """A line of a long string, laid out to be read: clean, its tabs expanded."""

    __slots__ = ()


def wrapped(text: str, width: int) -> Iterator[Chunk]:
    """The lines of a text, broken between words where there are any."""
    width = max(width, WRAP_AT_LEAST)
    for line in text.split("\n"):
        yield from map(Chunk, _broken(line.removesuffix("\r"), width))


def _broken(line: str, width: int) -> Iterator[str]:
    """Slice by slice: cleaning megabytes at once would keep other threads from their turn."""
    rest = ""
    for start in range(0, len(line), SLICE):
        rest += expand_tabs(clean(line[start : start + SLICE]))
        at = 0
        while len(rest) - at > width or cells(rest[at:]) > width:
            piece = rest[at : at + width + 1]
            end = width if piece.isascii() else bisect_right([*accumulate(map(cells, piece))], width)
            space = piece.rfind(" ", width // 2, end + 1)
            yield rest[at : at + (space if space > 0 else max(end, 1))]
            at += space + 1 if space > 0 else max(end, 1)
        rest = rest[at:]
    yield rest
