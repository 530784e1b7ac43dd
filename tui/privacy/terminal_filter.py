"""The last thing every line passes on its way to the terminal.

What is shown has been cleaned where it was painted. Should one place forget to, Textual would hand an escape sequence
to the terminal as it stands, and the terminal would obey it; here it becomes a picture of itself. Links are dropped
altogether: a terminal may open what a conversation chose.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.filter import LineFilter

from store.text.sanitize import clean

if TYPE_CHECKING:
    from textual.color import Color

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_PICTURES_OF_BLANKS = {ord("\n"): "␊", ord("\t"): "␉"}


class Backstop(LineFilter):
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if is_plain("".join([text for text, _, _ in segments])) and not any(map(_is_more_than_text, segments)):
            return segments
        # Textual counts control characters as nothing, their pictures take a cell: keep the line's length.
        return Segment.adjust_line_length(list(map(_made_safe, segments)), sum(s.cell_length for s in segments))


def is_plain(text: str) -> bool:
    """Whether there is nothing in it that a terminal would obey."""
    return not _CONTROLS.search(text)


def _is_more_than_text(segment: Segment) -> bool:
    return bool(segment.control or (segment.style and segment.style.link))


def _made_safe(segment: Segment) -> Segment:
    style = segment.style
    if style is not None and style.link:
        style = style.update_link(None)
    return Segment(clean(segment.text).translate(_PICTURES_OF_BLANKS), style)
