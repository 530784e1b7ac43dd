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
        self.cursor = HourSlot(0, 12)

    def show(self, hours: Mapping[HourSlot, Figures]) -> None:
        self._hours = hours
        self.refresh()

    def _lay_out(self, width: int) -> HoursChart:
        return HoursChart.fit(
            {slot: read_amount(figures, self.measure) for slot, figures in self._hours.items()}, width
        )

    @property
    def selected(self) -> FigureSource | None:
        weekday, hour = self.cursor
        title = f"{WEEKDAYS[weekday]} {hour:02}:00"
        figures = self._hours.get(self.cursor, NOTHING)
        return FigureSource(title, figures, slot=self.cursor) if self.has_focus else None

    def draw(self, width: int, height: int) -> Sequence[Content]:
        shading = Shading(self.has_color)
        chart = self._lay_out(width)
        lines = chart.render(shading, self.cursor if self.has_focus else None)
        return [*lines, shading.render_key(chart.amounts.values())] if height > HEIGHT else lines

    def move(self, by_column: int, by_row: int) -> bool:
        slot = HourSlot(self.cursor.weekday + by_row, self.cursor.hour + by_column)
        if slot.weekday not in range(len(WEEKDAYS)) or slot.hour not in range(HOURS):
            return False
        self.cursor = slot
        return True

    def point_to(self, x: int, y: int) -> bool:
        slot = self._lay_out(self.content_size.width).slot_at(x, y)
        self.cursor = slot or self.cursor
        return slot is not None
