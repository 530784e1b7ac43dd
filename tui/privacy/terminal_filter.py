"""This module filters every line right before it is sent to the terminal.

Text is sanitized where it is rendered. If one place forgot that, Textual would send an escape sequence to the terminal,
which would obey it; the filter replaces it by visible characters. Links are removed, because a terminal may open an
address that a conversation chose.
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
        # Control characters have no width, but their visible replacements take a cell: keep the length of the line.
        return Segment.adjust_line_length(list(map(_sanitize_segment, segments)), sum(s.cell_length for s in segments))


def is_safe_for_terminal(text: str) -> bool:
    """Whether a text contains no control characters."""
    return not _CONTROL_CHARACTERS.search(text)


def _has_control_or_link(segment: Segment) -> bool:
    return bool(segment.control or (segment.style and segment.style.link))


def _sanitize_segment(segment: Segment) -> Segment:
    style = segment.style
    if style is not None and style.link:
        style = style.update_link(None)
    return Segment(sanitize(segment.text).translate(_VISIBLE_BLANKS), style)
