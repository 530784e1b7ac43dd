"""How wide, with which words marked: what every picture of a conversation is made for, and how text is fitted to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from textual.content import Content

from store.text.sanitize import clean, expand_tabs
from tui.render.styles import FAINT, Piece, content

HIT = "bold $text-warning on $warning-muted"

AT_ONCE = 12_000
"""Characters of one text that are laid out unasked; more would keep a person waiting for what few read."""

AT_MOST = 400_000
"""Characters that are laid out when asked for the whole; the rest stands in the record."""


class Look(NamedTuple):
    width: int
    marks: re.Pattern[str] | None = None
    whole: bool = False
    "All of a long text, since somebody asked for it."
    cwd: str = ""
    "The folder in which it happened; paths below it are told without it."

    def narrower(self, by: int) -> Look:
        return self._replace(width=max(self.width - by, 1))

    def mark(self, line: Content) -> Content:
        if self.marks is not None:
            for found in self.marks.finditer(line.plain):
                if found.start() < found.end():
                    line = line.stylize(HIT, *found.span())
        return line

    def wrap(self, text: Content) -> list[Content]:
        return [line.truncate(self.width) for line in self.mark(text).wrap(self.width)]

    def fold(self, line: Content) -> list[Content]:
        """Broken where the width ends, as code is: a space is worth as much as a letter."""
        # Emoji joined into one picture may come apart, and take more room in pieces.
        room = max(self.width - 2 * ("\u200d" in line.plain), 1)
        return [part.truncate(self.width) for part in self.mark(line).fold(room)] or [Content("")]

    def cut(self, line: Content) -> Content:
        return self.mark(line).truncate(self.width, ellipsis=True)

    def limited(self, text: str) -> tuple[str, int]:
        """As much as is laid out, and how many characters are left."""
        limit = AT_MOST if self.whole else AT_ONCE
        if len(text) <= limit:
            return text, 0
        return text[:limit], len(text) - limit

    def more(self, left: int, thing: str) -> Iterator[Content]:
        if left:
            how = "the record has them" if self.whole else "w shows all"
            yield self.cut(content([(f"… {left:,} more {thing} · {how}", f"italic {FAINT}")]))


@lru_cache(maxsize=64)
def shown(text: str) -> str:
    """Foreign text as it may stand on several lines."""
    return expand_tabs(clean(text))


def plain(text: str, look: Look, style: str = "") -> Iterator[Content]:
    """Text as it was written, its own lines kept."""
    text, left = look.limited(text.strip("\n"))
    for line in shown(text).split("\n"):
        yield from look.wrap(content([(line, style)])) if line else [Content("")]
    yield from look.more(left, "characters")


def prefixed(prefix: Piece, lines: Iterator[Content]) -> Iterator[Content]:
    start = content([prefix])
    return (start + line for line in lines)
