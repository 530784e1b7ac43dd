"""This module fits text into the width of a timeline and highlights words in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from textual.content import Content

from store.text.sanitize import expand_tabs, sanitize
from tui.render.styles import FAINT, StyledText, build_content, format_count

HIT_STYLE = "bold $text-warning on $warning-muted"

DEFAULT_TEXT_LIMIT = 12_000
"""Limits the characters of one text that are rendered at first, because most long texts are not read to the end."""

FULL_TEXT_LIMIT = 400_000
"""Limits the characters that are rendered when a person asks for the full text. The record has the rest."""


class Viewport(NamedTuple):
    """Describes the space and the options that an item is rendered with."""

    width: int
    highlight: re.Pattern[str] | None = None
    is_full: bool = False
    "Shows long texts in full."
    cwd: str = ""
    "The folder of the session. Paths below it are shown without it."

    def narrow_by(self, by: int) -> Viewport:
        return self._replace(width=max(self.width - by, 1))

    def apply_highlight(self, line: Content) -> Content:
        if self.highlight is not None:
            for match in self.highlight.finditer(line.plain):
                if match.start() < match.end():
                    line = line.stylize(HIT_STYLE, *match.span())
        return line

    def wrap(self, text: Content) -> list[Content]:
        return [line.truncate(self.width) for line in self.apply_highlight(text).wrap(self.width)]

    def hard_wrap(self, line: Content) -> list[Content]:
        """Break a line of code exactly at the width, even within a word."""
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


@lru_cache(maxsize=64)
def to_display_text(text: str) -> str:
    """Sanitize a foreign text that may have several lines."""
    return expand_tabs(sanitize(text))


def render_plain_text(text: str, viewport: Viewport, style: str = "") -> Iterator[Content]:
    """Render a text and keep its line breaks."""
    text, left = viewport.limit_text(text.strip("\n"))
    for line in to_display_text(text).split("\n"):
        yield from viewport.wrap(build_content([(line, style)])) if line else [Content("")]
    yield from viewport.render_more(left, "character")


def prefix_lines(prefix: StyledText, lines: Iterator[Content]) -> Iterator[Content]:
    start = build_content([prefix])
    return (start + line for line in lines)
