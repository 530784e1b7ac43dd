"""This module filters every line right before it is sent to the terminal.

Text is sanitized where it is rendered. If one place forgot that, Textual would send an escape sequence to the terminal,
which would obey it; the filter replaces it by visible characters. Links are removed, because a terminal may open an
address that a conversation chose. If a person allows them, a link stays that is exactly the harmless web address which
is visible.
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
    def __init__(self, *, allow_addresses: bool = False) -> None:
        super().__init__()
        self._allow_addresses = allow_addresses

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if is_safe_for_terminal("".join([text for text, _, _ in segments])) and not any(
            map(self._has_control_or_link, segments)
        ):
            return segments
        # Control characters have no width, but their visible replacements take a cell: keep the length of the line.
        return Segment.adjust_line_length(
            list(map(self._sanitize_segment, segments)), sum(s.cell_length for s in segments)
        )

    def _has_control_or_link(self, segment: Segment) -> bool:
        return bool(segment.control) or self._has_forbidden_link(segment)

    def _has_forbidden_link(self, segment: Segment) -> bool:
        """Whether a link is not allowed: it must be a web address that hides nothing, and equal to the visible text."""
        link = segment.style.link if segment.style else None
        if not link or not self._allow_addresses or link != segment.text:
            return bool(link)
        # Imported here, because links are off by default.
        from store.text.web_address import is_safe_address

        return not is_safe_address(link)

    def _sanitize_segment(self, segment: Segment) -> Segment:
        style = segment.style
        if style is not None and self._has_forbidden_link(segment):
            style = style.update_link(None)
        return Segment(sanitize(segment.text).translate(_VISIBLE_BLANKS), style)


def is_safe_for_terminal(text: str) -> bool:
    """Whether a text contains no control characters."""
    return not _CONTROL_CHARACTERS.search(text)
