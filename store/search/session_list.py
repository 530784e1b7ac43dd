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

from store.search.list_rows import BEST, DEEPEST, Heading, Listing, Order, Row, Wanted
from store.search.query import Query
from store.search.sql import HAVING, Condition, all_of, besides_words, in_folder, in_title, on_sessions, stamp
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

# One row of JSON arrays: a hundred thousand rows would be as many tuples, made while the screen waits.
_KEYS = """
    select json_group_array(key), json_group_array(value), {parents}, {folded} from (
        select sessions.key, {value} as value, {parent} as parent from sessions
        where sessions.deleted = 0 and {condition} order by {order} limit ?)
"""
_NEWEST = "sessions.updated_at desc, sessions.key desc"
_CANDIDATES = (
    "select sessions.key, {titled}, head, tail from sessions where {condition} order by {order} limit ? offset ?"
)
_AMONG = "sessions.key in (select value from json_each(?))"
_ORDERS: dict[Order, str] = {
    "best": _NEWEST,
    "newest": _NEWEST,
    "oldest": "sessions.updated_at, sessions.key",
    "turns": "sessions.turns desc, sessions.updated_at desc, sessions.key desc",
    "errors": "sessions.errors desc, sessions.updated_at desc, sessions.key desc",
    "title": """coalesce(nullif(sessions.own_title, ''), nullif(sessions.agent_title, ''),
        nullif(sessions.first_prompt, ''), sessions.id) collate nocase, sessions.key""",
}
_VALUES = {
    "day": "substr(sessions.updated_at, 1, 16)",
    "folder": "sessions.cwd",
    "agent": "sessions.source",
    "none": "0",
}
_PARENT = """(select parents.key from sessions as parents where parents.id = sessions.parent_id
    and parents.key != sessions.key)"""
_NOT_DELETED = Condition("sessions.deleted = 0")
_TELLING = Condition("sessions.relation is not 'superseded'")
_SHOWN_PARENT = """parents.id = {child}.parent_id and parents.deleted = 0 and parents.relation is not 'superseded'
    and parents.key != {child}.key and parents.parent_id is not {child}.id"""
_HAS_NO_PARENT = "not exists (select 1 from sessions as parents where {0})"
# The same for everybody at once. There may be many children, but all that do not hang on others are found in an index
# alone, without a look at their rows.
_HIDDEN = """
    with hidden as materialized (
        select children.key, children.relation is not 'superseded' as folded from sessions as children
        left join sessions as parents on {0}
        where children.parent_id is not null and (children.relation is 'superseded' or parents.key is not null))
"""
_NOTHING = Condition("")
_NOT_HIDDEN = Condition("sessions.key not in (select key from hidden)")
_OF_PARENTS = """
    select parents.key, children.key from sessions as parents
    join sessions as children on children.parent_id = parents.id
    where parents.key in (select value from json_each(?)) and children.deleted = 0
    and children.relation is not 'superseded' and children.key != parents.key
    order by children.created_at, children.key
"""

BEST_ON_TOP = 20
"""So many sessions are put before the others for being the best."""

LOOKED_AT = 4
"""Times as many sessions as are wanted at once: a word that one in four holds is found without a look at more."""

FURTHEST = 1_000
"""Sessions: a word that lies further back is so rare that all that hold it are sooner found."""


# ── which rows ────────────────────────────────────────────────────────────────────────────────────


def listing(store: Store, wanted: Wanted, limit: int = -1, now: datetime | None = None) -> Listing:
    """With a limit, the beginning of it, at once; without, typing errors are forgiven where nothing else is found."""
    query = Query.parse(wanted.query, typing=True)
    now = now or datetime.now(UTC)
    ranked: Sequence[int] = ()
    with store.snapshot():
        if query and limit < 0:
            query, read, ranked = _all_found(store, wanted, query, now)
        elif query:
            read = _found(store, wanted, query, limit, now)
        else:
            read = _all(store, wanted) if limit < 0 else _first(store, wanted, limit)
        keys, values, parents, folded, said = read
        beneath = _beneath(store, keys, parents, wanted)
    total = len(keys) + folded
    above = {child: parent for parent, of in beneath.items() for child in of}
    if beneath:
        values = [value for key, value in zip(keys, values, strict=True) if key not in above]
        keys = array("q", [key for key in keys if key not in above])
    keys, headings = _best_on_top(_roots(ranked, above), keys, values, wanted)
    top = Listing(wanted, query, keys, total, headings, said=said)
    return _unfolded(top, beneath) if beneath else top


class _Read(NamedTuple):
    keys: array[int]
    values: list[str]
    "What they are grouped by."
    parents: list[int | None]
    "Where they were asked for."
    folded: int
    "How many are not among the keys, being children."
    said: Mapping[int, int] = {}


# What only a search needs is imported by it: a start shows the list first.


def _all_found(store: Store, wanted: Wanted, query: Query, now: datetime) -> tuple[Query, _Read, Sequence[int]]:
    """With what was probably meant, if it was mistyped; and the best of them, the best first."""
    from store.search.recent import best
    from store.search.typos import found_or_forgiven

    def find(meant: Query) -> _Read:
        return _found(store, wanted, meant, -1, now)

    query, read = found_or_forgiven(store, query, ["conversation_fts", "skims_fts"], find, lambda found: not found.keys)
    is_ranked = wanted.order == "best" and len(read.keys) > 1 and query.fts()
    return query, read, best(store, query, now) if is_ranked else ()


def _found(store: Store, wanted: Wanted, query: Query, limit: int, now: datetime) -> _Read:
    said: Mapping[int, int] = {}
    first: list[int] = []
    if limit > 0 and query.fts():
        first, said = _among_newest(store, wanted, query, limit, now)
    matching = Condition(_AMONG, (encode(first).decode(),)) if first else on_sessions(query, now)
    condition = all_of([_TELLING, in_folder("sessions", wanted.folder), matching])
    return _read(store, wanted, condition, limit, parent=_PARENT)._replace(said=said)


def _among_newest(
    store: Store, wanted: Wanted, query: Query, limit: int, now: datetime
) -> tuple[list[int], Mapping[int, int]]:
    """As many as are wanted, where a few of the newest sessions have them; else none, and all must be looked at. And
    where in them the words were said."""
    from store.search.recent import expected_among, indexed_last, said_in_unread, said_last

    if _ORDERS[wanted.order] != _NEWEST:
        return [], {}
    titled = in_title(query) or Condition("0")
    besides = [_NOT_DELETED, _TELLING, in_folder("sessions", wanted.folder), besides_words(query, now)]
    condition = all_of(besides)
    sql = _CANDIDATES.format(titled=titled.sql, condition=condition.sql, order=_NEWEST)

    def newest(count: int, begin: int = 0) -> list[_Candidate]:
        return store.rows(sql, *titled.values, *condition.values, count, begin)

    near = newest(LOOKED_AT * limit)
    said = said_last(store, query, [key for key, *_ in near], now, enough=limit)
    unread = said_in_unread(store, query)
    found = _held(near, said.keys() | unread)
    if len(found) < limit and (further := expected_among(store, query, limit - len(found))) < FURTHEST:
        beyond = newest(further, begin=len(near))
        said |= indexed_last(store, query, {key: (head, tail) for key, _, head, tail in beyond if head}, now)
        found += _held(beyond, said.keys() | unread)
    return (found[:limit], said) if len(found) >= limit else ([], {})


_Candidate = tuple[int, bool, int, int]
"""A session, whether it has the words in its title, and its first and last entries."""


def _held(newest: Iterable[_Candidate], held: Set[int]) -> list[int]:
    """Those that have the words in their title, or hold them."""
    return [key for key, is_titled, _, _ in newest if is_titled or key in held]


def _first(store: Store, wanted: Wanted, limit: int) -> _Read:
    """Asks of each session on the way whether its parent is there."""
    top = _shown_parent("sessions", wanted).within(_HAS_NO_PARENT)
    return _read(store, wanted, all_of([_TELLING, in_folder("sessions", wanted.folder), top]), limit)


def _all(store: Store, wanted: Wanted) -> _Read:
    hidden = _shown_parent("children", wanted).within(_HIDDEN)
    condition = all_of([_NOT_HIDDEN, in_folder("sessions", wanted.folder)])
    return _read(store, wanted, condition, -1, hidden=hidden, folded="(select count(*) from hidden where folded)")


def _read(
    store: Store,
    wanted: Wanted,
    condition: Condition,
    limit: int,
    *,
    parent: str = "",
    hidden: Condition = _NOTHING,
    folded: str = "0",
) -> _Read:
    sql = hidden.sql + _KEYS.format(
        folded=folded,
        value=_VALUES[wanted.group],
        parent=parent or "0",
        parents="json_group_array(parent)" if parent else "'[]'",
        condition=condition.sql,
        order=_ORDERS[wanted.order],
    )
    keys, values, parents, count = store.row(sql, *hidden.values, *condition.values, limit)
    return _Read(array("q", orjson.loads(keys)), orjson.loads(values), orjson.loads(parents), count)


def _shown_parent(child: str, wanted: Wanted) -> Condition:
    shown = Condition(_SHOWN_PARENT.format(child=child))
    return all_of([shown, in_folder(child, wanted.folder), in_folder("parents", wanted.folder)])


# ── what stands under what ────────────────────────────────────────────────────────────────────────

Children = dict[int, list[int]]


def _beneath(store: Store, keys: array[int], parents: Sequence[int | None], wanted: Wanted) -> Children:
    """The children that are to be seen, by their parents: those that were found, and all of an unfolded parent."""
    beneath: Children = {}
    if any(parents):
        there = set(keys)
        for key, parent in zip(keys, parents, strict=True):
            if parent in there and parent is not None:
                beneath.setdefault(parent, []).append(key)
    unfolded: Children = {}
    if wanted.unfolded:
        for parent, child in store.rows(_OF_PARENTS, encode(sorted(wanted.unfolded)).decode()):
            unfolded.setdefault(parent, []).append(child)
    return _reachable(keys, beneath | unfolded)


def _reachable(keys: array[int], children: Children) -> Children:
    """Only what hangs on a row of the list, each child once: foreign stores may tell of sessions in a circle."""
    if not children:
        return children
    below = {child for of in children.values() for child in of}
    kept: Children = {}
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


def _unfolded(top: Listing, beneath: Children) -> Listing:
    """With the children between the rows."""
    keys, depths, rails = array("q"), bytearray(), bytearray()
    headings = []
    waiting = iter(top.headings)
    heading = next(waiting, None)
    for row, root in enumerate(top.keys):
        if heading and heading.row == row:
            headings.append(heading._replace(row=len(keys)))
            heading = next(waiting, None)
        for key, depth, bits in _branches(root, beneath):
            keys.append(key)
            depths.append(depth)
            rails.append(bits)
    return replace(top, keys=keys, headings=tuple(headings), depths=bytes(depths), rails=bytes(rails))


def _branches(root: int, beneath: Children) -> Iterator[tuple[int, int, int]]:
    """Depth first: a key, its depth, and the levels on which a sibling of it or of those above it follows."""
    waiting = [(root, 0, 0)]
    while waiting:
        key, depth, bits = waiting.pop()
        yield key, depth, bits
        children = beneath.get(key, ())
        level = min(depth + 1, DEEPEST)
        above = bits & ((1 << level) - 1)
        for n, child in enumerate(reversed(children)):
            waiting.append((child, level, above | (bool(n) << level)))


# ── headings ──────────────────────────────────────────────────────────────────────────────────────


def _roots(keys: Sequence[int], above: Mapping[int, int]) -> Iterator[int]:
    """What was found beneath a row speaks for that row."""
    for key in keys:
        while key in above:
            key = above[key]
        yield key


def _best_on_top(
    ranked: Iterable[int], keys: array[int], values: list[str], wanted: Wanted
) -> tuple[array[int], tuple[Heading, ...]]:
    """Then the others; by their days, where days are wanted, while the best stand under a heading of their own."""
    its = dict(zip(keys, values, strict=True)) if ranked else {}
    top = array("q", islice(dict.fromkeys(key for key in ranked if key in its), BEST_ON_TOP))
    if not top:
        return _grouped(keys, values, wanted)
    for key in top:
        del its[key]
    if wanted.group != "day":
        return _grouped(top + array("q", its), [*(values[keys.index(key)] for key in top), *its.values()], wanted)
    rest, days = _grouped(array("q", its), list(its.values()), wanted)
    shifted = (day._replace(row=day.row + len(top)) for day in days)
    return top + rest, (Heading(0, BEST, len(top)), *shifted)


def _grouped(keys: array[int], values: list[str], wanted: Wanted) -> tuple[array[int], tuple[Heading, ...]]:
    """Days as in a diary, the newest first unless the oldest are; else in the order of their first sessions."""
    if wanted.group == "none" or not keys:
        return keys, ()
    if wanted.group == "day" and wanted.order in ("best", "newest", "oldest"):
        return keys, _days_in_turn(values)
    groups: dict[str, array[int]] = {}
    for key, value in zip(keys, _days(values) if wanted.group == "day" else values, strict=True):
        groups.setdefault(value, array("q")).append(key)
    ordered, headings = array("q"), []
    for name in sorted(groups, reverse=True) if wanted.group == "day" else groups:
        headings.append(Heading(len(ordered), name, len(groups[name])))
        ordered.extend(groups[name])
    return ordered, tuple(headings)


def _days_in_turn(minutes: list[str]) -> tuple[Heading, ...]:
    """Of times that are sorted: where each day begins."""
    oldest_first = minutes[0] <= minutes[-1]
    ends = list(_ends_of_days(minutes if oldest_first else minutes[::-1]))
    begins = [0, *(end for end, _ in ends[:-1])]
    days = [(begin, day, end - begin) for begin, (end, day) in zip(begins, ends, strict=True)]
    if oldest_first:
        return tuple(Heading(*day) for day in days)
    count = len(minutes)
    return tuple(Heading(count - begin - size, day, size) for begin, day, size in reversed(days))


def _days(minutes: list[str]) -> Iterator[str]:
    """Of times in any order."""
    known = sorted(set(minutes))
    ends = list(_ends_of_days(known))
    bounds, names = [known[end] for end, _ in ends[:-1]], [day for _, day in ends]
    return (names[bisect_right(bounds, minute)] for minute in minutes)


def _ends_of_days(minutes: list[str]) -> Iterator[tuple[int, str]]:
    """Of times that are sorted, the oldest first: up to where each local day goes. Few of them are looked at."""
    at = 0
    while at < len(minutes):
        day = _local_day(minutes[at])
        if day is None:
            at = next((later for later in range(at, len(minutes)) if _local_day(minutes[later])), len(minutes))
            yield at, ""
        else:
            at = max(bisect_left(minutes, _end_of(day), at), at + 1)
            yield at, day.isoformat()


def _local_day(minute: str) -> date | None:
    """None for a time that a foreign program spelled in a way of its own."""
    try:
        return datetime.fromisoformat(f"{minute}+00:00").astimezone().date()
    except (ValueError, OverflowError):
        return None


def _end_of(day: date) -> str:
    try:
        return stamp(datetime.combine(day + timedelta(days=1), time()))[:16]
    except OverflowError:
        return "9"  # the last day that the calendar knows


# ── what a row shows ──────────────────────────────────────────────────────────────────────────────

_HAVING = "select session from ({}) where session in (select value from json_each(?))"
_TAGS = "select session, name from tags where session in (select value from json_each(?)) order by name"
_COUNTS = """
    select parents.key, count(*) from sessions as parents
    join sessions as children on children.parent_id = parents.id
    where parents.key in (select value from json_each(?)) and children.deleted = 0
    and children.relation is not 'superseded' and children.key != parents.key group by parents.key
"""


def rows(
    store: Store, keys: Sequence[int], query: Query | None = None, said: Mapping[int, int] | None = None
) -> list[Row]:
    """In no order; those that were purged meanwhile are missing. Where the words were said may be known already."""
    wanted = encode(list(keys)).decode()
    with store.snapshot():
        sessions = store.sessions.by_keys(keys)
        with_summary, with_secrets = (
            {key for (key,) in store.rows(_HAVING.format(HAVING[what]), wanted)} for what in ("summary", "secret")
        )
        tags: dict[int, list[str]] = {}
        for key, name in store.rows(_TAGS, wanted):
            tags.setdefault(key, []).append(name)
        children = dict(store.rows(_COUNTS, wanted))
        hits = store.search.newest_hits(keys, query, said) if query else {}
    return [
        Row(
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


def work_tree(folder: Path) -> Path | None:
    """The git work tree that a folder is in. A linked one has a file where others have a folder."""
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), None)
