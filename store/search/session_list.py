"""This module builds the list of sessions: its rows, their order, their headings and their nesting.

All keys are read together, into arrays. The contents of the rows are read one page at a time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import orjson

from store.model.session import UNKNOWN_USER
from store.search.list_rows import (
    BEST_MATCHES,
    EMPTY_GROUP,
    EMPTY_SESSIONS,
    MAX_NESTING,
    OTHER_SESSIONS,
    PINNED_SESSIONS,
    Heading,
    Order,
    SessionListLayout,
    SessionListOptions,
    SessionRow,
)
from store.search.query import Query
from store.search.sql import (
    NOT_ARCHIVED,
    NOT_DELETED,
    SESSIONS_HAVING,
    Condition,
    all_of,
    build_folder_condition,
    build_listed_condition,
    build_session_condition,
    build_session_filter_condition,
    build_title_condition,
    format_timestamp,
)
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

# The result is one row of JSON arrays. A hundred thousand rows would be as many tuples, and the screen waits for them.
_SELECT_KEYS = """
    select json_group_array(key), json_group_array(value), {parents}, {folded} from (
        select sessions.key, {value} as value, {parent} as parent from sessions
        where {condition} order by {order} limit ?)
"""
_NEWEST_FIRST = "sessions.updated_at desc, sessions.key desc"
_SELECT_CANDIDATES = (
    "select sessions.key, {matches_title}, head, tail from sessions where {condition} order by {order} limit ? offset ?"
)
_KEY_IN_LIST = "sessions.key in (select value from json_each(?))"
SESSION_ORDERS: dict[Order, str] = {
    "best": _NEWEST_FIRST,
    "newest": _NEWEST_FIRST,
    "oldest": "sessions.updated_at, sessions.key",
    "turns": "sessions.turns desc, sessions.updated_at desc, sessions.key desc",
    "errors": "sessions.errors desc, sessions.updated_at desc, sessions.key desc",
    "tokens": "sessions.tokens_total desc, sessions.updated_at desc, sessions.key desc",
    # The function exists after `UsageStatistics.define_session_cost`.
    "cost": "session_cost(sessions.key) desc, sessions.updated_at desc, sessions.key desc",
    "title": """coalesce(nullif(sessions.own_title, ''), nullif(sessions.agent_title, ''),
        nullif(sessions.first_prompt, ''), sessions.id) collate nocase, sessions.key""",
}
_GROUP_VALUES = {
    "day": "substr(sessions.updated_at, 1, 16)",
    "folder": "sessions.cwd",
    "agent": "sessions.source",
    "user": f"""coalesce(nullif(sessions.user, ''), (
        select author from turns join entries on entries.key = turns.entry
        where turns.session = sessions.key and sessions.relation is null and author not in ('', '{UNKNOWN_USER}')
    ), '')""",
    "none": "0",
}
_PARENT_KEY = """(select parents.key from sessions as parents where parents.id = sessions.parent_id
    and parents.key != sessions.key)"""
_NOT_SUPERSEDED = Condition("sessions.relation is not 'superseded'")
_SHOWN_PARENT = """parents.id = {child}.parent_id and parents.deleted = 0 and parents.relation is not 'superseded'
    and parents.key != {child}.key and parents.parent_id is not {child}.id"""
_HAS_NO_PARENT = "(sessions.pinned = 1 or not exists (select 1 from sessions as parents where {0}))"
_HAS_PINNED = "select exists (select 1 from sessions where pinned = 1)"
_PINNED = Condition("sessions.key in (select key from sessions where pinned = 1)")
_NOT_PINNED = Condition("sessions.key not in (select key from sessions where pinned = 1)")
# Finds the hidden sessions of the whole archive. Sessions without a parent are skipped with an index, without reading
# their rows. A pinned child is not hidden, because it stands with the other pinned sessions. The children of an
# archived session leave the list with it.
_HIDDEN_SESSIONS = """
    with hidden as materialized (
        select children.key,
            children.relation is not 'superseded' and children.archived = 0 and parents.archived = 0 as folded
        from sessions as children left join sessions as parents on {0}
        where children.parent_id is not null
        and (children.relation is 'superseded' or (parents.key is not null and children.pinned = 0)))
"""
_IS_NESTED_CHILD = """children.deleted = 0 and children.relation is not 'superseded' and children.key != parents.key
    and children.pinned = 0 and (children.archived = 0 or parents.archived = 1)"""
_EMPTY_CONDITION = Condition("")
_NOT_HIDDEN = Condition("sessions.key not in (select key from hidden)")
_SELECT_CHILDREN = f"""
    select parents.key, children.key from sessions as parents
    join sessions as children on children.parent_id = parents.id
    where parents.key in (select value from json_each(?)) and {_IS_NESTED_CHILD}
    order by children.created_at, children.key
"""

# Is true for a session without turns. One that a person has named or pinned, or that has children, counts as any other.
_IS_EMPTY = Condition("""sessions.turns = 0 and sessions.depth = 'full'
    and sessions.own_title = '' and sessions.pinned = 0
    and not exists (select 1 from sessions as offspring where offspring.parent_id = sessions.id
        and offspring.deleted = 0 and offspring.key != sessions.key)""")
# The cross join makes SQLite begin with the index of the sessions without turns.
_SELECT_EMPTY = """
    select sessions.key from (select key from sessions where turns = 0) as without_turns
    cross join sessions on sessions.key = without_turns.key where {condition} order by {order}
"""
_NOT_IN_LIST = "sessions.key not in (select value from json_each(?))"

MAX_BEST_FIRST = 20
"""The best matches that are put before the other sessions."""

CANDIDATES_PER_ROW = 4
"""The sessions that are searched for each row that is needed. A word in every fourth session is found this way."""

MAX_CANDIDATES = 1_000
"""The most sessions that are searched one by one. A word that needs more is so rare that a full search is faster."""


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────


def build_session_list(
    store: Store, options: SessionListOptions, limit: int = -1, now: datetime | None = None
) -> SessionListLayout:
    """Return the rows of the list.

    With a limit, only the first rows are built, which is fast. Without one, typos are corrected if nothing matches,
    and the best matches are put first. Pinned sessions stand on top, unless words are searched.
    """
    query = Query.parse(options.query, is_typing=True)
    now = now or datetime.now(UTC)
    ranked: Sequence[int] = ()
    empty: list[int] = []
    if options.order == "cost":
        store.usage.define_session_cost()
    with store.snapshot():
        if query and limit < 0:
            query, sessions, ranked = _find_and_rank(store, options, query, now)
        elif query:
            sessions = _find_sessions(store, options, query, limit, now)
        elif limit < 0:
            sessions, empty = _read_all_roots(store, options)
        else:
            sessions = _read_first_roots(store, options, limit)
        keys, values, parents, folded_count, last_hit_entries, pinned_count = sessions
        children = _find_shown_children(store, keys, parents, options)
        archived, trashed = _count_hidden(store, query.limit_to_folder(options.folder), now) if limit < 0 else (0, 0)
    total = len(keys) + folded_count + len(empty)
    parent_of = {child: parent for parent, siblings in children.items() for child in siblings}
    if children:
        values = [value for key, value in zip(keys, values, strict=True) if key not in parent_of]
        keys = array("q", [key for key in keys if key not in parent_of])
    if pinned_count:
        keys, headings = _put_pinned_first(pinned_count, keys, values, options)
    else:
        keys, headings = _put_best_first(_replace_by_roots(ranked, parent_of), keys, values, options)
    if empty:
        headings = (*headings, Heading(len(keys), EMPTY_SESSIONS, len(empty)))
        keys = keys + array("q", [EMPTY_GROUP])
        children |= {EMPTY_GROUP: empty} if EMPTY_GROUP in options.unfolded else {}
    layout = SessionListLayout(
        options, query, keys, total, archived, trashed, headings, last_hit_entries=last_hit_entries
    )
    return _insert_children(layout, children) if children else layout


def _count_hidden(store: Store, query: Query, now: datetime) -> tuple[int, int]:
    """Return how many archived sessions, and how many in the trash, match but are left out."""
    return store.sessions.count_archived(query, now=now), store.sessions.count_trashed(query, now=now)


class _SessionKeys(NamedTuple):
    """Holds the keys of the sessions that match, in their order."""

    keys: array[int]
    group_values: list[str]
    "Holds, for each key, the value that it is grouped by."
    parents: list[int | None]
    "Holds the parent of each key. Is empty if only sessions without a parent were read."
    folded_count: int
    "Counts the children that match but are not among the keys."
    last_hit_entries: Mapping[int, int] = {}
    pinned_count: int = 0
    "Counts the pinned sessions, which come first. Is 0 if they are not put first."


# The functions below import what only a search needs, so that the list appears sooner at the start.


def _find_and_rank(
    store: Store, options: SessionListOptions, query: Query, now: datetime
) -> tuple[Query, _SessionKeys, Sequence[int]]:
    """Return the query, with typos corrected if necessary, the sessions, and the best of them in their order."""
    from store.search.recent import find_title_matches, rank_sessions
    from store.search.typos import find_or_correct

    title_keys: list[int] | None = None

    def find(corrected: Query) -> _SessionKeys:
        nonlocal title_keys
        # The titles do not tell which sessions in the trash match.
        title_keys = None if query.shows_trash or not query.fts() else find_title_matches(store, corrected)
        return _find_sessions(store, options, corrected, -1, now, title_keys)

    query, sessions = find_or_correct(
        store, query, ["conversation_fts", "skims_fts"], find, lambda found: not found.keys
    )
    is_ranked = options.order == "best" and len(sessions.keys) > 1 and query.fts()
    if not is_ranked:
        return query, sessions, ()
    return query, sessions, rank_sessions(store, query, now, set(sessions.keys), MAX_BEST_FIRST, title_keys)


def _find_sessions(
    store: Store,
    options: SessionListOptions,
    query: Query,
    limit: int,
    now: datetime,
    title_keys: Sequence[int] | None = None,
) -> _SessionKeys:
    last_hit_entries: Mapping[int, int] = {}
    newest: list[int] = []
    if limit > 0 and query.fts():
        newest, last_hit_entries = _find_among_newest(store, options, query, limit, now)
    matching = (
        Condition(_KEY_IN_LIST, (encode(newest).decode(),))
        if newest
        else build_session_condition(query, now, title_keys)
    )
    listed = build_listed_condition(query)
    condition = all_of([listed, _NOT_SUPERSEDED, build_folder_condition("sessions", options.folder), matching])

    def read(part: Condition) -> _SessionKeys:
        return _read_keys(store, options, all_of([condition, part]), limit, parent=_PARENT_KEY)

    if query.terms or query.shows_trash:
        return read(Condition())._replace(last_hit_entries=last_hit_entries)
    return _read_pinned_first(store, read)


def _read_pinned_first(store: Store, read: Callable[[Condition], _SessionKeys]) -> _SessionKeys:
    """Read the pinned sessions, and after them the others. A pinned session is not nested."""
    (has_pinned,) = store.row(_HAS_PINNED)
    if not has_pinned:
        return read(Condition())
    pinned, others = read(_PINNED), read(_NOT_PINNED)
    no_parents: list[int | None] = [None] * len(pinned.parents)
    return others._replace(
        keys=pinned.keys + others.keys,
        group_values=pinned.group_values + others.group_values,
        parents=no_parents + others.parents,
        pinned_count=len(pinned.keys),
    )


def _find_among_newest(
    store: Store, options: SessionListOptions, query: Query, limit: int, now: datetime
) -> tuple[list[int], Mapping[int, int]]:
    """Search only the newest sessions. Return the keys of those that match, and their last matching entries.

    Returns nothing if fewer than `limit` of them match. Then all sessions must be searched. Sessions that are not read
    yet may be missing if enough others match.
    """
    from store.search.recent import (
        estimate_sessions_to_check,
        find_last_hit_entries,
        find_last_hit_entries_by_index,
        find_quick_index_sessions,
        find_sessions_by_note,
    )

    if SESSION_ORDERS[options.order] != _NEWEST_FIRST:
        return [], {}
    title = build_title_condition(query) or Condition("0")
    condition = all_of(
        [
            build_listed_condition(query),
            _NOT_SUPERSEDED,
            build_folder_condition("sessions", options.folder),
            build_session_filter_condition(query, now),
        ]
    )
    sql = _SELECT_CANDIDATES.format(matches_title=title.sql, condition=condition.sql, order=_NEWEST_FIRST)

    def read_candidates(count: int, offset: int = 0) -> list[_Candidate]:
        return store.rows(sql, *title.values, *condition.values, count, offset)

    newest = read_candidates(CANDIDATES_PER_ROW * limit)
    last_hit_entries = find_last_hit_entries(store, query, [key for key, *_ in newest], now, limit=limit)
    with_note = set(find_sessions_by_note(store, query))
    matching = _keep_matching(newest, last_hit_entries.keys() | with_note)
    if len(matching) >= limit:
        return matching[:limit], last_hit_entries
    # Sessions that are not read yet are usually older, and their index takes long for a short prefix.
    without_entry = find_quick_index_sessions(store, query) | with_note
    matching = _keep_matching(newest, last_hit_entries.keys() | without_entry)
    missing = limit - len(matching)
    if missing > 0 and (more := estimate_sessions_to_check(store, query, missing)) < MAX_CANDIDATES:
        older = read_candidates(more, offset=len(newest))
        last_hit_entries |= find_last_hit_entries_by_index(
            store, query, {key: (head, tail) for key, _, head, tail in older if head}, now
        )
        matching += _keep_matching(older, last_hit_entries.keys() | without_entry)
    return (matching[:limit], last_hit_entries) if len(matching) >= limit else ([], {})


_Candidate = tuple[int, bool, int, int]
"""Holds the key of a session, whether its title matches, and its first and last entries."""


def _keep_matching(candidates: Iterable[_Candidate], with_hits: Set[int]) -> list[int]:
    return [key for key, matches_title, _, _ in candidates if matches_title or key in with_hits]


def _read_first_roots(store: Store, options: SessionListOptions, limit: int) -> _SessionKeys:
    """Read the first sessions that are not nested. It checks each session for a parent, one by one."""
    condition = _build_root_condition(options)
    without_empty = all_of([condition, _IS_EMPTY.embed_in("not ({0})")])
    sessions = _read_pinned_first(store, lambda part: _read_keys(store, options, all_of([without_empty, part]), limit))
    return sessions if sessions.keys else _read_keys(store, options, condition, limit)


def _read_all_roots(store: Store, options: SessionListOptions) -> tuple[_SessionKeys, list[int]]:
    """Return the sessions that are not nested, and apart from them the empty ones, unless there are no others."""
    empty = _find_empty_roots(store, options)
    sessions = _read_roots_except(store, options, empty)
    return (sessions, empty) if sessions.keys else (_read_roots_except(store, options, []), [])


def _read_roots_except(store: Store, options: SessionListOptions, keys: list[int]) -> _SessionKeys:
    hidden = _build_shown_parent_condition("children", options).embed_in(_HIDDEN_SESSIONS)
    others = Condition(_NOT_IN_LIST, (encode(keys).decode(),)) if keys else Condition()
    folder = build_folder_condition("sessions", options.folder)
    condition = all_of([NOT_DELETED, NOT_ARCHIVED, _NOT_HIDDEN, folder, others])
    folded_sql = "(select count(*) from hidden where folded)"

    pinned = all_of([NOT_DELETED, NOT_ARCHIVED, _NOT_SUPERSEDED, folder])

    def read(part: Condition) -> _SessionKeys:
        if part is _PINNED:  # they are never nested, so the hidden sessions need not be found
            return _read_keys(store, options, all_of([part, pinned]), -1)
        return _read_keys(store, options, all_of([condition, part]), -1, hidden=hidden, folded_sql=folded_sql)

    return _read_pinned_first(store, read)


def _find_empty_roots(store: Store, options: SessionListOptions) -> list[int]:
    condition = all_of([_IS_EMPTY, _build_root_condition(options)])
    sql = _SELECT_EMPTY.format(condition=condition.sql, order=SESSION_ORDERS[options.order])
    return [key for (key,) in store.rows(sql, *condition.values)]


def _build_root_condition(options: SessionListOptions) -> Condition:
    is_root = _build_shown_parent_condition("sessions", options).embed_in(_HAS_NO_PARENT)
    folder = build_folder_condition("sessions", options.folder)
    return all_of([NOT_DELETED, NOT_ARCHIVED, _NOT_SUPERSEDED, folder, is_root])


def _read_keys(
    store: Store,
    options: SessionListOptions,
    condition: Condition,
    limit: int,
    *,
    parent: str = "",
    hidden: Condition = _EMPTY_CONDITION,
    folded_sql: str = "0",
) -> _SessionKeys:
    sql = hidden.sql + _SELECT_KEYS.format(
        folded=folded_sql,
        value=_GROUP_VALUES[options.group],
        parent=parent or "0",
        parents="json_group_array(parent)" if parent else "'[]'",
        condition=condition.sql,
        order=SESSION_ORDERS[options.order],
    )
    keys, values, parents, count = store.row(sql, *hidden.values, *condition.values, limit)
    return _SessionKeys(array("q", orjson.loads(keys)), orjson.loads(values), orjson.loads(parents), count)


def _build_shown_parent_condition(child: str, options: SessionListOptions) -> Condition:
    shown = Condition(_SHOWN_PARENT.format(child=child))
    return all_of(
        [shown, build_folder_condition(child, options.folder), build_folder_condition("parents", options.folder)]
    )


# ── nesting ───────────────────────────────────────────────────────────────────────────────────────

ChildrenByParent = dict[int, list[int]]


def _find_shown_children(
    store: Store, keys: array[int], parents: Sequence[int | None], options: SessionListOptions
) -> ChildrenByParent:
    """Return the children to show, by parent: those that match, and all children of an unfolded parent."""
    matching: ChildrenByParent = {}
    if any(parents):
        found = set(keys)
        for key, parent in zip(keys, parents, strict=True):
            if parent in found and parent is not None:
                matching.setdefault(parent, []).append(key)
    unfolded: ChildrenByParent = {}
    if options.unfolded:
        for parent, child in store.rows(_SELECT_CHILDREN, encode(sorted(options.unfolded)).decode()):
            unfolded.setdefault(parent, []).append(child)
    return _keep_reachable(keys, matching | unfolded)


def _keep_reachable(keys: array[int], children: ChildrenByParent) -> ChildrenByParent:
    """Keep the children that can be reached from a row of the list, each once.

    Foreign stores may contain sessions that are each other's parents.
    """
    if not children:
        return children
    nested = {child for siblings in children.values() for child in siblings}
    reachable: ChildrenByParent = {}
    placed: set[int] = set()
    for root in [*(key for key in keys if key in children and key not in nested), *keys]:
        pending = [root] if root in children and root not in placed else []
        placed.update(pending)
        while pending:
            parent = pending.pop()
            if new := [child for child in children.get(parent, ()) if child not in placed]:
                reachable[parent] = new
                placed.update(new)
                pending += new
    return reachable


def _insert_children(layout: SessionListLayout, children: ChildrenByParent) -> SessionListLayout:
    """Return the layout with the children inserted below their parents."""
    keys, depths, guides = array("q"), bytearray(), bytearray()
    headings = []
    remaining = iter(layout.headings)
    heading = next(remaining, None)
    for row, root in enumerate(layout.keys):
        if heading and heading.row == row:
            headings.append(heading._replace(row=len(keys)))
            heading = next(remaining, None)
        for key, depth, bits in _walk_depth_first(root, children):
            keys.append(key)
            depths.append(depth)
            guides.append(bits)
    return replace(layout, keys=keys, headings=tuple(headings), depths=bytes(depths), guides=bytes(guides))


def _walk_depth_first(root: int, children: ChildrenByParent) -> Iterator[tuple[int, int, int]]:
    """Yield each key with its depth and the bits of the levels on which a guide line continues to a later sibling."""
    pending = [(root, 0, 0)]
    while pending:
        key, depth, bits = pending.pop()
        yield key, depth, bits
        level = min(depth + 1, MAX_NESTING)
        bits_above = bits & ((1 << level) - 1)
        for later_siblings, child in enumerate(reversed(children.get(key, ()))):
            pending.append((child, level, bits_above | (bool(later_siblings) << level)))


# ── headings ──────────────────────────────────────────────────────────────────────────────────────


def _replace_by_roots(keys: Sequence[int], parent_of: Mapping[int, int]) -> Iterator[int]:
    """Replace each nested session by the root above it, so that a matching child ranks its root."""
    for key in keys:
        while key in parent_of:
            key = parent_of[key]
        yield key


def _put_pinned_first(
    count: int, keys: array[int], values: list[str], options: SessionListOptions
) -> tuple[array[int], tuple[Heading, ...]]:
    """Give the pinned sessions, which are the first keys, a heading, and group the others below them."""
    others, headings = _group_keys(keys[count:], values[count:], options)
    if others and not headings:
        headings = (Heading(0, OTHER_SESSIONS, len(others)),)
    pinned = Heading(0, PINNED_SESSIONS, count)
    return keys[:count] + others, (pinned, *(heading._replace(row=heading.row + count) for heading in headings))


def _put_best_first(
    ranked: Iterable[int], keys: array[int], values: list[str], options: SessionListOptions
) -> tuple[array[int], tuple[Heading, ...]]:
    """Put the best matches before the others. In a list grouped by day they get a heading of their own."""
    others = dict(zip(keys, values, strict=True)) if ranked else {}
    best = array("q", islice(dict.fromkeys(key for key in ranked if key in others), MAX_BEST_FIRST))
    if not best:
        return _group_keys(keys, values, options)
    for key in best:
        del others[key]
    if options.group != "day":
        best_values = [values[keys.index(key)] for key in best]
        return _group_keys(best + array("q", others), [*best_values, *others.values()], options)
    rest, days = _group_keys(array("q", others), list(others.values()), options)
    shifted = (day._replace(row=day.row + len(best)) for day in days)
    return best + rest, (Heading(0, BEST_MATCHES, len(best)), *shifted)


def _group_keys(
    keys: array[int], values: list[str], options: SessionListOptions
) -> tuple[array[int], tuple[Heading, ...]]:
    """Group the keys and return them with their headings.

    Days are sorted by date. Other groups are in the order of their first sessions.
    """
    if options.group == "none" or not keys:
        return keys, ()
    if options.group == "day" and options.order in ("best", "newest", "oldest"):
        return keys, _build_day_headings(values)
    groups: dict[str, array[int]] = {}
    for key, value in zip(keys, _list_local_days(values) if options.group == "day" else values, strict=True):
        groups.setdefault(value, array("q")).append(key)
    ordered, headings = array("q"), []
    for name in sorted(groups, reverse=True) if options.group == "day" else groups:
        headings.append(Heading(len(ordered), name, len(groups[name])))
        ordered.extend(groups[name])
    return ordered, tuple(headings)


def _build_day_headings(minutes: list[str]) -> tuple[Heading, ...]:
    """Return the headings for sorted times."""
    oldest_first = minutes[0] <= minutes[-1]
    ends = list(_find_day_ends(minutes if oldest_first else minutes[::-1]))
    starts = [0, *(end for end, _ in ends[:-1])]
    days = [(start, day, end - start) for start, (end, day) in zip(starts, ends, strict=True)]
    if oldest_first:
        return tuple(Heading(*day) for day in days)
    count = len(minutes)
    return tuple(Heading(count - start - size, day, size) for start, day, size in reversed(days))


def _list_local_days(minutes: list[str]) -> Iterator[str]:
    """Return the local day of each time. The times may be in any order."""
    distinct = sorted(set(minutes))
    ends = list(_find_day_ends(distinct))
    bounds, days = [distinct[end] for end, _ in ends[:-1]], [day for _, day in ends]
    return (days[bisect_right(bounds, minute)] for minute in minutes)


def _find_day_ends(minutes: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the index after the last time of each local day, and the day. The times are sorted, the oldest first.

    It jumps from day to day by bisection, so that it parses only a few of the times.
    """
    index = 0
    while index < len(minutes):
        day = _parse_local_day(minutes[index])
        if day is None:
            later = range(index, len(minutes))
            index = next((valid for valid in later if _parse_local_day(minutes[valid])), len(minutes))
            yield index, ""
        else:
            index = max(bisect_left(minutes, _format_day_end(day), index), index + 1)
            yield index, day.isoformat()


def _parse_local_day(minute: str) -> date | None:
    """Return the local day of a time, or None if a foreign program wrote the time in another format."""
    try:
        return datetime.fromisoformat(f"{minute}+00:00").astimezone().date()
    except (ValueError, OverflowError):
        return None


def _format_day_end(day: date) -> str:
    try:
        return format_timestamp(datetime.combine(day + timedelta(days=1), time()))[:16]
    except OverflowError:
        return "9"  # sorts after every time; the day is the last one that Python can represent


# ── contents of rows ──────────────────────────────────────────────────────────────────────────────

_SELECT_SESSIONS_HAVING = "select session from ({}) where session in (select value from json_each(?))"
_SELECT_TAGS = "select session, name from tags where session in (select value from json_each(?)) order by name"
_COUNT_CHILDREN = f"""
    select parents.key, count(*) from sessions as parents
    join sessions as children on children.parent_id = parents.id
    where parents.key in (select value from json_each(?)) and {_IS_NESTED_CHILD} group by parents.key
"""

_SELECT_OWNERS = """
    select sessions.key, team_machines.machine = team.machine, team_machines.name,
        exists (select 1 from team_conflicts where share = team_shares.id)
    from sessions join team_shares on team_shares.session = sessions.id and ended_at is null
        join team_machines on team_machines.machine = substr(team_shares.id, 1, instr(team_shares.id, '/') - 1)
        join team on team.id = 1
    where sessions.key in (select value from json_each(?))
"""


def _describe_owner(is_own: int | None, name: str, is_disputed: int) -> tuple[str, bool, bool]:
    return ("" if is_own else name, bool(is_own), bool(is_disputed))


def load_rows(
    store: Store, keys: Sequence[int], query: Query | None = None, last_hit_entries: Mapping[int, int] | None = None
) -> list[SessionRow]:
    """Return the rows of the sessions, in any order. Sessions that were purged meanwhile are missing.

    Pass the entries of the newest hits if they are known.
    """
    key_list = encode(list(keys)).decode()
    with store.snapshot():
        sessions = store.sessions.by_keys(keys)
        with_summary, with_secrets, with_notes = (
            {key for (key,) in store.rows(_SELECT_SESSIONS_HAVING.format(SESSIONS_HAVING[kind]), key_list)}
            for kind in ("summary", "secret", "note")
        )
        tags: dict[int, list[str]] = {}
        for key, name in store.rows(_SELECT_TAGS, key_list):
            tags.setdefault(key, []).append(name)
        children = dict(store.rows(_COUNT_CHILDREN, key_list))
        owners = {key: _describe_owner(*columns) for key, *columns in store.rows(_SELECT_OWNERS, key_list)}
        hits = store.search.find_newest_hits(keys, query, last_hit_entries) if query else {}
    return [
        SessionRow(
            session,
            session.key in with_summary,
            session.key in with_secrets,
            tuple(tags.get(session.key, ())),
            children.get(session.key, 0),
            hits.get(session.key),
            session.key in with_notes,
            *owners.get(session.key, ("", False, False)),
        )
        for session in sessions
    ]
