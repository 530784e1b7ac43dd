"""This module is the base of charts with a cursor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from tui.messages import DataMessage
from tui.render.charts.measures import COST, Measure
from tui.render.statistics.figures import FigureSource, write_amount
from tui.render.styles import MUTED, STRONG, build_content

TITLE_LINES = 1


class ChartView(Widget, can_focus=True):
    """Shows a title and the lines of a chart. Subclasses draw the lines and move the cursor."""

    DEFAULT_CSS = """
    ChartView {
        height: 1fr;
        padding: 0 1;
    }
    """
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="chart.open", tooltip="Show the sessions of this part of the chart"),
        Binding("left,h", "move(-1, 0)", "Left", show=False, id="chart.left", tooltip="To the left, or earlier"),
        Binding("right,l", "move(1, 0)", "Right", show=False, id="chart.right", tooltip="To the right, or later"),
        Binding("up,k", "move(0, -1)", "Up", show=False, id="chart.up", tooltip="Up"),
        Binding("down,j", "move(0, 1)", "Down", show=False, id="chart.down", tooltip="Down"),
    ]

    class Opened(Message):
        """Asks for the sessions of what the cursor is on."""

    class EdgeReached(DataMessage):
        """Says that the cursor would leave the chart to the left (-1) or to the right (1)."""

        by: int

    chart_title = ""
    measure: reactive[Measure] = reactive(COST)

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """Return the lines below the title."""
        raise NotImplementedError

    @property
    def selected(self) -> FigureSource | None:
        """What the cursor is on, or None if it is on nothing."""
        raise NotImplementedError

    def move(self, by_column: int, by_row: int) -> bool:
        """Move the cursor. Return False if it would leave the chart."""
        raise NotImplementedError

    def point_to(self, x: int, y: int) -> bool:
        """Move the cursor to a cell of the chart. Return False if nothing is there."""
        raise NotImplementedError

    @property
    def has_color(self) -> bool:
        return not self.app.no_color

    def render(self) -> Content:
        width, height = self.content_size
        style = "bold $text-accent" if self.has_focus else STRONG
        about = (
            f"   {self.selected.title}: {write_amount(self.selected.figures, self.measure)}" if self.selected else ""
        )
        title = build_content([(self.chart_title, style), (about, MUTED)])
        lines = [title.truncate(width, ellipsis=True), *self.draw(width, height - TITLE_LINES)]
        return Content("\n").join(lines[:height])

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset_capture(self)
        if self.point_to(offset.x, offset.y - TITLE_LINES):
            self.refresh()
            if event.chain == 2:
                self.action_open()

    def action_move(self, by_column: int, by_row: int) -> None:
        if self.move(by_column, by_row):
            self.refresh()
        elif by_column:
            self.post_message(self.EdgeReached(by_column))

    def action_open(self) -> None:
        self.post_message(self.Opened())
