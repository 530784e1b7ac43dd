"""This module lists leaks, and the places of one of them, one per line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from tui.render.leak_lines import LeakRow, PlaceRow, render_leak_columns, render_leak_row, render_place_row
from tui.widgets.cursor_view import CursorView


class LeakTable(CursorView):
    class Highlighted(Message):
        """Says that the cursor moved to another leak, or that the leaks were read again."""

    class DoubleClicked(Message):
        """Says that a leak was double-clicked."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.now = now
        self.pending_fingerprint = ""
        "The cursor moves to this leak when it is listed."
        self._rows: Sequence[LeakRow] = ()

    def show(self, rows: Sequence[LeakRow]) -> None:
        """Show leaks. The cursor stays on its leak, and on its line if that is gone."""
        current = self.pending_fingerprint or (self.selected.leak.fingerprint if self.selected else "")
        positions = {row.leak.fingerprint: index for index, row in enumerate(rows)}
        if self.pending_fingerprint in positions:
            self.pending_fingerprint = ""
        cursor = positions.get(current, self.cursor)
        self._rows = rows
        self.replace_lines(len(rows), cursor)

    @property
    def selected(self) -> LeakRow | None:
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def render_row(self, index: int, width: int) -> Content:
        return render_leak_row(self._rows[index], self.now, width)

    def handle_cursor_moved(self) -> None:
        self.post_message(self.Highlighted())

    def handle_double_click(self) -> None:
        self.post_message(self.DoubleClicked())


class LeakColumns(Static):
    """Shows the titles of the columns of the table below it."""

    DEFAULT_CSS = """
    LeakColumns {
        height: 1;
    }
    """

    def __init__(self, table: LeakTable) -> None:
        super().__init__()
        self._table = table

    def render(self) -> Content:
        return Content.assemble(" ", render_leak_columns(self._table.text_width))


class LeakPlaceTable(CursorView):
    hides_cursor_without_focus = True

    class DoubleClicked(Message):
        """Says that a place was double-clicked."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[PlaceRow] = ()

    def show(self, rows: Sequence[PlaceRow]) -> None:
        """Show places. The cursor stays if they are the same as before."""
        if rows != self._rows:
            self._rows = rows
            self.replace_lines(len(rows), 0)

    @property
    def selected(self) -> PlaceRow | None:
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def render_row(self, index: int, width: int) -> Content:
        return render_place_row(self._rows[index], width)

    def handle_double_click(self) -> None:
        self.post_message(self.DoubleClicked())
