"""This module lists models, agents, folders, tools or sessions with their figures, one per line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from store.text.sanitize import cell_width
from tui.render.charts.measures import CALLS, COST, Measure
from tui.render.statistics.figures import StatsRow, TableName, read_amount
from tui.render.statistics.rows import TableLayout
from tui.widgets.cursor_view import CursorView


class StatsTable(CursorView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="stats.open", tooltip="Show the sessions, calls or turns of this row"),
    ]

    hides_cursor_without_focus = True

    class Opened(Message):
        """Asks to open the row under the cursor."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[StatsRow] = ()
        self._table: TableName = "model"
        self._measure = COST
        self._highest = self._longest_label = 0

    def show(self, rows: Sequence[StatsRow], table: TableName, measure: Measure, row_key: str) -> None:
        """Show rows, the highest amount first. The cursor goes to the row with this key, or stays on its row."""
        wanted = row_key or (self.selected.key if self.selected and table == self._table else "")
        self._table, self._measure = table, measure
        counted = CALLS if table == "tool" else measure
        self._rows = sorted(rows, key=lambda row: read_amount(row.figures, counted) or 0, reverse=True)
        self._highest = max((read_amount(row.figures, counted) or 0 for row in rows), default=0)
        self._longest_label = max((cell_width(row.label) for row in rows), default=0)
        self.line_count = len(rows)
        self.invalidate_strips()
        keys = [row.key for row in self._rows]
        self.cursor = keys.index(wanted) if wanted in keys else 0

    @property
    def selected(self) -> StatsRow | None:
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    @property
    def layout_of_columns(self) -> TableLayout:
        has_trend = any(row.trend for row in self._rows)
        return TableLayout.fit(
            self._table, self._measure, self.text_width, has_trend=has_trend, longest_label=self._longest_label
        )

    def render_row(self, index: int, width: int) -> Content:
        return self.layout_of_columns.render_row(self._rows[index], self._highest, width)

    def handle_double_click(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        if self._rows:
            self.post_message(self.Opened())
