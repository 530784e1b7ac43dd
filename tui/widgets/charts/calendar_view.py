"""This module shows a year as a calendar, and the streaks in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from textual.content import Content

from store.model.statistics import Figures
from tui.render.charts.calendar import HEIGHT, CalendarChart, find_streaks
from tui.render.charts.levels import Shading
from tui.render.statistics.figures import NOTHING, FigureSource, read_amount
from tui.render.statistics.headings import render_streaks
from tui.render.statistics.period import format_day
from tui.widgets.charts.chart_view import ChartView


class CalendarView(ChartView):
    chart_title = "Calendar"

    def __init__(self) -> None:
        super().__init__()
        self._days: Mapping[date, Figures] = {}
        self._last_day: date | None = None
        self.cursor: date | None = None
        "Is None until a person moves it."

    def show(self, days: Mapping[date, Figures], last_day: date) -> None:
        """Show the days up to the last one. The cursor stays on its day if it is shown."""
        self._days, self._last_day = days, last_day
        if self.cursor is not None and self.cursor > last_day:
            self.cursor = None
        self.refresh()

    @property
    def _current_day(self) -> date | None:
        """The day under the cursor. It begins at the last day with something in it."""
        if self.cursor is not None or self._last_day is None:
            return self.cursor
        return max((day for day in self._days if day <= self._last_day), default=self._last_day)

    def _lay_out(self, width: int) -> CalendarChart | None:
        if self._last_day is None:
            return None
        amounts = {day: read_amount(figures, self.measure) for day, figures in self._days.items()}
        return CalendarChart.fit(amounts, self._last_day, width)

    @property
    def selected(self) -> FigureSource | None:
        if (day := self._current_day) is None:
            return None
        return FigureSource(f"{day:%a} {format_day(day)} {day.year}", self._days.get(day, NOTHING), day, day)

    def draw(self, width: int, height: int) -> Sequence[Content]:
        chart = self._lay_out(width)
        if chart is None or self._last_day is None:
            return []
        shading = Shading(self.has_color)
        lines = chart.render(shading, self._current_day if self.has_focus else None)
        if height > HEIGHT:
            key = shading.render_key(chart.amounts.values(), min(chart.week_cells, 2))
            streaks = render_streaks(find_streaks(chart.amounts, self._last_day), width)
            room = min(width, chart.width) - key.cell_length - streaks.cell_length
            lines.append(streaks + Content(" " * room) + key if room > 1 else streaks)
        return lines

    def move(self, by_column: int, by_row: int) -> bool:
        chart = self._lay_out(self.content_size.width)
        if chart is None or self._current_day is None:
            return False
        day = self._current_day + timedelta(weeks=by_column, days=by_row)
        if not chart.first_day <= day <= chart.last_day:
            return False
        self.cursor = day
        return True

    def point_to(self, x: int, y: int) -> bool:
        chart = self._lay_out(self.content_size.width)
        day = chart.day_at(x, y) if chart else None
        self.cursor = day or self.cursor
        return day is not None
