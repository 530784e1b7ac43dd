"""This module lists published files, one per line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content
from textual.message import Message

from tui.render.published_lines import PublishedRow, render_published_row
from tui.widgets.cursor_view import CursorView


class PublishedTable(CursorView):
    class Highlighted(Message):
        """Says that the cursor moved to another file, or that the files were read again."""

    class DoubleClicked(Message):
        """Says that a file was double-clicked."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.now = now
        self.pending_id = ""
        "The cursor moves to the file with this id as soon as it is listed."
        self._rows: Sequence[PublishedRow] = ()
        self._with_session = False

    def show(self, rows: Sequence[PublishedRow], *, with_session: bool) -> None:
        """Show files. The cursor moves to the pending file, or stays on its file if that is still listed."""
        current = self.pending_id or (self.selected.file.id if self.selected else "")
        positions = {row.file.id: index for index, row in enumerate(rows)}
        if self.pending_id in positions:
            self.pending_id = ""
        cursor = positions.get(current, self.cursor)
        self._rows, self._with_session = rows, with_session
        self.replace_lines(len(rows), cursor)

    @property
    def selected(self) -> PublishedRow | None:
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def render_row(self, index: int, width: int) -> Content:
        return render_published_row(self._rows[index], self.now, width, with_session=self._with_session)

    def handle_cursor_moved(self) -> None:
        self.post_message(self.Highlighted())

    def handle_double_click(self) -> None:
        self.post_message(self.DoubleClicked())
