"""Tool calls across all sessions as a thing to search: the newest, the slowest, and how each tool fares."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from store.model.entry import PairedCall, ToolCall, readable_text
from store.model.tool_stats import CallOrder, ToolOrder, ToolStats
from store.search.index import call_text
from store.search.query import Query
from store.search.sql import Condition, all_of, build_tool_call_condition
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

NEWEST_SESSIONS_LIMIT = 200
"""Where the newest calls are looked for first; nearly always they are there."""

_CALLED_AT = "coalesce(asked.created_at, answered.created_at)"
_FROM_MATCHING_CALLS = """
    from tool_calls join sessions on sessions.key = tool_calls.session
    left join entries as asked on asked.key = tool_calls.entry
    left join entries as answered on answered.key = tool_calls.result_entry
    where tool_calls.inherited = 0 and sessions.deleted = 0 and {condition}
"""
_SELECT_KEYS = f"select tool_calls.key, {_CALLED_AT} as at {_FROM_MATCHING_CALLS} order by {{order}} limit ? offset ?"
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
# SQLite has no median; of the calls that are timed, the one or the two in the middle.
_SELECT_TOOL_STATS = f"""
    select name, count(*), sum(status = 'error'),
        avg(case when nth in ((timed + 1) / 2, (timed + 2) / 2) then duration_ms end), max(duration_ms), max(at)
    from (select tool_calls.name, tool_calls.status, tool_calls.duration_ms, {_CALLED_AT} as at,
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
    """Each once, however often it was inherited."""
    now = now or datetime.now(UTC)
    condition, found = build_tool_call_condition(query, now), list[PairedCall]()
    with store.snapshot():
        # Of several calls in one message only some may hold the words; then, further down are others.
        for offset in range(0, _MAX_CALLS, limit):
            keys = _find_newest_keys(store, query, limit, now) if order == "newest" and not offset else []
            keys = keys or [key for key, _ in store.rows(_keys_sql(condition, order), *condition.values, limit, offset)]
            found += _filter_by_own_text(_load_calls(store, keys), query)
            if len(keys) < limit or len(found) >= limit:
                break
        return found[:limit]


_MAX_CALLS = 1_000_000


def count_calls(store: Store, query: Query, now: datetime | None = None) -> int:
    condition = _exact_condition(store, query, now or datetime.now(UTC))
    (found,) = store.row(_COUNT_CALLS.format(condition=condition.sql), *condition.values)
    return int(found)


def compute_tool_stats(
    store: Store, query: Query, *, order: ToolOrder = "used", now: datetime | None = None
) -> list[ToolStats]:
    """Of the calls that match. Failing: those first that failed most often."""
    condition = _exact_condition(store, query, now or datetime.now(UTC))
    rows = store.rows(_SELECT_TOOL_STATS.format(condition=condition.sql), *condition.values)
    return sorted((ToolStats(*row) for row in rows), key=lambda one: (*_stats_sort_key(one, order), one.name))


def _stats_sort_key(one: ToolStats, by: ToolOrder) -> tuple[float, ...]:
    match by:
        case "used":
            return (-one.calls,)
        case "failing":
            return -one.failed, -one.failure_rate
        case "slowest":
            return -(one.slowest_ms or 0), -(one.median_ms or 0)


def _keys_sql(condition: Condition, by: CallOrder) -> str:
    return _SELECT_KEYS.format(condition=condition.sql, order=_ORDER_SQL[by])


def _find_newest_keys(store: Store, query: Query, limit: int, now: datetime) -> list[int]:
    """Of the sessions that changed last; none unless these have so many that no other can have a newer one."""
    sessions, oldest, first, last = store.row(_SELECT_NEWEST_SESSIONS, NEWEST_SESSIONS_LIMIT)
    if first is None:
        return []
    condition = all_of(
        [Condition(_IN_SESSIONS, (sessions,)), build_tool_call_condition(query, now, entry_range=(first, last))]
    )
    rows = store.rows(_keys_sql(condition, "newest"), *condition.values, limit, 0)
    return [key for key, _ in rows] if len(rows) == limit and rows[-1][1] >= oldest else []


def _load_calls(store: Store, keys: Sequence[int]) -> list[PairedCall]:
    """In this order."""
    found = store.chains.all_tool_calls(_IN_KEYS, [encode(list(keys)).decode()], len(keys))
    return sorted(found, key=lambda call: keys.index(call.key))


# ── words ─────────────────────────────────────────────────────────────────────────────────────────


def _filter_by_own_text(calls: list[PairedCall], query: Query) -> list[PairedCall]:
    """The index knows messages, not calls: of several in one message, those that hold the words themselves."""
    if not calls or not query.fts():
        return calls
    groups = [Query((group,)) for group in query.word_groups]
    holding = {
        call.key: call.entry for call in calls if all(_matches_text(_searchable_text(call), group) for group in groups)
    }
    told_apart = set(holding.values())
    return [call for call in calls if call.key in holding or call.entry not in told_apart]


def _matches_text(text: str, group: Query) -> bool:
    pattern = group.pattern()
    if pattern is None or pattern.search(text):
        return True
    accented = None if text.isascii() and pattern.pattern.isascii() else group.pattern(ignore_accents=True)
    return accented is not None and bool(accented.search(text))


def _searchable_text(call: PairedCall) -> str:
    return f"{call_text(ToolCall(call.call_id, call.name, call.arguments))}\n{readable_text(call.result)}"


def _exact_condition(store: Store, query: Query, now: datetime) -> Condition:
    """Without the calls that only share a message with one that holds the words."""
    condition = build_tool_call_condition(query, now)
    if not query.fts():
        return condition
    sharing = all_of([condition, Condition(_SHARES_MESSAGE)])
    together = store.chains.all_tool_calls(sharing.sql, sharing.values, _MAX_CALLS)
    apart = {call.key for call in _filter_by_own_text(together, query)}
    strangers = encode([call.key for call in together if call.key not in apart]).decode()
    return all_of([condition, Condition(_NOT_IN_KEYS, (strangers,))])
