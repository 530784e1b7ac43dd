"""The names of secrets, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from textual.content import Content
from textual.message import Message

from store.text.sanitize import cells, one_line
from tui.render.secret_lines import NAME_ROOM, SecretRow, row_line
from tui.widgets.cursor_view import CursorView


class SecretsTable(CursorView):
    class Chosen(Message):
        """The cursor stands on another."""

    class Left(Message):
        """The keys go elsewhere now."""

    class Opened(Message):
        """The one under the cursor was clicked twice."""

    def __init__(self) -> None:
        super().__init__()
        self.now = datetime.now(UTC)
        self.at = ""
        """The name to which the cursor goes as soon as it is among them."""
        self._rows: Sequence[SecretRow] = ()
        self._longest = 0

    def show(self, rows: Sequence[SecretRow]) -> None:
        """With the cursor on the name that is wanted, or on the same as before, if it is there."""
        before = self.at or (self.selected.key if self.selected else "")
        self.at = "" if any(row.key == self.at for row in rows) else self.at
        self._rows = rows
        self._longest = max((cells(one_line(row.key, NAME_ROOM)) for row in rows), default=0)
        self.line_count = len(rows)
        self.forget_strips()
        self.cursor = next((at for at, row in enumerate(rows) if row.key == before), self.cursor)

    @property
    def selected(self) -> SecretRow | None:
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def line(self, index: int, width: int) -> Content:
        return row_line(self._rows[index], self._longest, self.now, width)

    def chosen(self) -> None:
        self.post_message(self.Chosen())

    def on_blur(self) -> None:
        super().on_blur()
        self.post_message(self.Left())

    def pressed_twice(self) -> None:
        self.post_message(self.Opened())
