"""This module lists tool calls, one per line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from tui.render.inspection.tool_call_details import ToolCallRow, render_call_row, widest_name
from tui.widgets.cursor_view import CursorView


class ToolCallTable(CursorView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="calls.open", tooltip="Inspect this call"),
    ]

    class Opened(Message):
        """Asks to inspect the call under the cursor."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: Sequence[ToolCallRow] = ()
        self.name_width = 0

    def show(self, calls: Sequence[ToolCallRow], current: int | None = None) -> None:
        """Show calls with the cursor on the current one, if it is listed."""
        self._calls = calls
        self.name_width = max(self.name_width, widest_name(calls))
        self.line_count = len(calls)
        self.invalidate_strips()
        self.cursor = next((index for index, call in enumerate(calls) if call.key == current), 0)

    @property
    def selected(self) -> int | None:
        return self._calls[self.cursor].key if self._calls else None

    def render_row(self, index: int, width: int) -> Content:
        return render_call_row(self._calls[index], self.name_width, width)

    def handle_double_click(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        self.post_message(self.Opened())
