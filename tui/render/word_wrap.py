"""Long text in lines that fit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from store.text.sanitize import cell_width, expand_tabs, sanitize

MIN_WIDTH = 20
SLICE_CHARACTERS = 16_384


class WrappedLine(str):
    """A line of a long string, laid out to be read: clean, its tabs expanded."""

    __slots__ = ()


def wrap_text(text: str, width: int) -> Iterator[WrappedLine]:
    """The lines of a text, broken between words where there are any."""
    width = max(width, MIN_WIDTH)
    for line in text.split("\n"):
        yield from map(WrappedLine, _wrap_line(line.removesuffix("\r"), width))


def _wrap_line(line: str, width: int) -> Iterator[str]:
    """Slice by slice: cleaning megabytes at once would keep other threads from their turn."""
    rest = ""
    for start in range(0, len(line), SLICE_CHARACTERS):
        rest += expand_tabs(sanitize(line[start : start + SLICE_CHARACTERS]))
        at = 0
        while len(rest) - at > width or cell_width(rest[at:]) > width:
            piece = rest[at : at + width + 1]
            end = width if piece.isascii() else bisect_right([*accumulate(map(cell_width, piece))], width)
            space = piece.rfind(" ", width // 2, end + 1)
            yield rest[at : at + (space if space > 0 else max(end, 1))]
            at += space + 1 if space > 0 else max(end, 1)
        rest = rest[at:]
    yield rest
