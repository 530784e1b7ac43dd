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

from store.text.sanitize import sanitize

if TYPE_CHECKING:
    from textual.color import Color

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_VISIBLE_BLANKS = {ord("\n"): "␊", ord("\t"): "␉"}


class TerminalFilter(LineFilter):
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if is_safe_for_terminal("".join([text for text, _, _ in segments])) and not any(
            map(_has_control_or_link, segments)
        ):
            return segments
        # Textual counts control characters as nothing, their pictures take a cell: keep the line's length.
        return Segment.adjust_line_length(list(map(_sanitize_segment, segments)), sum(s.cell_length for s in segments))


def is_safe_for_terminal(text: str) -> bool:
    """Whether there is nothing in it that a terminal would obey."""
    return not _CONTROL_CHARACTERS.search(text)


def _has_control_or_link(segment: Segment) -> bool:
    return bool(segment.control or (segment.style and segment.style.link))


def _sanitize_segment(segment: Segment) -> Segment:
    style = segment.style
    if style is not None and style.link:
        style = style.update_link(None)
    return Segment(sanitize(segment.text).translate(_VISIBLE_BLANKS), style)
