"""This module lists findings of waste, one per line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from store.model.statistics import Waste
from tui.messages import DataMessage
from tui.render.statistics.waste_rows import WasteRow, render_waste_row
from tui.widgets.cursor_view import CursorView


class WasteTable(CursorView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Go to turn", id="waste.open", tooltip="Go to the first turn of this finding"),
    ]

    hides_cursor_without_focus = True

    class Opened(DataMessage):
        waste: Waste

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[WasteRow] = ()

    def show(self, rows: Sequence[WasteRow]) -> None:
        self._rows = rows
        self.line_count = len(rows)
        self.cursor = self.validate_cursor(self.cursor)
        self.invalidate_strips()

    def render_row(self, index: int, width: int) -> Content:
        return render_waste_row(self._rows[index], width)

    def handle_double_click(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        if self._rows:
            self.post_message(self.Opened(self._rows[self.cursor].waste))
