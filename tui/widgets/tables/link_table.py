"""This module lists the links of an item, one per line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from tui.links.lines import LinkTarget, render_link_row
from tui.widgets.cursor_view import CursorView
from tui.widgets.text_view import AutoHeightText


class LinkTable(CursorView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,O", "open", "Open", id="links.open", tooltip="Open the file in your editor, or the address"),
    ]

    class Opened(Message):
        """Asks to open the link under the cursor."""

    def __init__(self, targets: Sequence[LinkTarget], cwd: str) -> None:
        super().__init__()
        self._targets = targets
        self._cwd = cwd
        self.line_count = len(targets)
        self.styles.height = AutoHeightText.MAX_HEIGHT
        self.styles.max_height = max(len(targets), 1)

    @property
    def selected(self) -> LinkTarget:
        return self._targets[self.cursor]

    def render_row(self, index: int, width: int) -> Content:
        return render_link_row(self._targets[index], self._cwd, width)

    def handle_double_click(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        self.post_message(self.Opened())
