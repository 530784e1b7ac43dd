"""Tool calls across all sessions as a thing to search: the newest, the slowest, and how each tool fares."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from store.model.entry import PairedCall, ToolCall, readable
from store.model.tool_stats import CallOrder, Tally, ToolOrder
from store.search.index import call_text
from store.search.query import Query
from store.search.sql import Condition, all_of, on_calls
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

NEWEST_SESSIONS = 200
"""Where the newest calls are looked for first; nearly always they are there."""

_AT = "coalesce(asked.created_at, answered.created_at)"
_FROM = """
    from tool_calls join sessions on sessions.key = tool_calls.session
    left join entries as asked on asked.key = tool_calls.entry
    left join entries as answered on answered.key = tool_calls.result_entry
    where tool_calls.inherited = 0 and sessions.deleted = 0 and {condition}
"""
_KEYS = f"select tool_calls.key, {_AT} as at {_FROM} order by {{order}} limit ? offset ?"
_ORDERS: dict[CallOrder, str] = {
    "newest": "at desc, tool_calls.key desc",
    "slowest": "tool_calls.duration_ms desc nulls last, at desc, tool_calls.key desc",
}
_COUNT = f"select count(*) {_FROM}"
_NEWEST_SESSIONS = """
    select json_group_array(key), min(updated_at), min(first), max(last) from (
        select key, updated_at, (select min(key) from entries where session = sessions.key) as first,
            (select max(key) from entries where session = sessions.key) as last
        from sessions where deleted = 0 order by updated_at desc, key desc limit ?)
"""
_AMONG = "sessions.key in (select value from json_each(?))"
_THESE = "tool_calls.key in (select value from json_each(?))"
_NOT_THESE = f"not {_THESE}"
# SQLite has no median; of the calls that are timed, the one or the two in the middle.
_TALLIES = f"""
    select name, count(*), sum(status = 'error'),
        avg(case when nth in ((timed + 1) / 2, (timed + 2) / 2) then duration_ms end), max(duration_ms), max(at)
    from (select tool_calls.name, tool_calls.status, tool_calls.duration_ms, {_AT} as at,
        row_number() over (partition by tool_calls.name order by tool_calls.duration_ms nulls last) as nth,
        count(tool_calls.duration_ms) over (partition by tool_calls.name) as timed {_FROM})
    group by name
"""
_SHARING = """exists (select 1 from tool_calls as others where others.session = tool_calls.session
    and others.turn = tool_calls.turn and others.key != tool_calls.key
    and (others.entry = tool_calls.entry or others.result_entry = tool_calls.result_entry))"""


def matching(
    store: Store, query: Query, *, by: CallOrder = "newest", limit: int = 50, now: datetime | None = None
) -> list[PairedCall]:
    """Each once, however often it was inherited."""
    now = now or datetime.now(UTC)
    condition, found = on_calls(query, now), list[PairedCall]()
    with store.snapshot():
        # Of several calls in one message only some may hold the words; then, further down are others.
        for offset in range(0, _MOST, limit):
            keys = _newest(store, query, limit, now) if by == "newest" and not offset else []
            keys = keys or [key for key, _ in store.rows(_keys(condition, by), *condition.values, limit, offset)]
            found += _with_words_of_their_own(_read(store, keys), query)
            if len(keys) < limit or len(found) >= limit:
                break
        return found[:limit]


_MOST = 1_000_000


def count(store: Store, query: Query, now: datetime | None = None) -> int:
    condition = _exactly(store, query, now or datetime.now(UTC))
    (found,) = store.row(_COUNT.format(condition=condition.sql), *condition.values)
    return int(found)


def tallies(store: Store, query: Query, *, by: ToolOrder = "used", now: datetime | None = None) -> list[Tally]:
    """Of the calls that match. Failing: those first that failed most often."""
    condition = _exactly(store, query, now or datetime.now(UTC))
    rows = store.rows(_TALLIES.format(condition=condition.sql), *condition.values)
    return sorted((Tally(*row) for row in rows), key=lambda one: (*_rank(one, by), one.name))


def _rank(one: Tally, by: ToolOrder) -> tuple[float, ...]:
    match by:
        case "used":
            return (-one.calls,)
        case "failing":
            return -one.failed, -one.share
        case "slowest":
            return -(one.slowest_ms or 0), -(one.median_ms or 0)


def _keys(condition: Condition, by: CallOrder) -> str:
    return _KEYS.format(condition=condition.sql, order=_ORDERS[by])


def _newest(store: Store, query: Query, limit: int, now: datetime) -> list[int]:
    """Of the sessions that changed last; none unless these have so many that no other can have a newer one."""
    sessions, oldest, first, last = store.row(_NEWEST_SESSIONS, NEWEST_SESSIONS)
    if first is None:
        return []
    condition = all_of([Condition(_AMONG, (sessions,)), on_calls(query, now, within=(first, last))])
    rows = store.rows(_keys(condition, "newest"), *condition.values, limit, 0)
    return [key for key, _ in rows] if len(rows) == limit and rows[-1][1] >= oldest else []


def _read(store: Store, keys: Sequence[int]) -> list[PairedCall]:
    """In this order."""
    found = store.chains.all_tool_calls(_THESE, [encode(list(keys)).decode()], len(keys))
    return sorted(found, key=lambda call: keys.index(call.key))


# ── words ─────────────────────────────────────────────────────────────────────────────────────────


def _with_words_of_their_own(calls: list[PairedCall], query: Query) -> list[PairedCall]:
    """The index knows messages, not calls: of several in one message, those that hold the words themselves."""
    if not calls or not query.fts():
        return calls
    groups = [Query((group,)) for group in query.words]
    holding = {call.key: call.entry for call in calls if all(_holds(_words_of(call), group) for group in groups)}
    told_apart = set(holding.values())
    return [call for call in calls if call.key in holding or call.entry not in told_apart]


def _holds(text: str, group: Query) -> bool:
    pattern = group.pattern()
    if pattern is None or pattern.search(text):
        return True
    accented = None if text.isascii() and pattern.pattern.isascii() else group.pattern(accents=True)
    return accented is not None and bool(accented.search(text))


def _words_of(call: PairedCall) -> str:
    return f"{call_text(ToolCall(call.call_id, call.name, call.arguments))}\n{readable(call.result)}"


def _exactly(store: Store, query: Query, now: datetime) -> Condition:
    """Without the calls that only share a message with one that holds the words."""
    condition = on_calls(query, now)
    if not query.fts():
        return condition
    sharing = all_of([condition, Condition(_SHARING)])
    together = store.chains.all_tool_calls(sharing.sql, sharing.values, _MOST)
    apart = {call.key for call in _with_words_of_their_own(together, query)}
    strangers = encode([call.key for call in together if call.key not in apart]).decode()
    return all_of([condition, Condition(_NOT_THESE, (strangers,))])
