"""This module lists redactions, one per line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content
from textual.message import Message

from store.model.redaction import Redaction
from tui.render.redaction_lines import render_redaction_row
from tui.widgets.cursor_view import CursorView


class RedactionTable(CursorView):
    class Highlighted(Message):
        """Says that the cursor moved to another redaction, or that they were read again."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self._now = now
        self._redactions: Sequence[Redaction] = ()

    def show(self, redactions: Sequence[Redaction]) -> None:
        self._redactions = redactions
        self.replace_lines(len(redactions), self.cursor)

    @property
    def selected(self) -> Redaction | None:
        return self._redactions[self.cursor] if self.cursor < len(self._redactions) else None

    def render_row(self, index: int, width: int) -> Content:
        return render_redaction_row(self._redactions[index], self._now, width)

    def handle_cursor_moved(self) -> None:
        self.post_message(self.Highlighted())
