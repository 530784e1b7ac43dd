"""This module sums up what a member shares of its own use: figures by folder and by tool, and no content.

They are sent to all trusted machines, at most once a day, if the setting `metrics` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from store.model.entry import Json
from store.model.statistics import Figures, StatisticsRow
from store.model.team import MemberMetrics, MetricsRow
from store.team.values import is_count
from store.text.validate import replace_surrogates
from store.usage.period import Period

if TYPE_CHECKING:
    from store.store import Store
    from store.team.membership import MachineRow

METRICS = "metrics"
"""Is the name of the value that holds them."""

DAYS = 30
MAX_ROWS = 100
MAX_NAME_CHARS = 300


def sum_up(store: Store, machine: str, today: datetime | None = None) -> dict[str, Json]:
    """Return the figures of the last days about the sessions of this machine."""
    today = today or datetime.now(UTC)
    period = Period(today - timedelta(days=DAYS))
    own = f"-is:shared OR machine:{machine}"
    folders = store.usage.collect("folder", query=own, period=period)
    tools = store.usage.collect("tool", query=own, period=period)
    return {
        "day": today.date().isoformat(),
        "total": _to_json("", folders.totals),
        "folders": _rows_to_json(folders.rows),
        "tools": _rows_to_json(tools.rows),
    }


def _rows_to_json(rows: Iterable[StatisticsRow]) -> list[Json]:
    return [_to_json(row.key, row.figures) for row in list(rows)[:MAX_ROWS]]


def _to_json(name: str, figures: Figures) -> list[Json]:
    counts = (figures.sessions, figures.turns, figures.tool_calls, figures.errors, figures.tokens.total)
    return [name, *counts, figures.cost]


def read_metrics(machine: MachineRow, value: Json) -> MemberMetrics | None:
    """Return the figures of a member. What another machine sent may be anything, so what is not understood is left
    out."""
    match value:
        case {"day": str(day), "total": total, "folders": [*folders], "tools": [*tools]}:
            (sums,) = _read_rows([total]) or [MetricsRow("", 0, 0, 0, 0, 0, None)]
            return MemberMetrics(machine.name, machine.machine, day[:10], sums, _read_rows(folders), _read_rows(tools))
    return None


def _read_rows(rows: Sequence[Json]) -> tuple[MetricsRow, ...]:
    known = filter(_is_row, rows[:MAX_ROWS])
    return tuple(MetricsRow(replace_surrogates(row[0][:MAX_NAME_CHARS]), *row[1:]) for row in known)


def _is_row(row: Json) -> bool:
    match row:
        case [str(), *numbers, cost] if len(numbers) == len(MetricsRow._fields) - 2:
            return all(map(is_count, numbers)) and (cost is None or is_count(cost))
    return False
