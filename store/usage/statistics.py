"""This module answers what all sessions together cost and did. It is the collection `store.usage`.

Sessions in the trash are left out; archived ones are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from store.model.statistics import (
    TIME_DIMENSIONS,
    Dimension,
    Figures,
    SessionCost,
    Statistics,
    StatisticsRow,
    Waste,
)
from store.search.query import Query
from store.search.sql import Condition, all_of, build_anywhere_condition
from store.text.validate import encode
from store.usage.collector import IS_ONE_OF, StatisticsCollector
from store.usage.cost import JOIN_RATES, RATES, list_models, rates_parameter
from store.usage.figures import RESPONSE_SUMS, add_figures, response_figures
from store.usage.period import ALL_TIME, Period
from store.usage.prices import load_table
from store.usage.session_tree import SESSION_TREE

if TYPE_CHECKING:
    from store.model.session import Session
    from store.store import Store
    from store.usage.session_cost import SessionUsage

_NOT_IN_TRASH = Condition("sessions.deleted = 0")
_SELECT_SESSION_COSTS = f"""
    with recursive {RATES}, {SESSION_TREE}
    select tree.asked, tree.session, {RESPONSE_SUMS}
    from tree cross join usage on usage.session = tree.session {JOIN_RATES}
    where usage.counted = 1 group by 1, 2
"""


def build_counted_condition(query: Query, now: datetime) -> Condition:
    """Match the sessions that a query finds, also in tool calls. The trash is left out, unless it is asked for."""
    condition = build_anywhere_condition(query, now)
    return condition if query.shows_trash else all_of([_NOT_IN_TRASH, condition])


class UsageStatistics:
    """Is the collection of figures about all sessions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ── statistics ────────────────────────────────────────────────────────────────────────────────

    def collect(
        self,
        by: Dimension,
        *,
        query: Query | str = "",
        period: Period = ALL_TIME,
        split: str = "",
        now: datetime | None = None,
    ) -> Statistics:
        """Return the figures of each day, model or whatever `by` names, and their totals.

        `split` is `model` or `agent`: then each row is about one of them.
        """
        query = Query.parse(query) if isinstance(query, str) else query
        table = load_table()
        key, split = ("", "model") if by == "model" else (by, split)
        with self._store.snapshot():
            sessions = self._find_sessions(query, now or datetime.now(UTC))
            collector = StatisticsCollector(self._store, key, split, sessions, period, table, is_everything=not query)
            rows, totals = collector.collect()
        if by == "model":
            rows = [StatisticsRow(row.split, row.figures) for row in rows]
        return Statistics(by, tuple(_sort_rows(by, rows)), totals, table.info)

    def _find_sessions(self, query: Query, now: datetime) -> Condition:
        """Return the condition on the sessions to count. Words are searched once, not in every statement."""
        condition = build_counted_condition(query, now)
        if not query.fts():
            return condition
        rows = self._store.rows(f"select key from sessions where {condition.sql}", *condition.values)
        return Condition(IS_ONE_OF, (encode([key for (key,) in rows]).decode(),))

    def of_session(self, session: Session) -> SessionUsage:
        """Return what answers questions about one session."""
        from store.usage.session_cost import SessionUsage

        return SessionUsage(self._store, session)

    def find_waste(self, sessions: Iterable[Session]) -> list[Waste]:
        """Return what these sessions wasted, the largest number of tokens first. It reads all their tool calls."""
        from store.usage.waste import find_waste

        found = [waste for session in sessions for waste in find_waste(self._store, session)]
        return sorted(found, key=lambda waste: -waste.tokens)

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────

    def session_costs(self, keys: Sequence[int]) -> dict[int, SessionCost]:
        """Return the figures of each of these sessions: its own, and together with its sub-agents.

        They hold tokens and cost only. A session without usage is left out.
        """
        table = load_table()
        models = list_models(self._store, table)
        rows = self._store.rows(_SELECT_SESSION_COSTS, rates_parameter(models), encode(list(keys)).decode())
        own: dict[int, Figures] = {}
        total: dict[int, Figures] = {}
        for asked, session, *numbers in rows:
            figures = response_figures(numbers)
            if asked == session:
                own[asked] = figures
            total[asked] = add_figures([total[asked], figures]) if asked in total else figures
        return {key: SessionCost(own.get(key, Figures()), figures, table.info) for key, figures in total.items()}

    def define_session_cost(self) -> None:
        """Define the SQL function `session_cost`, with which sessions are sorted by the cost of them and their
        sub-agents. A session without a price has the cost 0."""
        keys = [key for (key,) in self._store.rows("select key from sessions where deleted = 0")]
        costs = {key: cost.with_subagents.cost or 0 for key, cost in self.session_costs(keys).items()}
        self._store.connection.create_function("session_cost", 1, lambda key: costs.get(key, 0))


def _sort_rows(by: str, rows: Iterable[StatisticsRow]) -> list[StatisticsRow]:
    if by in TIME_DIMENSIONS:
        return sorted(rows, key=lambda row: (row.key, row.split))

    def rank(row: StatisticsRow) -> tuple[Any, ...]:
        figures = row.figures
        return -(figures.cost or 0), -figures.tokens.total, -figures.tool_calls, -figures.turns, row.key, row.split

    return sorted(rows, key=rank)
