"""This module wraps long text into lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from store.text.sanitize import cell_width, expand_tabs, sanitize

MIN_WIDTH = 20
SLICE_CHARACTERS = 16_384


class WrappedLine(str):
    """Is a line of a long string, sanitized and with its tabs expanded."""

    __slots__ = ()


def wrap_text(text: str, width: int) -> Iterator[WrappedLine]:
    """Yield the lines of a text, broken between words if possible."""
    width = max(width, MIN_WIDTH)
    for line in text.split("\n"):
        yield from map(WrappedLine, _wrap_line(line.removesuffix("\r"), width))


def _wrap_line(line: str, width: int) -> Iterator[str]:
    """Wrap one line in slices, because sanitizing megabytes in one call would block other threads."""
    rest = ""
    for start in range(0, len(line), SLICE_CHARACTERS):
        rest += expand_tabs(sanitize(line[start : start + SLICE_CHARACTERS]))
        position = 0
        while len(rest) - position > width or cell_width(rest[position:]) > width:
            piece = rest[position : position + width + 1]
            end = width if piece.isascii() else bisect_right([*accumulate(map(cell_width, piece))], width)
            space = piece.rfind(" ", width // 2, end + 1)
            yield rest[position : position + (space if space > 0 else max(end, 1))]
            position += space + 1 if space > 0 else max(end, 1)
        rest = rest[position:]
    yield rest
