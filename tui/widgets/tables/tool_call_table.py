"""Tool calls, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from tui.render.tool_call_details import CallLine, longest_name, table_line
from tui.widgets.cursor_view import CursorView


class CallsTable(CursorView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="calls.open", tooltip="Look at this call"),
    ]

    class Opened(Message):
        """The call under the cursor is to be looked at."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: Sequence[CallLine] = ()
        self.longest = 0

    def show(self, calls: Sequence[CallLine], current: int | None = None) -> None:
        """With the cursor on the current one, if it is among them."""
        self._calls = calls
        self.longest = max(self.longest, longest_name(calls))
        self.line_count = len(calls)
        self.forget_strips()
        self.cursor = next((at for at, call in enumerate(calls) if call.key == current), 0)

    @property
    def selected(self) -> int | None:
        return self._calls[self.cursor].key if self._calls else None

    def line(self, index: int, width: int) -> Content:
        return table_line(self._calls[index], self.longest, width)

    def pressed_twice(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        self.post_message(self.Opened())
