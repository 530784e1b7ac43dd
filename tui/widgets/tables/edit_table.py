"""This module lists edits, one per line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from tui.messages import DataMessage
from tui.render.journal_lines import EditRow, JournalColumns, render_edit_row, render_journal_columns
from tui.widgets.cursor_view import CursorView


class EditTable(CursorView):
    class Highlighted(DataMessage):
        """Says that the cursor moved to another edit, or that the edit under it was updated."""

        row: EditRow | None
        is_near_end: bool

    class DoubleClicked(Message):
        """Says that an edit was double-clicked."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.now = now
        self._edits: Sequence[EditRow] = ()
        self.columns = JournalColumns()

    def show(self, edits: Sequence[EditRow]) -> None:
        """Show edits. The cursor stays on its edit if that is still listed."""
        current = self.selected.id if self.selected else None
        self._edits = edits
        self.columns = JournalColumns.measure(edits)
        self.replace_lines(len(edits), next((index for index, edit in enumerate(edits) if edit.id == current), 0))

    @property
    def selected(self) -> EditRow | None:
        return self._edits[self.cursor] if self.cursor < len(self._edits) else None

    def render_row(self, index: int, width: int) -> Content:
        return render_edit_row(self._edits[index], self.now, width, self.columns)

    def handle_cursor_moved(self) -> None:
        self.post_message(self.Highlighted(self.selected, self.cursor + self.page.height >= len(self._edits)))

    def handle_double_click(self) -> None:
        self.post_message(self.DoubleClicked())


class EditColumns(Static):
    """Shows the titles of the columns of a table below it."""

    DEFAULT_CSS = """
    EditColumns {
        height: 1;
    }
    """

    def __init__(self, table: EditTable) -> None:
        super().__init__()
        self._table = table

    def render(self) -> Content:
        return Content.assemble(" ", render_journal_columns(self._table.columns, self._table.text_width))
