"""This module shows labelled values of any length, one below the other, and copies the value under the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from tui.messages import Copy
from tui.render.session_card import CardField, CardLine, render_card_lines
from tui.widgets.cursor_view import CursorView


class FieldView(CursorView):
    """Has its cursor on a line, not on a field, so that a value of many lines can be read to its end."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("J", "field(1)", "Next", show=False, id="card.next", tooltip="Go to the next value"),
        Binding("K", "field(-1)", "Previous", show=False, id="card.previous", tooltip="Go to the previous value"),
        Binding("y", "copy", "Copy", id="card.copy", tooltip="Copy the value under the cursor"),
        Binding("c", "copy_all", "Copy all", id="card.copy_all", tooltip="Copy all values with their labels"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._fields: Sequence[CardField] = ()
        self._lines: Sequence[CardLine] = ()
        self._wrap_width = 0

    def show(self, fields: Sequence[CardField]) -> None:
        self._fields = fields
        self._lay_out()

    @property
    def current_field(self) -> CardField | None:
        return self._fields[self._lines[self.cursor].field] if self._lines else None

    def on_resize(self) -> None:
        if self._wrap_width != self.text_width:
            self._lay_out()

    def _lay_out(self) -> None:
        """Wrap the values. The view is as high as its lines, up to the height that its style sheet gives it."""
        self._wrap_width = self.text_width
        self._lines = render_card_lines(self._fields, self._wrap_width)
        self.line_count = len(self._lines)
        self.styles.max_height = max(len(self._lines), 1)
        self.cursor = self.validate_cursor(self.cursor)
        self.invalidate_strips()

    def render_row(self, index: int, width: int) -> Content:
        return self._lines[index].content

    def action_field(self, by: int) -> None:
        """Go to the first line of the next or the previous field."""
        if self._lines:
            wanted = self._lines[self.cursor].field + by
            self.cursor = next((n for n, line in enumerate(self._lines) if line.field == wanted), self.cursor)

    def action_copy(self) -> None:
        if (field := self.current_field) is not None:
            self.post_message(Copy(field.value, f"the {field.label}"))

    def action_copy_all(self) -> None:
        text = "\n".join(f"{field.label}: {field.value}" for field in self._fields)
        self.post_message(Copy(text, "the session card"))
