"""This module explains a figure: the responses behind it, by model and rate, with their tokens and their cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from store.model.statistics import CostLine, Figures, TableInfo, TokenCounts
from store.model.usage import ABSENT, ESTIMATED, TOKEN_KINDS, unpack_knowledge
from store.search.query import Query
from store.search.sql import Condition, all_of
from store.text.validate import encode
from store.usage.cost import COST, JOIN_RATES, RATES, UsedModel, list_models, rates_parameter
from store.usage.figures import RESPONSE_SUMS, add_figures, response_figures
from store.usage.period import ALL_TIME, Period
from store.usage.prices import Rate, load_table
from store.usage.session_tree import SESSION_TREE
from store.usage.statistics import build_counted_condition

if TYPE_CHECKING:
    from store.store import Store

RATE_NAMES = ", ".join(f"{kind}_rate" for kind in TOKEN_KINDS)
# A number of tokens is estimated if any of those that are summed is, and absent if all of them are.
_KNOWN = " | ".join(
    f"{function}(usage.known & {bit << 2 * position})"
    for function, bit in (("max", ESTIMATED), ("min", ABSENT))
    for position in range(len(TOKEN_KINDS))
)
LINE_COLUMNS = f"usage.model, rates.over, {RATE_NAMES}, {RESPONSE_SUMS}, {_KNOWN}"
"""Selects what `build_cost_line` takes, from responses that are grouped by model and rate."""

_SELECT_LINES = f"""
    with {RATES} select {LINE_COLUMNS} from usage {JOIN_RATES} join sessions on sessions.key = usage.session
    join usage_models on usage_models.key = usage.model
    where usage.counted = 1 and {{condition}}
    group by usage.model, rates.since, rates.over order by sum({COST}) desc, count(*) desc
"""
_IN_TREE = f"usage.session in (with recursive {SESSION_TREE} select session from tree)"
_AT_HOUR = "strftime('%w %H', usage.at, 'unixepoch', 'localtime') = ?"


class FigureScope(NamedTuple):
    """Says which responses a figure covers."""

    query: Query
    period: Period = ALL_TIME
    model: str | None = None
    session_id: str = ""
    "Names a session, which is meant with its sub-agents."
    hour: tuple[int, int] | None = None
    "Is a weekday, Monday being 0, and an hour."


class FigureExplanation(NamedTuple):
    """Explains a figure. The lines add up to the figures."""

    lines: tuple[CostLine, ...]
    figures: Figures
    prices: TableInfo


def explain_figure(store: Store, scope: FigureScope, now: datetime | None = None) -> FigureExplanation:
    """Return the sum behind a figure of the statistics."""
    table = load_table()
    models = {model.key: model for model in list_models(store, table)}
    condition = _build_condition(store, scope, now or datetime.now(UTC))
    sql = _SELECT_LINES.format(condition=condition.sql)
    rows = store.rows(sql, rates_parameter(list(models.values())), *condition.values)
    lines = tuple(build_cost_line(models, row) for row in rows)
    return FigureExplanation(lines, add_figures(map(read_line_figures, rows)), table.info)


def _build_condition(store: Store, scope: FigureScope, now: datetime) -> Condition:
    conditions = [build_counted_condition(scope.query, now), scope.period.responses_condition()]
    if scope.model is not None:
        conditions.append(Condition("usage_models.model = ?", (scope.model,)))
    if scope.session_id:
        key = store.sessions.get(scope.session_id).key
        conditions.append(Condition(_IN_TREE, (encode([key]).decode(),)))
    if scope.hour is not None:
        weekday, hour = scope.hour
        conditions.append(Condition(_AT_HOUR, (f"{(weekday + 1) % 7} {hour:02}",)))
    return all_of(conditions)


def read_line_figures(row: Sequence[Any]) -> Figures:
    """Return the figures in a row of `LINE_COLUMNS`."""
    return response_figures(row[2 + len(TOKEN_KINDS) : -1])


def build_cost_line(models: Mapping[int, UsedModel], row: Sequence[Any]) -> CostLine:
    """Return the part of a sum that a row of `LINE_COLUMNS` holds."""
    key, over, *amounts = row[: 2 + len(TOKEN_KINDS)]
    model, figures, known = models[key], read_line_figures(row), unpack_knowledge(row[-1])
    prices = model.prices
    rate = _find_rate(prices.rates, over, amounts) if prices and amounts[0] is not None else None
    return CostLine(
        model.name,
        model.provider,
        figures.responses,
        figures.tokens,
        TokenCounts._make(amounts) if rate else None,
        figures.cost,
        priced_as="" if prices is None else prices.model if prices.is_own else f"{prices.provider}/{prices.model}",
        valid_from=rate.valid_from if rate else "",
        over=rate.over if rate else 0,
        is_own_rate=prices is not None and prices.is_own,
        estimated=tuple(kind for kind in TOKEN_KINDS if known[kind] & ESTIMATED),
        absent=tuple(kind for kind in TOKEN_KINDS if known[kind] & ABSENT),
        reported_cost=figures.reported_cost,
    )


def _find_rate(rates: Sequence[Rate], over: int | None, amounts: Sequence[int]) -> Rate | None:
    return next((rate for rate in rates if rate.amounts == tuple(amounts) and rate.over == max(over or 0, 0)), None)
