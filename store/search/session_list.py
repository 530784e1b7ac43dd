"""The list that a person browses: which sessions, in which order, under which headings, nested under which parents.

All keys at once, as arrays; what a row shows is read a page at a time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from store.search.list_rows import (
    BEST_MATCHES,
    MAX_NESTING,
    Heading,
    Order,
    SessionListLayout,
    SessionListOptions,
    SessionRow,
)
from store.search.query import Query
from store.search.sql import (
    SESSIONS_HAVING,
    Condition,
    all_of,
    build_folder_condition,
    build_session_condition,
    build_session_filter_condition,
    build_title_condition,
    format_timestamp,
)
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

# One row of JSON arrays: a hundred thousand rows would be as many tuples, made while the screen waits.
_SELECT_KEYS = """
    select json_group_array(key), json_group_array(value), {parents}, {folded} from (
        select sessions.key, {value} as value, {parent} as parent from sessions
        where sessions.deleted = 0 and {condition} order by {order} limit ?)
"""
_NEWEST_FIRST = "sessions.updated_at desc, sessions.key desc"
_SELECT_CANDIDATES = (
    "select sessions.key, {titled}, head, tail from sessions where {condition} order by {order} limit ? offset ?"
)
_KEY_IN_LIST = "sessions.key in (select value from json_each(?))"
_ORDERS: dict[Order, str] = {
    "best": _NEWEST_FIRST,
    "newest": _NEWEST_FIRST,
    "oldest": "sessions.updated_at, sessions.key",
    "turns": "sessions.turns desc, sessions.updated_at desc, sessions.key desc",
    "errors": "sessions.errors desc, sessions.updated_at desc, sessions.key desc",
    "title": """coalesce(nullif(sessions.own_title, ''), nullif(sessions.agent_title, ''),
        nullif(sessions.first_prompt, ''), sessions.id) collate nocase, sessions.key""",
}
_GROUP_VALUES = {
    "day": "substr(sessions.updated_at, 1, 16)",
    "folder": "sessions.cwd",
    "agent": "sessions.source",
    "none": "0",
}
_PARENT_KEY = """(select parents.key from sessions as parents where parents.id = sessions.parent_id
    and parents.key != sessions.key)"""
_NOT_DELETED = Condition("sessions.deleted = 0")
_NOT_SUPERSEDED = Condition("sessions.relation is not 'superseded'")
_SHOWN_PARENT = """parents.id = {child}.parent_id and parents.deleted = 0 and parents.relation is not 'superseded'
    and parents.key != {child}.key and parents.parent_id is not {child}.id"""
_HAS_NO_PARENT = "not exists (select 1 from sessions as parents where {0})"
# The same for everybody at once. There may be many children, but all that do not hang on others are found in an index
# alone, without a look at their rows.
_HIDDEN_SESSIONS = """
    with hidden as materialized (
        select children.key, children.relation is not 'superseded' as folded from sessions as children
        left join sessions as parents on {0}
        where children.parent_id is not null and (children.relation is 'superseded' or parents.key is not null))
"""
_EMPTY_CONDITION = Condition("")
_NOT_HIDDEN = Condition("sessions.key not in (select key from hidden)")
_SELECT_CHILDREN = """
    select parents.key, children.key from sessions as parents
    join sessions as children on children.parent_id = parents.id
    where parents.key in (select value from json_each(?)) and children.deleted = 0
    and children.relation is not 'superseded' and children.key != parents.key
    order by children.created_at, children.key
"""

MAX_BEST_FIRST = 20
"""So many sessions are put before the others for being the best."""

CANDIDATES_PER_ROW = 4
"""Times as many sessions as are wanted at once: a word that one in four holds is found without a look at more."""

MAX_CANDIDATES = 1_000
"""Sessions: a word that lies further back is so rare that all that hold it are sooner found."""


# ── which rows ────────────────────────────────────────────────────────────────────────────────────


def build_session_list(
    store: Store, wanted: SessionListOptions, limit: int = -1, now: datetime | None = None
) -> SessionListLayout:
    """With a limit, the beginning of it, at once; without, typing errors are forgiven where nothing else is found."""
    query = Query.parse(wanted.query, is_typing=True)
    now = now or datetime.now(UTC)
    ranked: Sequence[int] = ()
    with store.snapshot():
        if query and limit < 0:
            query, read, ranked = _find_and_rank(store, wanted, query, now)
        elif query:
            read = _find_sessions(store, wanted, query, limit, now)
        else:
            read = _read_all_roots(store, wanted) if limit < 0 else _read_first_roots(store, wanted, limit)
        keys, values, parents, folded, said = read
        beneath = _find_shown_children(store, keys, parents, wanted)
    total = len(keys) + folded
    above = {child: parent for parent, of in beneath.items() for child in of}
    if beneath:
        values = [value for key, value in zip(keys, values, strict=True) if key not in above]
        keys = array("q", [key for key in keys if key not in above])
    keys, headings = _put_best_first(_replace_by_roots(ranked, above), keys, values, wanted)
    top = SessionListLayout(wanted, query, keys, total, headings, last_hit_entries=said)
    return _insert_children(top, beneath) if beneath else top


class _SessionKeys(NamedTuple):
    keys: array[int]
    group_values: list[str]
    "What they are grouped by."
    parents: list[int | None]
    "Where they were asked for."
    folded_count: int
    "How many are not among the keys, being children."
    last_hit_entries: Mapping[int, int] = {}


# What only a search needs is imported by it: a start shows the list first.


def _find_and_rank(
    store: Store, wanted: SessionListOptions, query: Query, now: datetime
) -> tuple[Query, _SessionKeys, Sequence[int]]:
    """With what was probably meant, if it was mistyped; and the best of them, the best first."""
    from store.search.recent import rank_sessions
    from store.search.typos import find_or_correct

    def find(meant: Query) -> _SessionKeys:
        return _find_sessions(store, wanted, meant, -1, now)

    query, read = find_or_correct(store, query, ["conversation_fts", "skims_fts"], find, lambda found: not found.keys)
    is_ranked = wanted.order == "best" and len(read.keys) > 1 and query.fts()
    return query, read, rank_sessions(store, query, now) if is_ranked else ()


def _find_sessions(store: Store, wanted: SessionListOptions, query: Query, limit: int, now: datetime) -> _SessionKeys:
    said: Mapping[int, int] = {}
    first: list[int] = []
    if limit > 0 and query.fts():
        first, said = _find_among_newest(store, wanted, query, limit, now)
    matching = Condition(_KEY_IN_LIST, (encode(first).decode(),)) if first else build_session_condition(query, now)
    condition = all_of([_NOT_SUPERSEDED, build_folder_condition("sessions", wanted.folder), matching])
    return _read_keys(store, wanted, condition, limit, parent=_PARENT_KEY)._replace(last_hit_entries=said)


def _find_among_newest(
    store: Store, wanted: SessionListOptions, query: Query, limit: int, now: datetime
) -> tuple[list[int], Mapping[int, int]]:
    """As many as are wanted, where a few of the newest sessions have them; else none, and all must be looked at. And
    where in them the words were said."""
    from store.search.recent import (
        estimate_sessions_to_check,
        find_last_hit_entries,
        find_last_hit_entries_by_index,
        find_quick_index_sessions,
    )

    if _ORDERS[wanted.order] != _NEWEST_FIRST:
        return [], {}
    titled = build_title_condition(query) or Condition("0")
    besides = [
        _NOT_DELETED,
        _NOT_SUPERSEDED,
        build_folder_condition("sessions", wanted.folder),
        build_session_filter_condition(query, now),
    ]
    condition = all_of(besides)
    sql = _SELECT_CANDIDATES.format(titled=titled.sql, condition=condition.sql, order=_NEWEST_FIRST)

    def newest(count: int, begin: int = 0) -> list[_Candidate]:
        return store.rows(sql, *titled.values, *condition.values, count, begin)

    near = newest(CANDIDATES_PER_ROW * limit)
    said = find_last_hit_entries(store, query, [key for key, *_ in near], now, limit=limit)
    unread = find_quick_index_sessions(store, query)
    found = _keep_matching(near, said.keys() | unread)
    if (
        len(found) < limit
        and (further := estimate_sessions_to_check(store, query, limit - len(found))) < MAX_CANDIDATES
    ):
        beyond = newest(further, begin=len(near))
        said |= find_last_hit_entries_by_index(
            store, query, {key: (head, tail) for key, _, head, tail in beyond if head}, now
        )
        found += _keep_matching(beyond, said.keys() | unread)
    return (found[:limit], said) if len(found) >= limit else ([], {})


_Candidate = tuple[int, bool, int, int]
"""A session, whether it has the words in its title, and its first and last entries."""


def _keep_matching(newest: Iterable[_Candidate], held: Set[int]) -> list[int]:
    """Those that have the words in their title, or hold them."""
    return [key for key, is_titled, _, _ in newest if is_titled or key in held]


def _read_first_roots(store: Store, wanted: SessionListOptions, limit: int) -> _SessionKeys:
    """Asks of each session on the way whether its parent is there."""
    top = _build_shown_parent_condition("sessions", wanted).embed_in(_HAS_NO_PARENT)
    return _read_keys(
        store, wanted, all_of([_NOT_SUPERSEDED, build_folder_condition("sessions", wanted.folder), top]), limit
    )


def _read_all_roots(store: Store, wanted: SessionListOptions) -> _SessionKeys:
    hidden = _build_shown_parent_condition("children", wanted).embed_in(_HIDDEN_SESSIONS)
    condition = all_of([_NOT_HIDDEN, build_folder_condition("sessions", wanted.folder)])
    return _read_keys(
        store, wanted, condition, -1, hidden=hidden, folded_sql="(select count(*) from hidden where folded)"
    )


def _read_keys(
    store: Store,
    wanted: SessionListOptions,
    condition: Condition,
    limit: int,
    *,
    parent: str = "",
    hidden: Condition = _EMPTY_CONDITION,
    folded_sql: str = "0",
) -> _SessionKeys:
    sql = hidden.sql + _SELECT_KEYS.format(
        folded=folded_sql,
        value=_GROUP_VALUES[wanted.group],
        parent=parent or "0",
        parents="json_group_array(parent)" if parent else "'[]'",
        condition=condition.sql,
        order=_ORDERS[wanted.order],
    )
    keys, values, parents, count = store.row(sql, *hidden.values, *condition.values, limit)
    return _SessionKeys(array("q", orjson.loads(keys)), orjson.loads(values), orjson.loads(parents), count)


def _build_shown_parent_condition(child: str, wanted: SessionListOptions) -> Condition:
    shown = Condition(_SHOWN_PARENT.format(child=child))
    return all_of(
        [shown, build_folder_condition(child, wanted.folder), build_folder_condition("parents", wanted.folder)]
    )


# ── what stands under what ────────────────────────────────────────────────────────────────────────

ChildrenByParent = dict[int, list[int]]


def _find_shown_children(
    store: Store, keys: array[int], parents: Sequence[int | None], wanted: SessionListOptions
) -> ChildrenByParent:
    """The children that are to be seen, by their parents: those that were found, and all of an unfolded parent."""
    beneath: ChildrenByParent = {}
    if any(parents):
        there = set(keys)
        for key, parent in zip(keys, parents, strict=True):
            if parent in there and parent is not None:
                beneath.setdefault(parent, []).append(key)
    unfolded: ChildrenByParent = {}
    if wanted.unfolded:
        for parent, child in store.rows(_SELECT_CHILDREN, encode(sorted(wanted.unfolded)).decode()):
            unfolded.setdefault(parent, []).append(child)
    return _keep_reachable(keys, beneath | unfolded)


def _keep_reachable(keys: array[int], children: ChildrenByParent) -> ChildrenByParent:
    """Only what hangs on a row of the list, each child once: foreign stores may tell of sessions in a circle."""
    if not children:
        return children
    below = {child for of in children.values() for child in of}
    kept: ChildrenByParent = {}
    placed: set[int] = set()
    for root in [*(key for key in keys if key in children and key not in below), *keys]:
        waiting = [root] if root in children and root not in placed else []
        placed.update(waiting)
        while waiting:
            parent = waiting.pop()
            if new := [child for child in children.get(parent, ()) if child not in placed]:
                kept[parent] = new
                placed.update(new)
                waiting += new
    return kept


def _insert_children(top: SessionListLayout, beneath: ChildrenByParent) -> SessionListLayout:
    """With the children between the rows."""
    keys, depths, rails = array("q"), bytearray(), bytearray()
    headings = []
    waiting = iter(top.headings)
    heading = next(waiting, None)
    for row, root in enumerate(top.keys):
        if heading and heading.row == row:
            headings.append(heading._replace(row=len(keys)))
            heading = next(waiting, None)
        for key, depth, bits in _walk_depth_first(root, beneath):
            keys.append(key)
            depths.append(depth)
            rails.append(bits)
    return replace(top, keys=keys, headings=tuple(headings), depths=bytes(depths), guides=bytes(rails))


def _walk_depth_first(root: int, beneath: ChildrenByParent) -> Iterator[tuple[int, int, int]]:
    """Depth first: a key, its depth, and the levels on which a sibling of it or of those above it follows."""
    waiting = [(root, 0, 0)]
    while waiting:
        key, depth, bits = waiting.pop()
        yield key, depth, bits
        children = beneath.get(key, ())
        level = min(depth + 1, MAX_NESTING)
        above = bits & ((1 << level) - 1)
        for n, child in enumerate(reversed(children)):
            waiting.append((child, level, above | (bool(n) << level)))


# ── headings ──────────────────────────────────────────────────────────────────────────────────────


def _replace_by_roots(keys: Sequence[int], above: Mapping[int, int]) -> Iterator[int]:
    """What was found beneath a row speaks for that row."""
    for key in keys:
        while key in above:
            key = above[key]
        yield key


def _put_best_first(
    ranked: Iterable[int], keys: array[int], values: list[str], wanted: SessionListOptions
) -> tuple[array[int], tuple[Heading, ...]]:
    """Then the others; by their days, where days are wanted, while the best stand under a heading of their own."""
    its = dict(zip(keys, values, strict=True)) if ranked else {}
    top = array("q", islice(dict.fromkeys(key for key in ranked if key in its), MAX_BEST_FIRST))
    if not top:
        return _group_keys(keys, values, wanted)
    for key in top:
        del its[key]
    if wanted.group != "day":
        return _group_keys(top + array("q", its), [*(values[keys.index(key)] for key in top), *its.values()], wanted)
    rest, days = _group_keys(array("q", its), list(its.values()), wanted)
    shifted = (day._replace(row=day.row + len(top)) for day in days)
    return top + rest, (Heading(0, BEST_MATCHES, len(top)), *shifted)


def _group_keys(
    keys: array[int], values: list[str], wanted: SessionListOptions
) -> tuple[array[int], tuple[Heading, ...]]:
    """Days as in a diary, the newest first unless the oldest are; else in the order of their first sessions."""
    if wanted.group == "none" or not keys:
        return keys, ()
    if wanted.group == "day" and wanted.order in ("best", "newest", "oldest"):
        return keys, _build_day_headings(values)
    groups: dict[str, array[int]] = {}
    for key, value in zip(keys, _list_local_days(values) if wanted.group == "day" else values, strict=True):
        groups.setdefault(value, array("q")).append(key)
    ordered, headings = array("q"), []
    for name in sorted(groups, reverse=True) if wanted.group == "day" else groups:
        headings.append(Heading(len(ordered), name, len(groups[name])))
        ordered.extend(groups[name])
    return ordered, tuple(headings)


def _build_day_headings(minutes: list[str]) -> tuple[Heading, ...]:
    """Of times that are sorted: where each day begins."""
    oldest_first = minutes[0] <= minutes[-1]
    ends = list(_find_day_ends(minutes if oldest_first else minutes[::-1]))
    begins = [0, *(end for end, _ in ends[:-1])]
    days = [(begin, day, end - begin) for begin, (end, day) in zip(begins, ends, strict=True)]
    if oldest_first:
        return tuple(Heading(*day) for day in days)
    count = len(minutes)
    return tuple(Heading(count - begin - size, day, size) for begin, day, size in reversed(days))


def _list_local_days(minutes: list[str]) -> Iterator[str]:
    """Of times in any order."""
    known = sorted(set(minutes))
    ends = list(_find_day_ends(known))
    bounds, names = [known[end] for end, _ in ends[:-1]], [day for _, day in ends]
    return (names[bisect_right(bounds, minute)] for minute in minutes)


def _find_day_ends(minutes: list[str]) -> Iterator[tuple[int, str]]:
    """Of times that are sorted, the oldest first: up to where each local day goes. Few of them are looked at."""
    at = 0
    while at < len(minutes):
        day = _parse_local_day(minutes[at])
        if day is None:
            at = next((later for later in range(at, len(minutes)) if _parse_local_day(minutes[later])), len(minutes))
            yield at, ""
        else:
            at = max(bisect_left(minutes, _format_day_end(day), at), at + 1)
            yield at, day.isoformat()


def _parse_local_day(minute: str) -> date | None:
    """None for a time that a foreign program spelled in a way of its own."""
    try:
        return datetime.fromisoformat(f"{minute}+00:00").astimezone().date()
    except (ValueError, OverflowError):
        return None


def _format_day_end(day: date) -> str:
    try:
        return format_timestamp(datetime.combine(day + timedelta(days=1), time()))[:16]
    except OverflowError:
        return "9"  # the last day that the calendar knows


# ── what a row shows ──────────────────────────────────────────────────────────────────────────────

_SELECT_SESSIONS_HAVING = "select session from ({}) where session in (select value from json_each(?))"
_SELECT_TAGS = "select session, name from tags where session in (select value from json_each(?)) order by name"
_COUNT_CHILDREN = """
    select parents.key, count(*) from sessions as parents
    join sessions as children on children.parent_id = parents.id
    where parents.key in (select value from json_each(?)) and children.deleted = 0
    and children.relation is not 'superseded' and children.key != parents.key group by parents.key
"""


def load_rows(
    store: Store, keys: Sequence[int], query: Query | None = None, said: Mapping[int, int] | None = None
) -> list[SessionRow]:
    """In no order; those that were purged meanwhile are missing. Where the words were said may be known already."""
    wanted = encode(list(keys)).decode()
    with store.snapshot():
        sessions = store.sessions.by_keys(keys)
        with_summary, with_secrets = (
            {key for (key,) in store.rows(_SELECT_SESSIONS_HAVING.format(SESSIONS_HAVING[what]), wanted)}
            for what in ("summary", "secret")
        )
        tags: dict[int, list[str]] = {}
        for key, name in store.rows(_SELECT_TAGS, wanted):
            tags.setdefault(key, []).append(name)
        children = dict(store.rows(_COUNT_CHILDREN, wanted))
        hits = store.search.find_newest_hits(keys, query, said) if query else {}
    return [
        SessionRow(
            session,
            session.key in with_summary,
            session.key in with_secrets,
            tuple(tags.get(session.key, ())),
            children.get(session.key, 0),
            hits.get(session.key),
        )
        for session in sessions
    ]


# ── places ────────────────────────────────────────────────────────────────────────────────────────


def find_work_tree(folder: Path) -> Path | None:
    """The git work tree that a folder is in. A linked one has a file where others have a folder."""
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), None)
