"""This module sums up tokens, cost and counts by day, model, folder and so on. It is the collection `store.usage`.

Three kinds of facts are summed: responses (tokens and cost), turns (with sessions and active time) and tool calls. Each
has its own SQL for the key of a dimension. A response is counted in one session only, and a turn or call that a fork
inherited is not counted. Sessions in the trash are left out; archived ones are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from store.model.statistics import (
    TIME_DIMENSIONS,
    Dimension,
    Figures,
    SessionCost,
    Statistics,
    StatisticsRow,
    TokenCounts,
    Waste,
)
from store.model.usage import TOKEN_KINDS
from store.search.query import Query
from store.search.sql import Condition, all_of, build_anywhere_condition, format_timestamp
from store.text.validate import decode, encode
from store.usage.cost import CONTEXT, COST, JOIN_RATES, RATES, UsedModel, list_models, rates_parameter
from store.usage.prices import PriceTable, load_table

if TYPE_CHECKING:
    from store.model.session import Session
    from store.store import Store
    from store.usage.session_cost import SessionUsage

MAX_TURN_SECONDS = 3_600
"""Is the longest active time of a turn. A longer one waited for something, such as a person's permission."""

_TIME_FORMATS = {"day": "%Y-%m-%d", "month": "%Y-%m", "hour": "%H", "weekday_hour": "%w %H"}
# The week is that of its Monday; `weekday 0` moves on to the next Sunday.
_WEEK = "date({0}, 'localtime', 'weekday 0', '-6 days')"
_SESSION_KEYS = {
    "": "''",
    "agent": "sessions.source",
    "folder": "sessions.cwd",
    "session": "coalesce(root.id, sessions.id)",
}
_NOT_IN_TRASH = Condition("sessions.deleted = 0")

_ESTIMATED_BITS = sum(1 << 2 * position for position in range(len(TOKEN_KINDS)))
_SUMS = {
    "responses": "count(*)",
    **{kind: f"sum(usage.{kind})" for kind in TOKEN_KINDS},
    "cost": f"sum({COST})",
    "unpriced": f"sum(iif(rates.model is null, {CONTEXT} + usage.output, 0))",
    "reported": "sum(usage.reported_cost)",
    "is_estimated": f"max(usage.known & {_ESTIMATED_BITS}) > 0",
}
RESPONSE_SUMS = ", ".join(_SUMS.values())
"""Selects the figures of responses, in the order of `response_figures`."""

# Responses are summed by session first, in the order of the table. This needs no sorting, and most sessions belong to
# one row as a whole, e.g. to one month, so that times are formatted twice for each session and not for each response.
# It takes 60 % of the time. The sessions in several rows are listed in the last column.
_SELECT_RESPONSES_OF_SESSIONS = f"""
    with recursive {{rates}}, summed as (
        select usage.session, usage.model, min(usage.at) as first, max(usage.at) as last,
            {", ".join(f"{sql} as sum_{name}" for name, sql in _SUMS.items())}
        from usage {JOIN_RATES} where usage.counted = 1 and {{period}} and {{is_selected}} group by {{inner_key}}
    )
    select {{first_key}}, {{last_key}}, {{split}}, count(distinct summed.session),
        {", ".join(f"{'max' if name == 'is_estimated' else 'sum'}(sum_{name})" for name in _SUMS)},
        json_group_array(summed.session)
    from summed join sessions on sessions.key = summed.session {{join}} where {{condition}} group by 1, 2, 3
"""
_SELECT_RESPONSES = f"""
    with {RATES} select {{key}}, {{split}}, count(distinct usage.session), {RESPONSE_SUMS}
    from usage {JOIN_RATES} join sessions on sessions.key = usage.session {{join}}
    where usage.counted = 1 and {{period}} and {{condition}} group by 1, 2
"""
_JOIN_MODELS = "join usage_models on usage_models.key = {}.model"
# Most sessions belong to one row as a whole, e.g. to one month. Their own counts are then added, which takes a third of
# the time that counting their turns and calls takes. Only sessions with a relation have inherited turns.
_SELECT_SPANS = """
    {roots} select sessions.key, sessions.relation is null and sessions.turns > 0 and {is_of_one_split},
        {first_key}, {last_key}, {split}, spans.first, spans.last, sessions.turns, sessions.tool_calls, sessions.errors,
        spans.seconds
    from (
        select session, min(started_at) as first, max(started_at) as last, sum({seconds}) as seconds
        from turns group by session
    ) as spans join sessions on sessions.key = spans.session {join} where {condition}
"""
_SELECT_EARLY_SESSIONS = "select key from sessions where turns = 0 and tool_calls > 0 and {condition}"
_ACTIVE_SECONDS = f"min(max((julianday(ended_at) - julianday(started_at)) * 86400, 0), {MAX_TURN_SECONDS})"
_SELECT_TURNS = """
    {roots} select {key}, {split}, count(distinct turns.session), count(*), sum({seconds})
    from turns join sessions on sessions.key = turns.session {join}
    where (sessions.relation is null or (select inherited from entries where key = turns.entry) = 0)
        and {period} and {condition} group by 1, 2
"""
_SELECT_CALLS = """
    {roots} select {key}, {split}, count(distinct tool_calls.session), count(*), sum(tool_calls.status = 'error')
    from tool_calls join sessions on sessions.key = tool_calls.session
    left join turns on turns.session = tool_calls.session and turns.n = tool_calls.turn {join}
    where tool_calls.inherited = 0 and tool_calls.entry is not null and {period} and {condition} group by 1, 2
"""
# A turn belongs to the first model that answered it, and a call to the model that made it. Where entries do not name
# the model, the first response of the session does.
_MODEL_OF_SESSION = f"""
    coalesce((
        select usage_models.model from usage {_JOIN_MODELS.format("usage")} where usage.session = sessions.key limit 1
    ), sessions.model)
"""
_MODEL_OF_TURN = f"""
    coalesce((
        select model from entries where session = turns.session and seq between first_seq and last_seq
            and role = 'assistant' and model != '' order by seq limit 1
    ), {_MODEL_OF_SESSION})
"""
_MODEL_OF_CALL = f"coalesce(nullif(entries.model, ''), {_MODEL_OF_SESSION})"
_JOIN_CALLING_ENTRY = "join entries on entries.key = tool_calls.entry"
_HAS_ONE_MODEL = """
    sessions.key not in (select session from usage group by session having min(usage.model) != max(usage.model))
"""
_IS_ONE_OF = "sessions.key in (select value from json_each(?))"
# Finds the session that a sub-agent works for, however deep it is nested. `union` ends in a circle of foreign sessions.
ROOTS = """
    roots (session, root) as (
        select key, key from sessions where coalesce(relation, '') not in ('delegate', 'sidechain')
        union
        select children.key, roots.root from roots
        join sessions as parents on parents.key = roots.session
        join sessions as children on children.parent_id = parents.id
            and children.relation in ('delegate', 'sidechain')
    )
"""

_JOIN_ROOT = """
    left join roots on roots.session = sessions.key left join sessions as root on root.key = roots.root
"""


class Period(NamedTuple):
    """Is a span of time. None means that it is open at that end."""

    since: datetime | None = None
    until: datetime | None = None

    def responses_condition(self) -> Condition:
        return self._condition("usage.at", lambda moment: int(moment.timestamp()))

    def turns_condition(self) -> Condition:
        return self._condition("turns.started_at", format_timestamp)

    def _condition(self, column: str, convert: Any) -> Condition:
        bounds = ((self.since, ">="), (self.until, "<"))
        return all_of(Condition(f"{column} {sign} ?", (convert(moment),)) for moment, sign in bounds if moment)


ALL_TIME = Period()


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
        # A turn may have several tools or none, so the rows of tools do not add up to the totals.
        key, split = ("", "model") if by == "model" else (by, split)
        with self._store.snapshot():
            sessions = self._find_sessions(query, now or datetime.now(UTC))
            collector = _Collector(self._store, key, split, sessions, period, table, is_everything=not query)
            rows = collector.collect()
            summed = collector.collect_all() if by == "tool" else rows
            totals = add_figures(row.figures for row in summed)._replace(sessions=collector.count_sessions())
        if by == "model":
            rows = [StatisticsRow(row.split, row.figures) for row in rows]
        return Statistics(by, tuple(_sort_rows(by, rows)), totals, table.info)

    def _find_sessions(self, query: Query, now: datetime) -> Condition:
        """Return the condition on the sessions to count. Words are searched once, not in every statement."""
        condition = build_counted_condition(query, now)
        if not query.fts():
            return condition
        rows = self._store.rows(f"select key from sessions where {condition.sql}", *condition.values)
        return Condition(_IS_ONE_OF, (encode([key for (key,) in rows]).decode(),))

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


# The sessions that are asked for, each with the sub-agents below it.
SESSION_TREE = """
    tree (asked, session) as (
        select value, value from json_each(?)
        union
        select tree.asked, children.key from tree join sessions as parents on parents.key = tree.session
        join sessions as children on children.parent_id = parents.id
            and children.relation in ('delegate', 'sidechain') and children.deleted = 0
    )
"""
_SELECT_SESSION_COSTS = f"""
    with recursive {RATES}, {SESSION_TREE}
    select tree.asked, tree.session, {RESPONSE_SUMS}
    from tree cross join usage on usage.session = tree.session {JOIN_RATES}
    where usage.counted = 1 group by 1, 2
"""


_RowKey = tuple[str, str]
"""Holds the key of a row, and the model or agent by which it is split, or an empty text."""


class _Collector:
    """Collects the figures of one dimension. Without a dimension, all figures are in one row."""

    def __init__(
        self,
        store: Store,
        by: str,
        split: str,
        sessions: Condition,
        period: Period,
        table: PriceTable,
        *,
        is_everything: bool,
    ) -> None:
        self._store = store
        self._is_everything = is_everything
        "Says that `sessions` matches all sessions that are not in the trash."
        self._by = by
        self._split = split
        self._sessions = sessions
        self._period = period
        self._table = table
        self._models: list[UsedModel] = list_models(store, table)
        self._roots = f"with recursive {ROOTS}" if by == "session" else ""
        self._join_root = _JOIN_ROOT if by == "session" else ""

    def collect(self) -> list[StatisticsRow]:
        figures: dict[_RowKey, Figures] = {}
        if self._by != "tool":
            self._add_responses(figures)
        self._add_turns_and_calls(figures)
        rows = ((_label(self._by, key), figure, split) for (key, split), figure in figures.items())
        return [StatisticsRow(*row) for row in rows]

    def collect_all(self) -> list[StatisticsRow]:
        """Collect the figures without a dimension."""
        conditions = (self._sessions, self._period, self._table)
        return _Collector(self._store, "", "", *conditions, is_everything=self._is_everything).collect()

    def count_sessions(self) -> int:
        """Return how many sessions have a turn or a response in the period. The sum of the rows may be larger."""
        turns, responses = self._period.turns_condition(), self._period.responses_condition()
        sql = f"""
            select count(*) from sessions where {self._sessions.sql} and (
                exists (select 1 from turns where turns.session = sessions.key and {turns.sql})
                or exists (select 1 from usage where usage.session = sessions.key and counted = 1 and {responses.sql}))
        """
        (count,) = self._store.row(sql, *self._sessions.values, *turns.values, *responses.values)
        return int(count)

    def _add_turns_and_calls(self, figures: dict[_RowKey, Figures]) -> None:
        counted: dict[_RowKey, Figures] = {}
        if self._by == "tool":
            self._count_calls(counted, self._sessions)
        else:
            others = Condition(_IS_ONE_OF, (encode(self._count_whole_sessions(counted)).decode(),))
            self._count_turns(counted, others)
            self._count_calls(counted, others)
        for key, counts in counted.items():
            before = figures.get(key, Figures())
            sessions = max(before.sessions, counts.sessions)
            figures[key] = add_figures([before, counts])._replace(sessions=sessions)

    def _count_whole_sessions(self, counted: dict[_RowKey, Figures]) -> list[int]:
        """Count the sessions that belong to one row as a whole, and return the others."""
        is_by_model = self._split == "model"
        sql = _SELECT_SPANS.format(
            roots=self._roots,
            is_of_one_split=_HAS_ONE_MODEL if is_by_model else "1",
            first_key=self._turn_key("spans.first"),
            last_key=self._turn_key("spans.last"),
            split=_MODEL_OF_SESSION if is_by_model else _SESSION_KEYS[self._split],
            seconds=_ACTIVE_SECONDS,
            join=self._join_root,
            condition=self._sessions.sql,
        )
        since, until = (format_timestamp(moment) if moment else "" for moment in self._period)
        whole: dict[_RowKey, list[list[float]]] = {}
        others = []
        for session, is_own, first_key, last_key, split, first, last, *counts in self._store.rows(
            sql, *self._sessions.values
        ):
            if is_own and first_key == last_key and first >= since and (not until or last < until):
                whole.setdefault((first_key or "", split), []).append(counts)
            else:
                others.append(session)
        for key, rows in whole.items():
            turns, calls, errors, seconds = (round(sum(column)) for column in zip(*rows, strict=True))
            counted[key] = Figures(len(rows), turns, calls, errors, seconds)
        early = self._store.rows(_SELECT_EARLY_SESSIONS.format(condition=self._sessions.sql), *self._sessions.values)
        return others + [session for (session,) in early]

    def _count_turns(self, counted: dict[_RowKey, Figures], sessions: Condition) -> None:
        period = self._period.turns_condition()
        sql = _SELECT_TURNS.format(
            roots=self._roots,
            key=self._turn_key("turns.started_at"),
            split=_MODEL_OF_TURN if self._split == "model" else _SESSION_KEYS[self._split],
            seconds=_ACTIVE_SECONDS,
            join=self._join_root,
            period=period.sql,
            condition=sessions.sql,
        )
        for key, split, count, turns, seconds in self._store.rows(sql, *period.values, *sessions.values):
            _add_counts(counted, (key or "", split), Figures(count, turns, active_seconds=round(seconds)))

    def _count_calls(self, counted: dict[_RowKey, Figures], sessions: Condition) -> None:
        """Count the calls. A call belongs to the time at which its turn began."""
        is_by_tool, is_by_model = self._by == "tool", self._split == "model"
        moment = "coalesce(turns.started_at, sessions.created_at)"  # a call before the first prompt has no turn
        period = self._period.turns_condition()
        sql = _SELECT_CALLS.format(
            roots=self._roots,
            key="tool_calls.name" if is_by_tool else self._turn_key(moment),
            split=_MODEL_OF_CALL if is_by_model else _SESSION_KEYS[self._split],
            join=_JOIN_CALLING_ENTRY if is_by_model else self._join_root,
            period=period.sql,
            condition=sessions.sql,
        )
        for key, split, count, calls, errors in self._store.rows(sql, *period.values, *sessions.values):
            sessions_of_row = count if is_by_tool else 0
            _add_counts(counted, (key or "", split), Figures(sessions_of_row, tool_calls=calls, errors=errors))

    def _add_responses(self, figures: dict[_RowKey, Figures]) -> None:
        divided: list[int] = []
        for first_key, last_key, split, sessions, *numbers, keys in self._select_responses_of_sessions():
            if first_key == last_key:
                figures[first_key or "", split] = response_figures(numbers)._replace(sessions=sessions)
            else:
                divided += decode(keys)
        for key, split, sessions, *numbers in self._select_responses(divided) if divided else ():
            _add_counts(figures, (key or "", split), response_figures(numbers)._replace(sessions=sessions))

    def _select_responses_of_sessions(self) -> list[Any]:
        has_models = self._split == "model"
        period = self._period.responses_condition()
        is_selected = self._sessions.embed_in("usage.session in (select key from sessions where {0})")
        # Almost all sessions are not in the trash, so selecting them first would only take time.
        inner, outer = (Condition(), self._sessions) if self._is_everything else (is_selected, Condition())
        sql = _SELECT_RESPONSES_OF_SESSIONS.format(
            rates=f"{RATES}, {ROOTS}" if self._by == "session" else RATES,
            period=period.sql,
            is_selected=inner.sql,
            inner_key="usage.session, usage.model" if has_models else "usage.session",
            first_key=self._response_key("first"),
            last_key=self._response_key("last"),
            split="usage_models.model" if self._split == "model" else _SESSION_KEYS[self._split],
            join=self._join_root + (_JOIN_MODELS.format("summed") if has_models else ""),
            condition=outer.sql,
        )
        values = (*period.values, *inner.values, *outer.values)
        return self._store.rows(sql, rates_parameter(self._models), *values)

    def _select_responses(self, sessions: Sequence[int]) -> list[Any]:
        """Return the sums of the responses of sessions that belong to several rows."""
        period = self._period.responses_condition()
        sql = _SELECT_RESPONSES.format(
            key=self._response_key("usage.at"),
            split="usage_models.model" if self._split == "model" else _SESSION_KEYS[self._split],
            join=_JOIN_MODELS.format("usage") if self._split == "model" else "",
            period=period.sql,
            condition=_IS_ONE_OF,
        )
        return self._store.rows(sql, rates_parameter(self._models), *period.values, encode(list(sessions)).decode())

    def _response_key(self, moment: str) -> str:
        return _SESSION_KEYS.get(self._by) or _time_key(self._by, f"{moment}, 'unixepoch'")

    def _turn_key(self, moment: str) -> str:
        """Return the SQL of the key of a turn that began at this moment."""
        return _SESSION_KEYS.get(self._by) or _time_key(self._by, moment)


def _add_counts(counted: dict[_RowKey, Figures], key: _RowKey, counts: Figures) -> None:
    counted[key] = add_figures([counted[key], counts]) if key in counted else counts


def _time_key(by: str, moment: str) -> str:
    if by == "week":
        return _WEEK.format(moment)
    return f"strftime('{_TIME_FORMATS[by]}', {moment}, 'localtime')"


def _label(by: str, key: str) -> str:
    """Return the key as it is shown: weeks by their number, and weekdays from Monday on."""
    if by == "week" and key:
        year, week, _ = date.fromisoformat(key).isocalendar()
        return f"{year}-W{week:02}"
    if by == "weekday_hour" and key:
        return f"{int(key[0]) or 7}{key[1:]}"
    return key


def response_figures(numbers: Sequence[Any]) -> Figures:
    """Return the figures that `RESPONSE_SUMS` selects."""
    responses, *tokens, cost, unpriced, reported, is_estimated = numbers
    return Figures(
        responses=responses,
        tokens=TokenCounts._make(tokens),
        cost=cost,
        unpriced_tokens=unpriced,
        reported_cost=reported,
        is_estimated=bool(is_estimated),
    )


def add_figures(all_figures: Iterable[Figures]) -> Figures:
    """Return the sum. A cost is None only if all of them are."""
    values = list(all_figures)

    def add(name: str) -> int:
        return sum(getattr(value, name) for value in values)

    def add_known(name: str) -> int | None:
        known = [amount for value in values if (amount := getattr(value, name)) is not None]
        return sum(known) if known else None

    by_kind = zip(TokenCounts(), *(value.tokens for value in values), strict=True)
    return Figures(
        add("sessions"),
        add("turns"),
        add("tool_calls"),
        add("errors"),
        add("active_seconds"),
        add("responses"),
        TokenCounts(*map(sum, by_kind)),
        cost=add_known("cost"),
        unpriced_tokens=add("unpriced_tokens"),
        reported_cost=add_known("reported_cost"),
        is_estimated=any(value.is_estimated for value in values),
    )


def _sort_rows(by: str, rows: Iterable[StatisticsRow]) -> list[StatisticsRow]:
    if by in TIME_DIMENSIONS:
        return sorted(rows, key=lambda row: (row.key, row.split))

    def rank(row: StatisticsRow) -> tuple[Any, ...]:
        figures = row.figures
        return -(figures.cost or 0), -figures.tokens.total, -figures.tool_calls, -figures.turns, row.key, row.split

    return sorted(rows, key=rank)
