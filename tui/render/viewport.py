"""How wide, with which words marked: what every picture of a conversation is made for, and how text is fitted to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from textual.content import Content

from store.text.sanitize import expand_tabs, sanitize
from tui.render.styles import FAINT, StyledText, build_content

HIT_STYLE = "bold $text-warning on $warning-muted"

DEFAULT_TEXT_LIMIT = 12_000
"""Characters of one text that are laid out unasked; more would keep a person waiting for what few read."""

FULL_TEXT_LIMIT = 400_000
"""Characters that are laid out when asked for the whole; the rest stands in the record."""


class Viewport(NamedTuple):
    width: int
    highlight: re.Pattern[str] | None = None
    is_full: bool = False
    "All of a long text, since somebody asked for it."
    cwd: str = ""
    "The folder in which it happened; paths below it are told without it."

    def narrow_by(self, by: int) -> Viewport:
        return self._replace(width=max(self.width - by, 1))

    def apply_highlight(self, line: Content) -> Content:
        if self.highlight is not None:
            for found in self.highlight.finditer(line.plain):
                if found.start() < found.end():
                    line = line.stylize(HIT_STYLE, *found.span())
        return line

    def wrap(self, text: Content) -> list[Content]:
        return [line.truncate(self.width) for line in self.apply_highlight(text).wrap(self.width)]

    def hard_wrap(self, line: Content) -> list[Content]:
        """Broken where the width ends, as code is: a space is worth as much as a letter."""
        # Emoji joined into one picture may come apart, and take more room in pieces.
        room = max(self.width - 2 * ("\u200d" in line.plain), 1)
        return [part.truncate(self.width) for part in self.apply_highlight(line).fold(room)] or [Content("")]

    def truncate(self, line: Content) -> Content:
        return self.apply_highlight(line).truncate(self.width, ellipsis=True)

    def limit_text(self, text: str) -> tuple[str, int]:
        """As much as is laid out, and how many characters are left."""
        limit = FULL_TEXT_LIMIT if self.is_full else DEFAULT_TEXT_LIMIT
        if len(text) <= limit:
            return text, 0
        return text[:limit], len(text) - limit

    def render_more(self, left: int, thing: str) -> Iterator[Content]:
        if left:
            how = "the record has them" if self.is_full else "w shows all"
            yield self.truncate(build_content([(f"… {left:,} more {thing} · {how}", f"italic {FAINT}")]))


@lru_cache(maxsize=64)
def to_display_text(text: str) -> str:
    """Foreign text as it may stand on several lines."""
    return expand_tabs(sanitize(text))


def render_plain_text(text: str, look: Viewport, style: str = "") -> Iterator[Content]:
    """Text as it was written, its own lines kept."""
    text, left = look.limit_text(text.strip("\n"))
    for line in to_display_text(text).split("\n"):
        yield from look.wrap(build_content([(line, style)])) if line else [Content("")]
    yield from look.render_more(left, "characters")


def prefix_lines(prefix: StyledText, lines: Iterator[Content]) -> Iterator[Content]:
    start = build_content([prefix])
    return (start + line for line in lines)
