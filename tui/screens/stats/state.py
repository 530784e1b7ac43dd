"""This module holds what a person has chosen on the statistics screen, so that it can be left and opened again."""

from __future__ import annotations

from datetime import date
from typing import Literal, NamedTuple

from tui.render.charts.calendar import WEEKDAYS
from tui.render.charts.hours import HourSlot
from tui.render.charts.measures import COST, Measure
from tui.render.statistics.figures import TABLES, BarCursor, FigureSource, StackedBy, TableName
from tui.render.statistics.period import StatsPeriod, day_filters

Tab = Literal[TableName, "waste"]
TABS: tuple[Tab, ...] = (*TABLES, "waste")
ChartName = Literal["calendar", "hours", "bars"]
Place = Literal[ChartName, "table"]
PLACES: tuple[Place, ...] = ("calendar", "hours", "bars", "table")
"""Names what can have the focus, in the order of the Tab key."""


class StatsState(NamedTuple):
    query: str
    folder: str
    period: StatsPeriod
    measure: Measure = COST
    stacked_by: StackedBy = "model"
    tab: Tab = "model"
    focus: Place = "bars"
    shown_chart: ChartName = "bars"
    "Is the chart that is shown if there is room for one."
    day: date | None = None
    bar: BarCursor | None = None
    slot: HourSlot | None = None
    row: str = ""
    "Say where the cursors were when the screen was left."

    @classmethod
    def begin(cls, query: str, folder: str, today: date) -> StatsState:
        return cls(query, folder, StatsPeriod("30 days", today))

    def build_query(self, source: FigureSource) -> str:
        """Return the query that finds the sessions of a figure."""
        first, last = source.first_day or self.period.first_day, source.last_day or self.period.last_day
        days = day_filters(first, last) if first else ""
        hour = f"hour:{WEEKDAYS[source.slot.weekday].lower()}-{source.slot.hour:02}" if source.slot else ""
        return " ".join(filter(None, [self.query.strip(), source.filters, days, hour]))


class StatsChoice(NamedTuple):
    """Says what was opened on the statistics screen: an entry, or the sessions that a query finds."""

    state: StatsState
    entry: str = ""
    query: str = ""
