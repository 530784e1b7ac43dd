"""This module lists the turns that a summary covers, and the versions of the summary."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from store.model.knowledge import Summary
from store.model.timeline import TurnOutline
from tui.messages import DataMessage
from tui.render.summary_lines import render_covered_turn, render_version_row
from tui.widgets.cursor_view import CursorView


class SummaryTurnTable(CursorView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter,space",
            "end_here",
            "End here",
            id="summary.end",
            tooltip="The summary covers everything up to this turn",
        ),
        Binding(
            "0",
            "no_end",
            "No end",
            show=False,
            id="summary.no_end",
            tooltip="Leave open which turns the summary covers",
        ),
    ]

    class EndChosen(DataMessage):
        turn: int | None

    def __init__(self) -> None:
        super().__init__()
        self._turns: Sequence[TurnOutline] = ()
        self._saved: int | None = None
        self._planned: int | None = None

    def show(self, turns: Sequence[TurnOutline]) -> None:
        self._turns = turns
        self.line_count = len(turns)
        self.invalidate_strips()

    def move_to_turn(self, end: int | None) -> None:
        """Move the cursor to the last turn that the summary covers."""
        last = len(self._turns) - 1
        self.cursor = last if end is None else min(bisect_left(self._turns, end, key=lambda turn: turn.n), last)
        self.call_after_refresh(self.scroll_to_cursor)

    def set_coverage(self, saved: int | None, planned: int | None) -> None:
        self._saved, self._planned = saved, planned
        self.invalidate_strips()

    @property
    def last_turn(self) -> int:
        return self._turns[-1].n if self._turns else 0

    def strip_key(self, line: int) -> Hashable:
        return super().strip_key(line), self._saved, self._planned

    def render_row(self, index: int, width: int) -> Content:
        return render_covered_turn(self._turns[index], self._saved, self._planned, len(str(self.last_turn)), width)

    def handle_double_click(self) -> None:
        self.action_end_here()

    def action_end_here(self) -> None:
        if self._turns:
            self.post_message(self.EndChosen(self._turns[self.cursor].n))

    def action_no_end(self) -> None:
        self.post_message(self.EndChosen(None))


class SummaryVersionTable(CursorView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "put_back", "Restore", id="summary.put_back", tooltip="Make this version current again"),
    ]

    class Highlighted(Message):
        """Says that the cursor moved to another version."""

    class RestoreRequested(DataMessage):
        version: Summary

    def __init__(self) -> None:
        super().__init__()
        self.now = datetime.now(UTC)
        self._versions: Sequence[Summary] = ()

    def show(self, versions: Sequence[Summary]) -> None:
        self._versions = versions
        self.line_count = len(versions)
        self.invalidate_strips()
        self.cursor = min(self.cursor, max(len(versions) - 1, 0))
        self.post_message(self.Highlighted())

    @property
    def selected(self) -> Summary | None:
        return self._versions[self.cursor] if self.cursor < len(self._versions) else None

    def render_row(self, index: int, width: int) -> Content:
        return render_version_row(self._versions[index], self.now, width)

    def handle_cursor_moved(self) -> None:
        self.post_message(self.Highlighted())

    def handle_double_click(self) -> None:
        self.action_put_back()

    def action_put_back(self) -> None:
        if self.selected is not None:
            self.post_message(self.RestoreRequested(self.selected))
