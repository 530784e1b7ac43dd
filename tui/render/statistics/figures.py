"""This module holds what the statistics screen shows: figures of the store, arranged for charts and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Literal, NamedTuple

from store.model.statistics import Figures, TableInfo
from store.search.query import Query
from tui.render.charts.hours import HourSlot
from tui.render.charts.measures import Measure
from tui.render.statistics.waste_rows import WasteRow

TableName = Literal["model", "agent", "folder", "tool", "session"]
TABLES: tuple[TableName, ...] = ("model", "agent", "folder", "tool", "session")
StackedBy = Literal["model", "agent"]

NOTHING = Figures()
UNKNOWN_SERIES = "unknown"
"""Names the responses whose model is not known."""


def read_amount(figures: Figures, measure: Measure) -> int | None:
    """Return the amount of a measure. None is an amount of money that is not known, because no token has a price."""
    match measure.key:
        case "cost":
            return None if figures.cost is None and figures.unpriced_tokens else figures.cost or 0
        case "tokens":
            return figures.tokens.total
        case "turns":
            return figures.turns
        case "calls":
            return figures.tool_calls
        case "errors":
            return figures.errors
    return figures.active_seconds * 1_000


def write_amount(figures: Figures, measure: Measure) -> str:
    """Return the amount of a measure as a person reads it. An estimate is marked."""
    is_estimate = figures.is_estimated and measure.key in ("cost", "tokens")
    return measure.write(read_amount(figures, measure), is_estimate=is_estimate)


class StatsRow(NamedTuple):
    """Describes one model, agent, folder or session, or one tool."""

    key: str
    label: str
    figures: Figures
    trend: Sequence[Figures] = ()
    "Holds the figures of equal parts of the period, oldest first."
    median_ms: float | None = None
    p95_ms: float | None = None
    "Cover the calls of a tool whose duration is known."


_FILTERS = {"model": "model", "agent": "agent", "folder": "cwd", "tool": "tool"}


def build_filter(table: str, key: str) -> str:
    """Return the filter that finds a model, agent, folder or tool. A name with a quotation mark cannot be found."""
    name = "" if key == UNKNOWN_SERIES else key
    return "" if '"' in name else f'{_FILTERS[table]}:"{name}"'


class FigureSource(NamedTuple):
    """Says what a figure is about: some days, and perhaps one model, agent, tool and so on."""

    title: str
    figures: Figures
    first_day: date | None = None
    last_day: date | None = None
    filters: str = ""
    "Holds the filters of a query that finds its sessions, besides those of the days."
    model: str | None = None
    session_id: str = ""
    slot: HourSlot | None = None
    "Limit the responses that the figure covers, if they are set."


class BarCursor(NamedTuple):
    """Points to a bar, and to one of its series, or to the whole bar."""

    bar: int
    series: int | None = None


class BarFigures(NamedTuple):
    """Holds the figures of one bar: of an hour, a day, a week or a month."""

    label: str
    first_day: date
    last_day: date
    total: Figures
    series: Mapping[str, Figures]
    "Holds the figures of each model or agent."


class StatsReport(NamedTuple):
    """Holds everything that the screen shows for one query and period."""

    totals: Figures = NOTHING
    days: Mapping[date, Figures] = {}
    "Holds the days of the calendar, which may begin before the period."
    hours: Mapping[HourSlot, Figures] = {}
    bars: Sequence[BarFigures] = ()
    rows: Sequence[StatsRow] = ()
    waste: Sequence[WasteRow] = ()
    sessions_to_read: int = 0
    "Counts the sessions whose usage is not read yet."
    prices: TableInfo | None = None
    query: Query = Query()
    "Is the query that the figures are about. Its words may be corrected."
    is_complete: bool = False
    "Is set if nothing else will follow."

    def fill_gaps(self, older: StatsReport | None) -> StatsReport:
        """Show older figures until newer ones are there, so that nothing disappears for a moment."""
        if older is None or self.is_complete:
            return self
        return self._replace(
            days=self.days or older.days, hours=self.hours or older.hours, rows=self.rows or older.rows
        )
