"""A conversation to read: lines that were laid out elsewhere, painted as they come into view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.strip import Strip

from tui.widgets.line_view import LineView


class Transcript(LineView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_by(1)", "Down", id="read.down", show=False, tooltip="A line on"),
        Binding("up,k", "scroll_by(-1)", "Up", id="read.up", show=False, tooltip="A line back"),
        Binding("pagedown,space", "scroll_page(1)", "Page down", id="read.page_down", show=False, tooltip="A page on"),
        Binding("pageup,b", "scroll_page(-1)", "Page up", id="read.page_up", show=False, tooltip="A page back"),
        Binding("home,g", "scroll_home", "Start", id="read.first", show=False, tooltip="The beginning"),
        Binding("end,G", "scroll_end", "End", id="read.last", show=False, tooltip="The end"),
    ]

    @dataclass
    class Resized(Message):
        """The lines must be laid out for another width."""

        width: int

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[Content] = ()

    def show(self, lines: Sequence[Content]) -> None:
        self._lines = lines
        self.line_count = len(lines)
        self.forget_strips()

    @property
    def text_width(self) -> int:
        """Words do not touch the scrollbar."""
        return self.page.width - 1

    def on_resize(self) -> None:
        self.post_message(self.Resized(self.text_width))

    def paint_line(self, line: int, width: int) -> Strip:
        return self.strip_of(self._lines[line], width, self.visual_style)

    def action_scroll_by(self, lines: int) -> None:
        self.scroll_relative(y=lines, animate=False)

    def action_scroll_page(self, pages: int) -> None:
        self.scroll_relative(y=pages * (self.page.height - 1), animate=False)

    def action_scroll_home(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_scroll_end(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False)
