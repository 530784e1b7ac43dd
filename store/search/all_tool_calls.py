"""This module searches the tool calls of all sessions, and computes statistics for each tool."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from store.conversations.tool_calls import CALLED_AT, FROM_CALLS
from store.model.entry import PairedCall, ToolCall, readable_text
from store.model.tool_stats import CallOrder, ToolOrder, ToolStats
from store.search.index import call_text
from store.search.query import Query
from store.search.sql import Condition, all_of, build_tool_call_condition
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

NEWEST_SESSIONS_LIMIT = 200
"""The number of newest sessions that are searched first. They nearly always contain the newest calls."""

_FROM_MATCHING_CALLS = f"{FROM_CALLS} where tool_calls.inherited = 0 and sessions.deleted = 0 and {{condition}}"
_SELECT_KEYS = f"select tool_calls.key, {CALLED_AT} as at {_FROM_MATCHING_CALLS} order by {{order}} limit ? offset ?"
_ORDER_SQL: dict[CallOrder, str] = {
    "newest": "at desc, tool_calls.key desc",
    "slowest": "tool_calls.duration_ms desc nulls last, at desc, tool_calls.key desc",
}
_COUNT_CALLS = f"select count(*) {_FROM_MATCHING_CALLS}"
_SELECT_NEWEST_SESSIONS = """
    select json_group_array(key), min(updated_at), min(first), max(last) from (
        select key, updated_at, (select min(key) from entries where session = sessions.key) as first,
            (select max(key) from entries where session = sessions.key) as last
        from sessions where deleted = 0 order by updated_at desc, key desc limit ?)
"""
_IN_SESSIONS = "sessions.key in (select value from json_each(?))"
_IN_KEYS = "tool_calls.key in (select value from json_each(?))"
_NOT_IN_KEYS = f"not {_IN_KEYS}"
# SQLite has no median. This averages the one or two middle durations of the calls that have one.
_SELECT_TOOL_STATS = f"""
    select name, count(*), sum(status = 'error'),
        avg(case when nth in ((timed + 1) / 2, (timed + 2) / 2) then duration_ms end), max(duration_ms), max(at),
        max(case when nth = (timed * 95 + 99) / 100 then duration_ms end)
    from (select tool_calls.name, tool_calls.status, tool_calls.duration_ms, {CALLED_AT} as at,
        row_number() over (partition by tool_calls.name order by tool_calls.duration_ms nulls last) as nth,
        count(tool_calls.duration_ms) over (partition by tool_calls.name) as timed {_FROM_MATCHING_CALLS})
    group by name
"""
_SHARES_MESSAGE = """exists (select 1 from tool_calls as others where others.session = tool_calls.session
    and others.turn = tool_calls.turn and others.key != tool_calls.key
    and (others.entry = tool_calls.entry or others.result_entry = tool_calls.result_entry))"""


def find_calls(
    store: Store, query: Query, *, order: CallOrder = "newest", limit: int = 50, now: datetime | None = None
) -> list[PairedCall]:
    """Return the calls that match. A call that forks inherited is returned only once."""
    now = now or datetime.now(UTC)
    condition, calls = build_tool_call_condition(query, now), list[PairedCall]()
    with store.snapshot():
        # The index matches messages. A message can have other calls that do not match, so one page may not be enough.
        for offset in range(0, _MAX_CALLS, limit):
            keys = _find_newest_keys(store, query, limit, now) if order == "newest" and not offset else []
            keys = keys or [key for key, _ in store.rows(_keys_sql(condition, order), *condition.values, limit, offset)]
            calls += _filter_by_own_text(_load_calls(store, keys), query)
            if len(keys) < limit or len(calls) >= limit:
                break
        return calls[:limit]


_MAX_CALLS = 1_000_000


def count_calls(store: Store, query: Query, now: datetime | None = None) -> int:
    condition = _exact_condition(store, query, now or datetime.now(UTC))
    (count,) = store.row(_COUNT_CALLS.format(condition=condition.sql), *condition.values)
    return int(count)


def compute_tool_stats(
    store: Store, query: Query, *, order: ToolOrder = "used", now: datetime | None = None
) -> list[ToolStats]:
    """Return the statistics of each tool over the calls that match. "failing" sorts by the number of failures."""
    condition = _exact_condition(store, query, now or datetime.now(UTC))
    rows = store.rows(_SELECT_TOOL_STATS.format(condition=condition.sql), *condition.values)
    return sorted((ToolStats(*row) for row in rows), key=lambda tool: (*_stats_sort_key(tool, order), tool.name))


def _stats_sort_key(tool: ToolStats, order: ToolOrder) -> tuple[float, ...]:
    match order:
        case "used":
            return (-tool.calls,)
        case "failing":
            return -tool.failed, -tool.failure_rate
        case "slowest":
            return -(tool.slowest_ms or 0), -(tool.median_ms or 0)


def _keys_sql(condition: Condition, order: CallOrder) -> str:
    return _SELECT_KEYS.format(condition=condition.sql, order=_ORDER_SQL[order])


def _find_newest_keys(store: Store, query: Query, limit: int, now: datetime) -> list[int]:
    """Return the keys of the newest calls, from the newest sessions only.

    Returns nothing if those sessions have too few calls to be sure that no other session has a newer one.
    """
    sessions, oldest, first, last = store.row(_SELECT_NEWEST_SESSIONS, NEWEST_SESSIONS_LIMIT)
    if first is None:
        return []
    condition = all_of(
        [Condition(_IN_SESSIONS, (sessions,)), build_tool_call_condition(query, now, entry_range=(first, last))]
    )
    rows = store.rows(_keys_sql(condition, "newest"), *condition.values, limit, 0)
    return [key for key, _ in rows] if len(rows) == limit and rows[-1][1] >= oldest else []


def _load_calls(store: Store, keys: Sequence[int]) -> list[PairedCall]:
    """Return the calls in the order of the keys."""
    calls = store.chains.all_tool_calls(_IN_KEYS, [encode(list(keys)).decode()], len(keys))
    return sorted(calls, key=lambda call: keys.index(call.key))


# ── matching the text of one call ─────────────────────────────────────────────────────────────────


def _filter_by_own_text(calls: list[PairedCall], query: Query) -> list[PairedCall]:
    """Remove the calls that were found only because another call of the same message matches.

    The index knows messages, not calls. If no call of a message matches by its own text, all of them stay.
    """
    if not calls or not query.fts():
        return calls
    groups = [Query((group,)) for group in query.word_groups]
    matching = {
        call.key: call.entry for call in calls if all(_matches_text(_searchable_text(call), group) for group in groups)
    }
    matching_entries = set(matching.values())
    return [call for call in calls if call.key in matching or call.entry not in matching_entries]


def _matches_text(text: str, group: Query) -> bool:
    pattern = group.pattern()
    if pattern is None or pattern.search(text):
        return True
    accented = None if text.isascii() and pattern.pattern.isascii() else group.pattern(ignore_accents=True)
    return accented is not None and bool(accented.search(text))


def _searchable_text(call: PairedCall) -> str:
    return f"{call_text(ToolCall(call.call_id, call.name, call.arguments))}\n{readable_text(call.result)}"


def _exact_condition(store: Store, query: Query, now: datetime) -> Condition:
    """Return a condition that excludes the calls that only share a message with a call that matches."""
    condition = build_tool_call_condition(query, now)
    if not query.fts():
        return condition
    shares_message = all_of([condition, Condition(_SHARES_MESSAGE)])
    calls = store.chains.all_tool_calls(shares_message.sql, shares_message.values, _MAX_CALLS)
    matching = {call.key for call in _filter_by_own_text(calls, query)}
    excluded = encode([call.key for call in calls if call.key not in matching]).decode()
    return all_of([condition, Condition(_NOT_IN_KEYS, (excluded,))])
