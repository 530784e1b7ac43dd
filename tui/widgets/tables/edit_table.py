"""Edits, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content
from textual.message import Message

from tui.messages import Told
from tui.render.journal_lines import EditLine, table_line
from tui.widgets.cursor_view import CursorView


class EditsTable(CursorView):
    class Chosen(Told):
        """The cursor stands on another edit, or the same one is told anew."""

        line: EditLine | None
        is_near_end: bool

    class Pressed(Message):
        """An edit was pressed twice."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.now = now
        self._edits: Sequence[EditLine] = ()

    def show(self, edits: Sequence[EditLine]) -> None:
        """The cursor stays on its edit, if that is still there."""
        current = self.selected.id if self.selected else None
        self._edits = edits
        self.line_count = len(edits)
        self.forget_strips()
        self.cursor = next((at for at, edit in enumerate(edits) if edit.id == current), 0)
        self.keep_in_sight()
        self.chosen()

    @property
    def selected(self) -> EditLine | None:
        return self._edits[self.cursor] if self.cursor < len(self._edits) else None

    def line(self, index: int, width: int) -> Content:
        return table_line(self._edits[index], self.now, width)

    def chosen(self) -> None:
        self.post_message(self.Chosen(self.selected, self.cursor + self.page.height >= len(self._edits)))

    def pressed_twice(self) -> None:
        self.post_message(self.Pressed())
