"""This module reads the figures of the statistics screen from the store, arranged for its charts and tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING

from textual.content import Content

from store.model.statistics import Figures, Statistics
from store.search.all_tool_calls import compute_tool_stats
from store.search.query import Query
from store.search.typos import find_or_correct
from store.sources import source_label
from store.usage.cost_lines import FigureScope, explain_figure
from store.usage.figures import add_figures
from store.usage.period import Period
from store.usage.stale import count_without_usage
from tui.render.charts.calendar import MAX_WEEKS
from tui.render.charts.hours import HOURS, HourSlot
from tui.render.session_lines import abbreviate_home
from tui.render.statistics.explanation import render_explanation
from tui.render.statistics.figures import (
    NOTHING,
    UNKNOWN_SERIES,
    BarFigures,
    FigureSource,
    StatsReport,
    StatsRow,
    TableName,
)
from tui.render.statistics.period import Bucket, StatsPeriod, find_calendar_end, format_day, next_bucket
from tui.render.statistics.waste_rows import WasteRow
from tui.render.styles import session_title
from tui.screens.stats.state import StatsState

if TYPE_CHECKING:
    from store.store import Store

MAX_ROWS = 200
"""Limits the rows of a table."""

EARLIEST_BAR = date(1990, 1, 1)
"""Is the first month of all time that has a bar. Older times are those of clocks that were wrong."""

MAX_WASTE_SESSIONS = 40
"""Limits the sessions that are searched for waste, because it takes some milliseconds for each of them."""


def load_reports(store: Store, text: str, state: StatsState, now: datetime) -> Iterator[StatsReport]:
    """Yield the report again and again, each time with more figures, so that the first ones are shown early."""
    query = Query.parse(text, is_typing=True).limit_to_folder(state.folder)
    period = make_span(state.period.first_day, state.period.last_day)
    bucket, stacked_by = state.period.bucket, state.stacked_by
    query, split = find_or_correct(
        store,
        query,
        ["conversation_fts", "skims_fts", "tools_fts"],
        lambda meant: store.usage.collect(bucket, query=meant, period=period, split=stacked_by, now=now),
        lambda found: not found.totals.sessions,
    )
    bars = build_bars(state.period, split)
    report = StatsReport(totals=split.totals, prices=split.prices, query=query, bars=bars)
    yield report
    report = report._replace(sessions_to_read=count_without_usage(store))
    if state.tab != "waste":
        report = report._replace(rows=load_rows(store, query, state.tab, state.period, now))
        yield report
    last_day = find_calendar_end(state.period, now.astimezone().date())
    year = make_span(last_day - timedelta(weeks=MAX_WEEKS), last_day)
    days = store.usage.collect("day", query=query, period=year, now=now)
    report = report._replace(days={date.fromisoformat(row.key): row.figures for row in days.rows if row.key})
    yield report
    hours = store.usage.collect("weekday_hour", query=query, period=period, now=now)
    slots = {parse_slot(row.key): row.figures for row in hours.rows if row.key}
    report = report._replace(hours=slots)
    if state.tab == "waste":
        yield report
        report = report._replace(waste=load_waste(store, query, state.period, now))
    yield report._replace(is_complete=True)


def make_span(first_day: date | None, last_day: date) -> Period:
    """Return the span of these days in local time. Without a first day, it is all time."""
    if first_day is None:
        return Period()
    since, until = (datetime.combine(day, time()).astimezone() for day in (first_day, last_day + timedelta(days=1)))
    return Period(since, until)


def parse_slot(key: str) -> HourSlot:
    """Parse e.g. `1 09`, the hour from nine on a Monday."""
    weekday, hour = key.split()
    return HourSlot(int(weekday) - 1, int(hour))


def explain_source(
    store: Store, query: Query, state: StatsState, source: FigureSource, now: datetime, width: int
) -> list[Content]:
    """Return the sum behind a figure, as lines. Models and sessions are matched by response, not by session."""
    filters = Query.parse("" if source.model is not None else source.filters)
    query = query._replace(groups=(*query.groups, *filters.groups))
    first, last = source.first_day or state.period.first_day, source.last_day or state.period.last_day
    scope = FigureScope(query, make_span(first, last), source.model, source.session_id, source.slot)
    explained = explain_figure(store, scope, now)
    return render_explanation(explained.lines, explained.figures, explained.prices, width)


# ── bars ──────────────────────────────────────────────────────────────────────────────────────────


def build_bars(period: StatsPeriod, split: Statistics) -> list[BarFigures]:
    """Return a bar for every hour, day, week or month of the period, also for those in which nothing happened."""
    series: dict[str, dict[str, Figures]] = defaultdict(dict)
    for row in split.rows:
        series[row.key][row.split or UNKNOWN_SERIES] = row.figures
    return [
        BarFigures(label, first, last, add_figures(series.get(key, {}).values()), series.get(key, {}))
        for key, label, first, last in _list_buckets(period, list(series))
    ]


def _list_buckets(period: StatsPeriod, keys: Sequence[str]) -> Iterator[tuple[str, str, date, date]]:
    """Yield the key, the label and the days of each bar."""
    if period.bucket == "hour":
        for hour in range(HOURS):
            yield f"{hour:02}", f"{hour:02}:00", period.last_day, period.last_day
        return
    dated = sorted(key for key in keys if key)
    first_day = period.first_day or (date.fromisoformat(f"{dated[0]}-01") if dated else period.last_day)
    start = max(period.find_start(first_day), EARLIEST_BAR)
    while start <= period.last_day:
        end = next_bucket(start, period.bucket)
        yield _format_key(start, period.bucket), _format_label(start, period.bucket), start, end - timedelta(days=1)
        start = end


def _format_key(start: date, bucket: Bucket) -> str:
    """Return the key that the store gives to this day, week or month."""
    if bucket == "week":
        year, week, _ = start.isocalendar()
        return f"{year:04}-W{week:02}"
    return f"{start:%Y-%m}" if bucket == "month" else start.isoformat()


def _format_label(start: date, bucket: Bucket) -> str:
    return f"{start:%b} {start.year}" if bucket == "month" else format_day(start)


# ── tables ────────────────────────────────────────────────────────────────────────────────────────


def load_rows(store: Store, query: Query, table: TableName, period: StatsPeriod, now: datetime) -> list[StatsRow]:
    if table == "tool":
        return _load_tools(store, query, period, now)
    span = make_span(period.first_day, period.last_day)
    found = store.usage.collect(table, query=query, period=span, now=now).rows[:MAX_ROWS]
    trends = _load_trends(store, query, table, period, now) if table in ("model", "agent") else {}
    return [StatsRow(row.key, _label_row(store, table, row.key), row.figures, trends.get(row.key, ())) for row in found]


def load_waste(store: Store, query: Query, period: StatsPeriod, now: datetime) -> list[WasteRow]:
    """Return what was wasted in the most expensive sessions of the period. All their tool calls are read for that."""
    span = make_span(period.first_day, period.last_day)
    rows = store.usage.collect("session", query=query, period=span, now=now).rows[:MAX_WASTE_SESSIONS]
    sessions = {row.key: store.sessions.get(row.key) for row in rows if row.key}
    found = store.usage.find_waste(sessions.values())[:MAX_ROWS]
    return [WasteRow(waste, session_title(sessions[waste.session_id])) for waste in found]


def find_turn_entry(store: Store, session_id: str, turn: int) -> str:
    """Return the public id of the entry with which a turn begins."""
    from store.conversations.timeline import Timelines

    outline = Timelines(store).load_outline(store.sessions.get(session_id).key)
    index = outline.index_of_turn(turn)
    return f"{session_id}#{outline.turns[index].first_seq if index is not None else 0}"


def _load_trends(
    store: Store, query: Query, table: TableName, period: StatsPeriod, now: datetime
) -> Mapping[str, Sequence[Figures]]:
    """Return the figures of each model or agent in every hour, day, week or month of the period."""
    span = make_span(period.first_day, period.last_day)
    split = store.usage.collect(period.bucket, query=query, period=span, split=table, now=now)
    bars = build_bars(period, split)
    return {row.split: [bar.series.get(row.split, NOTHING) for bar in bars] for row in split.rows}


def _load_tools(store: Store, query: Query, period: StatsPeriod, now: datetime) -> list[StatsRow]:
    dated = query._replace(groups=(*query.groups, *Query.parse(period.to_filters()).groups))
    return [
        StatsRow(
            tool.name,
            tool.name or "unnamed tool",
            Figures(tool_calls=tool.calls, errors=tool.failed),
            median_ms=tool.median_ms,
            p95_ms=tool.p95_ms,
        )
        for tool in compute_tool_stats(store, dated, now=now)
    ]


def _label_row(store: Store, table: TableName, key: str) -> str:
    match table:
        case "agent":
            return source_label(key)
        case "folder":
            return abbreviate_home(key) or "no folder"
        case "session":
            return session_title(store.sessions.get(key))
    return key or "unknown model"
