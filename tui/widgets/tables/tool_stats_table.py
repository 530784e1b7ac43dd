"""Tools by their names, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from store.model.tool_stats import Tally
from tui.messages import Told
from tui.render.tool_stats_lines import tally_line
from tui.widgets.cursor_view import CursorView


class TalliesTable(CursorView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Its calls", id="tallies.open", tooltip="The calls of this tool"),
    ]

    class Opened(Told):
        name: str

    def __init__(self) -> None:
        super().__init__()
        self._tallies: Sequence[Tally] = ()

    def show(self, tallies: Sequence[Tally]) -> None:
        self._tallies = tallies
        self.line_count = len(tallies)
        self.forget_strips()
        self.cursor = 0

    def line(self, index: int, width: int) -> Content:
        return tally_line(self._tallies[index], width)

    def pressed_twice(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        if self._tallies:
            self.post_message(self.Opened(self._tallies[self.cursor].name))
