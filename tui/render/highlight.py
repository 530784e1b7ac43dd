"""Words that were found, set off from the rest."""

from __future__ import annotations

import re

from textual.content import Content

FIND_HIT_STYLE = "$block-cursor-foreground on $warning"


def highlight_words(shown: Content, words: str) -> Content:
    """The words set off, wherever they stand and whatever their case."""
    if not words:
        return shown
    for found in re.finditer(re.escape(words), shown.plain, re.IGNORECASE):
        shown = shown.stylize(FIND_HIT_STYLE, found.start(), found.end())
    return shown
