"""This module shows the hours of the week."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.content import Content

from store.model.statistics import Figures
from tui.render.charts.calendar import WEEKDAYS
from tui.render.charts.hours import HEIGHT, HOURS, HoursChart, HourSlot
from tui.render.charts.levels import Shading
from tui.render.statistics.figures import NOTHING, FigureSource, read_amount
from tui.widgets.charts.chart_view import ChartView


class HoursView(ChartView):
    chart_title = "Hours of the week"

    def __init__(self) -> None:
        super().__init__()
        self._hours: Mapping[HourSlot, Figures] = {}
        self.cursor: HourSlot | None = None

    def show(self, hours: Mapping[HourSlot, Figures]) -> None:
        """Show the hours. The cursor begins on the one with most in it."""
        self._hours = hours
        if self.cursor is None and hours:
            self.cursor = max(hours, key=lambda slot: read_amount(hours[slot], self.measure) or 0)
        self.refresh()

    def _lay_out(self, width: int) -> HoursChart:
        return HoursChart.fit(
            {slot: read_amount(figures, self.measure) for slot, figures in self._hours.items()}, width
        )

    @property
    def selected(self) -> FigureSource | None:
        if self.cursor is None or not self.has_focus:
            return None
        weekday, hour = self.cursor
        figures = self._hours.get(self.cursor, NOTHING)
        return FigureSource(f"{WEEKDAYS[weekday]} {hour:02}:00", figures, slot=self.cursor)

    def draw(self, width: int, height: int) -> Sequence[Content]:
        shading = Shading(self.has_color)
        chart = self._lay_out(width)
        lines = chart.render(shading, self.cursor if self.has_focus else None)
        return [*lines, shading.render_key(chart.amounts.values())] if height > HEIGHT else lines

    def move(self, by_column: int, by_row: int) -> bool:
        weekday, hour = self.cursor or HourSlot(0, 0)
        slot = HourSlot(weekday + by_row, hour + by_column)
        if slot.weekday not in range(len(WEEKDAYS)) or slot.hour not in range(HOURS):
            return False
        self.cursor = slot
        return True

    def point_to(self, x: int, y: int) -> bool:
        slot = self._lay_out(self.content_size.width).slot_at(x, y)
        self.cursor = slot or self.cursor
        return slot is not None
