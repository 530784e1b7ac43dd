"""This module collects the figures of one dimension: of each day, model, folder and so on.

Three kinds of facts are summed: responses (tokens and cost), turns (with sessions and active time) and tool calls. Each
has its own SQL for the key of a dimension. A response is counted in one session only, and a turn or call that a fork
inherited is not counted. The sessions of a row are collected, too, because one session may have several of these facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from store.model.statistics import Figures, StatisticsRow
from store.search.sql import Condition, format_timestamp
from store.text.validate import encode
from store.usage.cost import JOIN_RATES, RATES, UsedModel, list_models, rates_parameter
from store.usage.figures import RESPONSE_SUMS, SUMS, add_figures, response_figures
from store.usage.period import Period
from store.usage.prices import PriceTable
from store.usage.session_tree import find_roots

if TYPE_CHECKING:
    from store.store import Store

MAX_TURN_SECONDS = 3_600
"""Is the longest active time of a turn. A longer one waited for something, such as a person's permission."""

_TIME_FORMATS = {"day": "%Y-%m-%d", "month": "%Y-%m", "hour": "%H", "weekday_hour": "%w %H"}
# The week is that of its Monday; `weekday 0` moves on to the next Sunday.
_WEEK = "date({0}, 'localtime', 'weekday 0', '-6 days')"
_SESSION_KEYS = {
    "": "''",
    "agent": "sessions.source",
    "folder": "sessions.cwd",
    "session": "sessions.id",
}

# Responses are summed by session first, in the order of the table. This needs no sorting, and most sessions belong to
# one row as a whole, e.g. to one month, so that times are formatted twice for each session and not for each response.
# It takes 60 % of the time. Those of the sessions in several rows are then summed again.
_SELECT_RESPONSES_OF_SESSIONS = f"""
    with {RATES}, summed as (
        select usage.session, usage.model, min(usage.at) as first, max(usage.at) as last,
            {", ".join(f"{sql} as sum_{name}" for name, sql in SUMS.items())}
        from usage {JOIN_RATES} where usage.counted = 1 and {{period}} and {{is_selected}} group by {{inner_key}}
    )
    select {{first_key}}, {{last_key}}, {{split}}, json_group_array(distinct summed.session),
        {", ".join(f"{'max' if name == 'is_estimated' else 'sum'}(sum_{name})" for name in SUMS)}
    from summed join sessions on sessions.key = summed.session {{join}} where {{condition}} group by 1, 2, 3
"""
_SELECT_RESPONSES = f"""
    with {RATES} select {{key}}, {{split}}, json_group_array(distinct usage.session), {RESPONSE_SUMS}
    from usage {JOIN_RATES} join sessions on sessions.key = usage.session {{join}}
    where usage.counted = 1 and {{period}} and {{condition}} group by 1, 2
"""
_JOIN_MODELS = "join usage_models on usage_models.key = {}.model"
# Most sessions belong to one row as a whole, e.g. to one month. Their own counts are then added, which takes a third of
# the time that counting their turns and calls takes. Only sessions with a relation have inherited turns. ?1 and ?2 are
# the period; sessions without a turn in it are left out early, because the rest takes some time for each of them.
_SELECT_WHOLE_SESSIONS = """
    select is_whole, iif(is_whole, key, ''), iif(is_whole, split, ''), json_group_array(session),
        sum(turns), sum(tool_calls), sum(errors), sum(seconds)
    from (
        select sessions.key as session, {first_key} as key, {split} as split,
            sessions.relation is null and sessions.turns > 0 and {is_of_one_split} and {first_key} is {last_key}
                and spans.first >= ?1 and spans.last < ?2 as is_whole,
            sessions.turns, sessions.tool_calls, sessions.errors, spans.seconds
        from (
            select session, min(started_at) as first, max(started_at) as last, sum({seconds}) as seconds
            from turns group by session
        ) as spans join sessions on sessions.key = spans.session
        where spans.last >= ?1 and spans.first < ?2 and {condition}
    ) group by 1, 2, 3
"""
_END_OF_TIME = "~"
"""Sorts after every time."""

_SELECT_EARLY_SESSIONS = "select key from sessions where turns = 0 and tool_calls > 0 and {condition}"
# It is rounded for each turn, so that all rows add up to the same total.
_ACTIVE_SECONDS = f"""
    cast(min(max((julianday(ended_at) - julianday(started_at)) * 86400, 0), {MAX_TURN_SECONDS}) + 0.5 as integer)
"""
_SELECT_TURNS = """
    select {key}, {split}, json_group_array(distinct turns.session), count(*), sum({seconds})
    from turns join sessions on sessions.key = turns.session
    where (sessions.relation is null or (select inherited from entries where key = turns.entry) = 0)
        and {period} and {condition} group by 1, 2
"""
_SELECT_CALLS = """
    select {key}, {split}, json_group_array(distinct tool_calls.session), count(*), sum(tool_calls.status = 'error')
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
    coalesce((select min(usage.model) = max(usage.model) from usage where usage.session = sessions.key), 1)
"""
IS_ONE_OF = "sessions.key in (select value from json_each(?))"

_RowKey = tuple[str, str]
"""Holds the key of a row, and the model or agent by which it is split, or an empty text."""


class _Part(NamedTuple):
    """Holds figures that belong to one row, and the keys of their sessions."""

    figures: list[Figures]
    sessions: set[int]

    def sum_up(self) -> Figures:
        return add_figures(self.figures)._replace(sessions=len(self.sessions))


class StatisticsCollector:
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
        self._parts: dict[_RowKey, _Part] = {}

    def collect(self) -> tuple[list[StatisticsRow], Figures]:
        """Return the rows, and their totals."""
        if self._by != "tool":
            self._add_responses()
            others = Condition(IS_ONE_OF, (_encode_keys(self._add_whole_sessions()),))
            self._add_turns(others)
            self._add_calls(others)
            if self._by == "session":
                self._roll_up_subagents()
            figures = {key: part.sum_up() for key, part in self._parts.items()}
            totals = _Part([*figures.values()], set().union(*(part.sessions for part in self._parts.values()))).sum_up()
        else:
            # A turn may have several tools or none, so the rows of tools do not add up to the totals.
            self._add_calls(self._sessions)
            figures = {key: part.sum_up() for key, part in self._parts.items()}
            _, totals = self._without_dimension().collect()
        return [StatisticsRow(_label(self._by, key), figure, split) for (key, split), figure in figures.items()], totals

    def _without_dimension(self) -> StatisticsCollector:
        conditions = (self._sessions, self._period, self._table)
        return StatisticsCollector(self._store, "", "", *conditions, is_everything=self._is_everything)

    def _add(self, key: str | None, split: str, figures: Figures, sessions: Iterable[int]) -> None:
        part = self._parts.setdefault((key or "", split), _Part([], set()))
        part.figures.append(figures)
        part.sessions.update(sessions)

    def _roll_up_subagents(self) -> None:
        """Add the rows of sub-agents to those of the sessions that they work for."""
        roots = find_roots(self._store)
        for key in [key for key in self._parts if key[0] in roots]:
            part = self._parts.pop(key)
            self._add(roots[key[0]], key[1], add_figures(part.figures), part.sessions)

    # ── responses ─────────────────────────────────────────────────────────────────────────────────

    def _add_responses(self) -> None:
        divided: list[int] = []
        for first_key, last_key, split, sessions, *numbers in self._select_responses_of_sessions():
            if first_key == last_key:
                self._add(first_key, split, response_figures(numbers), _decode_keys(sessions))
            else:
                divided += _decode_keys(sessions)
        for key, split, sessions, *numbers in self._select_responses(divided) if divided else ():
            self._add(key, split, response_figures(numbers), _decode_keys(sessions))

    def _select_responses_of_sessions(self) -> list[Any]:
        is_by_model = self._split == "model"
        period = self._period.responses_condition()
        is_selected = self._sessions.embed_in("usage.session in (select key from sessions where {0})")
        # Almost all sessions are not in the trash, so selecting them first would only take time.
        inner, outer = (Condition(), self._sessions) if self._is_everything else (is_selected, Condition())
        sql = _SELECT_RESPONSES_OF_SESSIONS.format(
            period=period.sql,
            is_selected=inner.sql,
            inner_key="usage.session, usage.model" if is_by_model else "usage.session",
            first_key=self._response_key("first"),
            last_key=self._response_key("last"),
            split="usage_models.model" if is_by_model else _SESSION_KEYS[self._split],
            join=_JOIN_MODELS.format("summed") if is_by_model else "",
            condition=outer.sql,
        )
        values = (*period.values, *inner.values, *outer.values)
        return self._store.rows(sql, rates_parameter(self._models), *values)

    def _select_responses(self, sessions: Sequence[int]) -> list[Any]:
        """Return the sums of the responses of sessions that belong to several rows."""
        is_by_model = self._split == "model"
        period = self._period.responses_condition()
        sql = _SELECT_RESPONSES.format(
            key=self._response_key("usage.at"),
            split="usage_models.model" if is_by_model else _SESSION_KEYS[self._split],
            join=_JOIN_MODELS.format("usage") if is_by_model else "",
            period=period.sql,
            condition=IS_ONE_OF,
        )
        return self._store.rows(sql, rates_parameter(self._models), *period.values, _encode_keys(sessions))

    # ── turns and calls ───────────────────────────────────────────────────────────────────────────

    def _add_whole_sessions(self) -> list[int]:
        """Add the counts of sessions that belong to one row as a whole, and return the others with a turn in the
        period."""
        is_by_model = self._split == "model"
        sql = _SELECT_WHOLE_SESSIONS.format(
            is_of_one_split=_HAS_ONE_MODEL if is_by_model else "1",
            first_key=self._turn_key("spans.first"),
            last_key=self._turn_key("spans.last"),
            split=_MODEL_OF_SESSION if is_by_model else _SESSION_KEYS[self._split],
            seconds=_ACTIVE_SECONDS,
            condition=self._sessions.sql,
        )
        since = format_timestamp(self._period.since) if self._period.since else ""
        until = format_timestamp(self._period.until) if self._period.until else _END_OF_TIME
        others: list[int] = []
        for is_whole, key, split, keys, turns, calls, errors, seconds in self._store.rows(
            sql, since, until, *self._sessions.values
        ):
            if is_whole:
                figures = Figures(turns=turns, tool_calls=calls, errors=errors, active_seconds=seconds)
                self._add(key, split, figures, _decode_keys(keys))
            else:
                others = _decode_keys(keys)
        early = self._store.rows(_SELECT_EARLY_SESSIONS.format(condition=self._sessions.sql), *self._sessions.values)
        return others + [session for (session,) in early]

    def _add_turns(self, sessions: Condition) -> None:
        period = self._period.turns_condition()
        sql = _SELECT_TURNS.format(
            key=self._turn_key("turns.started_at"),
            split=_MODEL_OF_TURN if self._split == "model" else _SESSION_KEYS[self._split],
            seconds=_ACTIVE_SECONDS,
            period=period.sql,
            condition=sessions.sql,
        )
        for key, split, keys, turns, seconds in self._store.rows(sql, *period.values, *sessions.values):
            self._add(key, split, Figures(turns=turns, active_seconds=seconds), _decode_keys(keys))

    def _add_calls(self, sessions: Condition) -> None:
        """Add the calls. A call belongs to the time at which its turn began."""
        is_by_tool, is_by_model = self._by == "tool", self._split == "model"
        moment = "coalesce(turns.started_at, sessions.created_at)"  # a call before the first prompt has no turn
        period = self._period.turns_condition(moment)
        sql = _SELECT_CALLS.format(
            key="tool_calls.name" if is_by_tool else self._turn_key(moment),
            split=_MODEL_OF_CALL if is_by_model else _SESSION_KEYS[self._split],
            join=_JOIN_CALLING_ENTRY if is_by_model else "",
            period=period.sql,
            condition=sessions.sql,
        )
        for key, split, keys, calls, errors in self._store.rows(sql, *period.values, *sessions.values):
            # A row that only has calls is about none of its sessions, unless it is about a tool.
            self._add(key, split, Figures(tool_calls=calls, errors=errors), _decode_keys(keys) if is_by_tool else ())

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    def _response_key(self, moment: str) -> str:
        return _SESSION_KEYS.get(self._by) or _time_key(self._by, f"{moment}, 'unixepoch'")

    def _turn_key(self, moment: str) -> str:
        """Return the SQL of the key of a turn that began at this moment."""
        return _SESSION_KEYS.get(self._by) or _time_key(self._by, moment)


def _encode_keys(keys: Iterable[int]) -> str:
    return encode(list(keys)).decode()


def _decode_keys(text: str) -> list[int]:
    """Decode what `json_group_array` made of keys. This is faster than a parser of JSON."""
    return [int(key) for key in text[1:-1].split(",")]


def _time_key(by: str, moment: str) -> str:
    if by == "week":
        return _WEEK.format(moment)
    return f"strftime('{_TIME_FORMATS[by]}', {moment}, 'localtime')"


def _label(by: str, key: str) -> str:
    """Return the key as it is shown: weeks by their number, and weekdays from Monday on."""
    if by == "week" and key:
        year, week, _ = date.fromisoformat(key).isocalendar()
        return f"{year:04}-W{week:02}"
    if by == "weekday_hour" and key:
        return f"{int(key[0]) or 7}{key[1:]}"
    return key
