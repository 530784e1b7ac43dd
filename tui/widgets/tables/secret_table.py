"""This module lists the names of secrets, one per line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from textual.content import Content
from textual.message import Message

from store.text.sanitize import cell_width, one_line
from tui.render.secret_lines import MAX_NAME_CELLS, SecretRow, render_secret_row
from tui.widgets.cursor_view import CursorView


class SecretTable(CursorView):
    class Highlighted(Message):
        """Says that the cursor moved to another secret."""

    class FocusLost(Message):
        """Says that the table lost the focus."""

    class DoubleClicked(Message):
        """Says that a secret was double-clicked."""

    def __init__(self) -> None:
        super().__init__()
        self.now = datetime.now(UTC)
        self.pending_key = ""
        "The cursor moves to this name as soon as it is listed."
        self._rows: Sequence[SecretRow] = ()
        self._name_width = 0

    def show(self, rows: Sequence[SecretRow]) -> None:
        """Show secrets. The cursor moves to the pending name, or stays on its secret if that is still listed."""
        key = self.pending_key or (self.selected.key if self.selected else "")
        self.pending_key = "" if any(row.key == self.pending_key for row in rows) else self.pending_key
        self._rows = rows
        self._name_width = max((cell_width(one_line(row.key, MAX_NAME_CELLS)) for row in rows), default=0)
        self.line_count = len(rows)
        self.invalidate_strips()
        self.cursor = next((index for index, row in enumerate(rows) if row.key == key), self.cursor)

    @property
    def selected(self) -> SecretRow | None:
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def render_row(self, index: int, width: int) -> Content:
        return render_secret_row(self._rows[index], self._name_width, self.now, width)

    def handle_cursor_moved(self) -> None:
        self.post_message(self.Highlighted())

    def on_blur(self) -> None:
        super().on_blur()
        self.post_message(self.FocusLost())

    def handle_double_click(self) -> None:
        self.post_message(self.DoubleClicked())
