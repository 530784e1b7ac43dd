"""This module fits text into the width of a timeline and highlights words in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, Protocol

from textual.content import Content, Span
from textual.style import Style

from store.text.sanitize import cell_width, expand_tabs, sanitize
from tui.render.styles import FAINT, StyledText, build_content, format_count

HIT_STYLE = "bold $text-warning on $warning-muted"

MAX_HIGHLIGHTED_HITS = 5_000
"""Limits the hits in one line that are highlighted, because wrapping a line takes longer with each of them."""

DEFAULT_TEXT_LIMIT = 12_000
"""Limits the characters of one text that are rendered at first, because most long texts are not read to the end."""

FULL_TEXT_LIMIT = 400_000
"""Limits the characters that are rendered when a person asks for the full text. The record has the rest."""


class HangingLine(NamedTuple):
    """Is a line whose continuation hangs under its text and not under the number or sign before it."""

    head: Content
    text: Content
    fill: str = ""
    "The style of the whole line, up to the right edge."

    @property
    def plain(self) -> str:
        return self.head.plain + self.text.plain

    def indent(self, cells: int) -> HangingLine:
        return self._replace(head=Content(" " * cells) + self.head)

    def wrap(self, width: int) -> list[Content]:
        """Break the line between words."""
        text, room = self.text.plain, self._room(width)
        own_indent = len(text) - len(text.lstrip(" "))
        if cell_width(text) <= room or own_indent >= room // 2:
            return self._join(self.text.fold(room), width)
        # Textual drops blanks where it breaks a line, so the text keeps its own indentation in every line.
        parts = self.text[own_indent:].wrap(room - own_indent)
        return self._join([Content(" " * own_indent) + part for part in parts], width)

    def fold(self, width: int) -> list[Content]:
        """Break the line exactly at the width."""
        return self._join(self.text.fold(self._room(width)), width)

    def _room(self, width: int) -> int:
        # A joined emoji may be split, and its pieces need more room.
        return max(width - self.head.cell_length - 2 * ("\u200d" in self.text.plain), 1)

    def _join(self, parts: Sequence[Content], width: int) -> list[Content]:
        indent = Content(" " * self.head.cell_length)
        lines = [(indent if n else self.head) + part for n, part in enumerate(parts or [Content("")])]
        return [self._fill(line.truncate(width), width) for line in lines]

    def _fill(self, line: Content, width: int) -> Content:
        if not self.fill:
            return line
        return line.pad_right(max(width - line.cell_length, 0)).stylize_before(self.fill)


RenderedLine = Content | HangingLine


class WrappableLine(Protocol):
    """Is any line that can be broken into lines of a width."""

    def wrap(self, width: int) -> list[Content]: ...


class Viewport(NamedTuple):
    """Describes the space and the options that an item is rendered with."""

    width: int
    highlight: re.Pattern[str] | None = None
    is_full: bool = False
    "Shows long texts in full."
    cwd: str = ""
    "The folder of the session. Paths below it are shown without it."
    hyperlinks: bool = False
    "Marks web addresses, so that the terminal can open them."

    def narrow_by(self, by: int) -> Viewport:
        return self._replace(width=max(self.width - by, 1))

    def apply_highlight(self, line: Content) -> Content:
        spans = list(_mark_addresses(line.plain)) if self.hyperlinks and "://" in line.plain else []
        if self.highlight is not None:
            found = islice(self.highlight.finditer(line.plain), MAX_HIGHLIGHTED_HITS)
            spans += [Span(*match.span(), HIT_STYLE) for match in found if match.start() < match.end()]
        return line.add_spans(spans) if spans else line

    def wrap(self, text: Content) -> list[Content]:
        return [line.truncate(self.width) for line in self.apply_highlight(text).wrap(self.width)]

    def hard_wrap(self, line: RenderedLine) -> list[Content]:
        """Break a line of code exactly at the width, even within a word."""
        if isinstance(line, HangingLine):
            return line._replace(text=self.apply_highlight(line.text)).fold(self.width)
        # A joined emoji may be split, and its pieces need more room.
        room = max(self.width - 2 * ("\u200d" in line.plain), 1)
        return [part.truncate(self.width) for part in self.apply_highlight(line).fold(room)] or [Content("")]

    def truncate(self, line: Content) -> Content:
        return self.apply_highlight(line).truncate(self.width, ellipsis=True)

    def limit_text(self, text: str) -> tuple[str, int]:
        """Return the text that is rendered, and the number of characters that are left out."""
        limit = FULL_TEXT_LIMIT if self.is_full else DEFAULT_TEXT_LIMIT
        if len(text) <= limit:
            return text, 0
        return text[:limit], len(text) - limit

    def render_more(self, left: int, thing: str) -> Iterator[Content]:
        if left:
            hint = "see the record" if self.is_full else "w to show all"
            more = format_count(left, f"more {thing}")
            yield self.truncate(build_content([(f"… {more} · {hint}", f"italic {FAINT}")]))


def _mark_addresses(line: str) -> Iterator[Span]:
    """Mark each address with itself. The terminal filter removes the mark where only a part of it stands on a line."""
    # Imported here, because links are off by default.
    from store.text.links import find_address_spans
    from store.text.web_address import is_safe_address

    for start, end in find_address_spans(line):
        if is_safe_address(address := line[start:end]):
            yield Span(start, end, Style(link=address))


@lru_cache(maxsize=64)
def to_display_text(text: str) -> str:
    """Sanitize a foreign text that may have several lines."""
    return expand_tabs(sanitize(text))


def render_plain_text(text: str, viewport: Viewport, style: str = "") -> Iterator[Content]:
    """Render a text and keep its line breaks."""
    text, left = viewport.limit_text(text.strip("\n"))
    for line in to_display_text(text).split("\n"):
        content = build_content([(line, style)])
        if len(line) <= viewport.width and line.isascii():
            yield viewport.apply_highlight(content)
        else:
            yield from viewport.wrap(content)
    yield from viewport.render_more(left, "character")


def prefix_lines(prefix: StyledText, lines: Iterator[Content]) -> Iterator[Content]:
    start = build_content([prefix])
    return (start + line for line in lines)
