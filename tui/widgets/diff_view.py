"""This module shows rendered lines in sections, one of which is the current one: the changes of a file, or the
differences of two texts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from itertools import accumulate

from textual.content import Content

from tui.messages import DataMessage
from tui.render.styles import StyledText
from tui.render.viewport import WrappableLine
from tui.widgets.text_view import TextView

ROWS_ABOVE = 2
"""The number of rows that stay visible above a section that a key goes to."""


class DiffView(TextView):
    class SectionSelected(DataMessage):
        index: int

    def __init__(self) -> None:
        super().__init__()
        self._sections: Sequence[Sequence[WrappableLine]] = ()
        self._starts: list[int] = []
        "The line at which each section begins, as it is wrapped."
        self.section = 0
        self._asked_section = 0
        "The section to go to as soon as it is wrapped."

    def show_sections(self, sections: Sequence[Sequence[WrappableLine]], section: int = 0) -> None:
        """Show sections, and go to one of them."""
        self._sections = sections
        self.section, self._asked_section = section, 0
        self.show([line for lines in sections for line in lines])
        self._asked_section = section
        self._go_to_asked_section()

    @property
    def section_count(self) -> int:
        return len(self._sections)

    def _show_wrapped_lines(self, wrapped: Sequence[Sequence[Content]]) -> None:
        line_starts = [0, *accumulate(map(len, wrapped))]
        firsts = [0, *accumulate(map(len, self._sections))][: len(self._sections)]
        self._starts = [line_starts[min(first, len(wrapped))] for first in firsts]
        super()._show_wrapped_lines(wrapped)
        self._go_to_asked_section()

    def _go_to_asked_section(self) -> None:
        """Go to the section that was asked for. If it is not wrapped yet, this is repeated when it is."""
        if self._asked_section:
            self.go_to_section(self._asked_section)
            if self._starts[self._asked_section] < self.line_count:
                self._asked_section = 0

    # ── sections ──────────────────────────────────────────────────────────────────────────────────

    def go_to_section(self, index: int) -> None:
        self._select(index)
        top, page, start = self.scroll_offset.y, self.page.height, self._starts[self.section]
        end = self._starts[self.section + 1] if self.section + 1 < len(self._starts) else self.line_count
        if not (top <= start and min(end, start + page) <= top + page):
            self.scroll_to(y=max(start - ROWS_ABOVE, 0), animate=False, force=True, immediate=True)

    def _select(self, index: int) -> None:
        index = max(0, min(index, len(self._sections) - 1))
        if index != self.section:
            self.section = index
            self.invalidate_strips()
            self.post_message(self.SectionSelected(index))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Let the current section follow, if it is no longer visible."""
        super().watch_scroll_y(old_value, new_value)
        if self._starts and round(old_value) != round(new_value):
            first = self._section_at(round(new_value))
            last = self._section_at(round(new_value) + max(self.page.height - 1, 0))
            self._select(max(first, min(self.section, last)))

    def _section_at(self, line: int) -> int:
        return bisect_right(self._starts, line) - 1

    # ── painting ──────────────────────────────────────────────────────────────────────────────────

    def strip_key(self, line: int) -> Hashable:
        return super().strip_key(line), self._is_current(line)

    def _is_current(self, line: int) -> bool:
        return len(self._sections) > 1 and self._section_at(line) == self.section

    def line_mark(self, line: int) -> StyledText:
        mark = super().line_mark(line)
        return ("│", "$accent") if mark[0] == " " and self._is_current(line) else mark
