"""Tools by their names, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from store.model.tool_stats import ToolStats
from tui.messages import DataMessage
from tui.render.tool_stats_lines import render_tool_stats_row
from tui.widgets.cursor_view import CursorView


class ToolStatsTable(CursorView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Its calls", id="tallies.open", tooltip="The calls of this tool"),
    ]

    class Opened(DataMessage):
        name: str

    def __init__(self) -> None:
        super().__init__()
        self._tool_stats: Sequence[ToolStats] = ()

    def show(self, tallies: Sequence[ToolStats]) -> None:
        self._tool_stats = tallies
        self.line_count = len(tallies)
        self.invalidate_strips()
        self.cursor = 0

    def render_row(self, index: int, width: int) -> Content:
        return render_tool_stats_row(self._tool_stats[index], width)

    def handle_double_click(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        if self._tool_stats:
            self.post_message(self.Opened(self._tool_stats[self.cursor].name))
