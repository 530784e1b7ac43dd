"""This module lists tools with their statistics, one per line."""

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
        Binding("enter", "open", "Show calls", id="tallies.open", tooltip="Show the calls of this tool"),
    ]

    class Opened(DataMessage):
        name: str

    def __init__(self) -> None:
        super().__init__()
        self._tool_stats: Sequence[ToolStats] = ()

    def show(self, tool_stats: Sequence[ToolStats]) -> None:
        self._tool_stats = tool_stats
        self.line_count = len(tool_stats)
        self.invalidate_strips()
        self.cursor = 0

    def render_row(self, index: int, width: int) -> Content:
        return render_tool_stats_row(self._tool_stats[index], width)

    def handle_double_click(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        if self._tool_stats:
            self.post_message(self.Opened(self._tool_stats[self.cursor].name))
