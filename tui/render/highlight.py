"""This module highlights the words that a person searches for in a pane."""

from __future__ import annotations

import re

from textual.content import Content

FIND_HIT_STYLE = "$block-cursor-foreground on $warning"


def highlight_words(content: Content, words: str) -> Content:
    """Highlight every occurrence of the words, ignoring case."""
    if not words:
        return content
    for match in re.finditer(re.escape(words), content.plain, re.IGNORECASE):
        content = content.stylize(FIND_HIT_STYLE, match.start(), match.end())
    return content
