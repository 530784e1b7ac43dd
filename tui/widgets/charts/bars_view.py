"""This module shows the bars of a period, stacked by model or agent. Up and down choose a series in a bar."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from tui.render.charts.bars import AXIS_CELLS, FOOT_LINES, MAX_SERIES, Bar, BarChart, render_legend
from tui.render.charts.measures import COST
from tui.render.statistics.figures import (
    NOTHING,
    UNKNOWN_SERIES,
    BarCursor,
    BarFigures,
    FigureSource,
    StackedBy,
    build_filter,
    read_amount,
)
from tui.widgets.charts.chart_view import ChartView

LEGEND_LINES = 1
OTHERS = "others"


class BarsView(ChartView):
    def __init__(self) -> None:
        super().__init__()
        self._bars: Sequence[BarFigures] = ()
        self._stacked_by: StackedBy = "model"
        self._names: Sequence[str] = ()
        self.cursor: BarCursor | None = None
        "Is None until bars are shown."

    def show(self, bars: Sequence[BarFigures], bucket: str, stacked_by: StackedBy) -> None:
        """Show bars with the largest series lowest. What comes after the first few series is one series."""
        self._bars, self._stacked_by = bars, stacked_by
        self.chart_title = f"By {bucket} and {stacked_by}"
        if self.cursor is None or self.cursor.bar >= len(bars):
            filled = [index for index, bar in enumerate(bars) if bar.total != NOTHING]
            self.cursor = BarCursor(filled[-1] if filled else len(bars) - 1) if bars else None
        self.refresh()

    def reset_cursor(self) -> None:
        """Let the cursor begin again at the last bar with something in it, because other bars will be shown."""
        self.cursor = None

    def _name_series(self) -> list[str]:
        sums: dict[str, int] = {}
        for bar in self._bars:
            for name, figures in bar.series.items():
                sums[name] = sums.get(name, 0) + (read_amount(figures, self.measure) or 0)
        shown = (name for name, amount in sums.items() if amount or self.measure is COST)  # it may be unpriced
        names = sorted(shown, key=lambda name: (-sums[name], name))
        return names if len(names) <= MAX_SERIES else [*names[: MAX_SERIES - 1], OTHERS]

    def _find_shown(self, width: int) -> range:
        """Return which bars there is room for: the newest, or the one under the cursor and those after it."""
        room = max(width - AXIS_CELLS, 1)
        first = max(len(self._bars) - room, 0)
        if self.cursor is not None:
            first = min(first, self.cursor.bar)
        return range(first, min(first + room, len(self._bars)))

    def _lay_out(self, width: int, height: int) -> BarChart:
        names = self._names = self._name_series()
        bars = []
        for index in self._find_shown(width):
            bar = self._bars[index]
            amounts = dict.fromkeys(names, 0)
            for name, figures in bar.series.items():
                if amount := read_amount(figures, self.measure):
                    amounts[name if name in amounts else OTHERS] += amount
            is_unpriced = self.measure is COST and bar.total.unpriced_tokens > 0
            bars.append(Bar(bar.label, list(amounts.values()), is_unpriced))
        rows = max(height - FOOT_LINES - LEGEND_LINES, 2)
        return BarChart(bars, self.measure, width, rows - rows % 2)  # even, so that half of the axis is at a line

    @property
    def selected(self) -> FigureSource | None:
        if self.cursor is None or self.cursor.bar >= len(self._bars):
            return None
        bar, series = self._bars[self.cursor.bar], self.cursor.series
        if series is None or series >= len(self._names):
            return FigureSource(bar.label, bar.total, bar.first_day, bar.last_day)
        name = self._names[series]
        figures = bar.series.get(name, NOTHING)
        filters = build_filter(self._stacked_by, name)
        model = None if self._stacked_by == "agent" else "" if name == UNKNOWN_SERIES else name
        return FigureSource(f"{bar.label}, {name}", figures, bar.first_day, bar.last_day, filters, model)

    def draw(self, width: int, height: int) -> Sequence[Content]:
        chart = self._lay_out(width, height)
        bar, chosen = self.cursor if self.cursor and self.has_focus else (None, None)
        shown_bar = None if bar is None else bar - self._find_shown(width).start
        lines = chart.render(shown_bar, has_color=self.has_color)
        has_unpriced = any(shown.is_unpriced for shown in chart.bars)
        legend = render_legend(self._names, width, has_color=self.has_color, chosen=chosen, has_unpriced=has_unpriced)
        return [*lines, legend]

    def move(self, by_column: int, by_row: int) -> bool:
        if self.cursor is None:
            return False
        bar, series = self.cursor
        if by_row:
            # Upwards in the bar: the whole bar, then its lowest series.
            above = (-1 if series is None else series) - by_row
            named = len(self._names) - (OTHERS in self._names)
            self.cursor = BarCursor(bar, min(above, named - 1) if above >= 0 else None)
            return True
        if not 0 <= bar + by_column < len(self._bars):
            return False
        self.cursor = BarCursor(bar + by_column, series)
        return True

    def point_to(self, x: int, y: int) -> bool:
        width, height = self.content_size
        index = self._lay_out(width, height).bar_at(x)
        if index is not None:
            self.cursor = BarCursor(self._find_shown(width)[index])
        return index is not None
