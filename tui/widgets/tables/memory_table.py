"""This module lists the scopes of memory as folders, and the lines, facts and proposals in one of them."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.message import Message

from tui.messages import DataMessage
from tui.render.memory_lines import MemoryGroup, MemoryRow, render_group, render_memory_row
from tui.widgets.cursor_view import CursorView


class MemoryGroupList(CursorView):
    """Lists the scopes. Its cursor chooses what the table shows."""

    class Chosen(DataMessage):
        key: str

    def __init__(self) -> None:
        super().__init__()
        self._groups: Sequence[MemoryGroup] = ()

    def show(self, groups: Sequence[MemoryGroup]) -> None:
        """Show scopes. The cursor stays on its scope if that is still listed."""
        current = self._groups[self.cursor].key if self.cursor < len(self._groups) else ""
        self._groups = groups
        self.replace_lines(len(groups), next((n for n, group in enumerate(groups) if group.key == current), 0))

    def render_row(self, index: int, width: int) -> Content:
        return render_group(self._groups[index], width)

    def handle_cursor_moved(self) -> None:
        if self.cursor < len(self._groups):
            self.post_message(self.Chosen(self._groups[self.cursor].key))


class MemoryTable(CursorView):
    class Highlighted(Message):
        """Says that the cursor moved to another row, or that the rows were read again."""

    class DoubleClicked(Message):
        """Says that a row was double-clicked."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[MemoryRow] = ()

    def show(self, rows: Sequence[MemoryRow]) -> None:
        """Show rows. The cursor stays on its row if that is still listed."""
        current = self.selected.key if self.selected else ""
        cursor = self.cursor
        self._rows = rows
        self.replace_lines(len(rows), next((n for n, row in enumerate(rows) if row.key == current), cursor))

    @property
    def selected(self) -> MemoryRow | None:
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def render_row(self, index: int, width: int) -> Content:
        return render_memory_row(self._rows[index], width)

    def handle_cursor_moved(self) -> None:
        self.post_message(self.Highlighted())

    def handle_double_click(self) -> None:
        self.post_message(self.DoubleClicked())
