"""In which sessions the words of a query were said, without a look at all others: of a few, the newest, the best.

A word that stands in every other message is found a hundred thousand times. Whoever types wants the first page of
that: the index is asked for the stretches only in which the entries of some sessions lie.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from store.conversations.entries import decode_parts
from store.model.entry import Thinking
from store.search.query import Query
from store.search.sql import Condition, build_quick_index_conditions, build_role_condition, build_title_condition
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

MAX_RANGES = 8
"""The index is asked so often at most; each time it gathers anew what a beginning of a word stands for."""

MAX_RANGE_GAP = 4_000
"""Entries between two stretches that are sooner read over than asked around."""

SHORT_PREFIX_CHARS = 2
"""Letters with which so many words begin that nearly every conversation has one."""

MAX_SCANNED_PREFIX_CHARS = 4
"""Letters with which many may begin."""

MAX_SCAN_MISSES = 8
"""Sessions without a word that begins with so many letters, and they are seldom: the index knows sooner where."""

MAX_ENTRIES_SCANNED = 20
"""Messages of a session; if none of them has it, the index is asked."""

MAX_RANKED_MATCHES = 50_000
"""A word that was said more often tells no message from another, and to weigh them all would take long."""

MAX_RANKED_ENTRIES = 500
MAX_TITLE_MATCHES = 20
"""Sessions with the words in their title that are named, the newest of them."""

MAX_COUNTED_MATCHES = 5_000
"""Matches are counted no further, to guess how far apart they lie."""

ESTIMATE_MARGIN = 2
"""Times as far as a guess says."""

_SELECT_ENTRY_RANGES = (
    "select key, head, tail from sessions where key in (select value from json_each(?)) and head is not null"
)
# Cross joins: SQLite would rather go through the sessions' entries, and ask the index for each.
_SELECT_LAST_HIT_ENTRIES = """
    select sessions.key, max(entries.key) from conversation_fts
    cross join entries on entries.key = conversation_fts.rowid
    cross join sessions on sessions.key = entries.session
    where conversation_fts match ? and conversation_fts.rowid between ? and ?
    and entries.session in (select value from json_each(?)) and {} group by sessions.key
"""
_SELECT_NEWEST_ENTRIES = """
    select key, text, iif(instr(parts, '"thinking"'), parts, null) as thoughts from entries
    where session = ? and seq >= 0 and inherited = 0 and kind in ('message', 'compaction')
    and (text != '' or thoughts is not null) order by seq desc limit ?
"""
_COUNT_MATCHES = "select count(*) from (select 1 from conversation_fts where conversation_fts match ? limit ?)"
_SELECT_RANKED_SESSIONS = """
    select sessions.key from
    (select rowid as entry, rank as weight from conversation_fts where conversation_fts match ? order by rank limit ?)
    cross join entries on entries.key = entry cross join sessions on sessions.key = entries.session
    where sessions.deleted = 0 and {} order by weight, entries.key desc
"""
_SELECT_SESSIONS_WHERE = "select sessions.key from sessions where {}"
_SELECT_TITLE_MATCHES = """
    select sessions.key from sessions where sessions.deleted = 0 and {}
    order by sessions.updated_at desc, sessions.key desc limit ?
"""


class EntryRange(NamedTuple):
    first: int
    last: int


def find_last_hit_entries(
    store: Store, query: Query, sessions: Sequence[int], now: datetime, limit: int | None = None
) -> dict[int, int]:
    """Of each of these sessions in which the words were said, the last entry that holds them; or of enough of them."""
    if not query.fts():
        return {}
    found = _scan_newest_entries(store, query, sessions, limit or len(sessions))
    if len(found) >= (limit or len(sessions)):
        return found
    others = encode([session for session in sessions if session not in found]).decode()
    return found | find_last_hit_entries_by_index(
        store, query, {key: (head, tail) for key, head, tail in store.rows(_SELECT_ENTRY_RANGES, others)}, now
    )


def find_last_hit_entries_by_index(
    store: Store, query: Query, lies: Mapping[int, tuple[int, int]], now: datetime
) -> dict[int, int]:
    """The same by the index alone, of sessions the first and last entries of which are known."""
    match, keys, spoken = query.fts(), encode(list(lies)).decode(), build_role_condition(query, now)
    found: dict[int, int] = {}
    for stretch in merge_ranges(lies.values()):
        for session, entry in store.rows(
            _SELECT_LAST_HIT_ENTRIES.format(spoken.sql), match, *stretch, keys, *spoken.values
        ):
            found[session] = max(entry, found.get(session, 0))
    return found


def _scan_newest_entries(store: Store, query: Query, sessions: Sequence[int], enough: int) -> dict[int, int]:
    """What few letters begin is met in nearly every conversation, sooner than the index has gathered all it knows."""
    groups = query.word_groups
    if len(groups) != 1 or len(query.groups) != 1 or len(groups[0]) != 1:
        return {}
    (term,) = groups[0]
    if not term.prefix or len(term.text) > MAX_SCANNED_PREFIX_CHARS or not term.text.isascii():
        return {}
    missed, patience = 0, len(sessions) if len(term.text) <= SHORT_PREFIX_CHARS else MAX_SCAN_MISSES
    letters, begins = term.text.lower(), re.compile(term.to_regex(), re.IGNORECASE)
    found: dict[int, int] = {}
    for session in sessions:
        said = store.rows(_SELECT_NEWEST_ENTRIES, session, MAX_ENTRIES_SCANNED)
        # Most have the letters nowhere, which is told much sooner than that no word begins with them.
        met = (
            entry
            for entry, text, parts in said
            if (letters in text.lower() and begins.search(text))
            or (parts and letters.encode() in parts.lower() and _has_match_in_thinking(begins, parts))
        )
        if (entry := next(met, None)) is not None:
            found[session] = entry
        else:
            missed += 1
        if len(found) == enough or missed > patience:
            break
    return found


def _has_match_in_thinking(words: re.Pattern[str], column: bytes) -> bool:
    return any(words.search(part.text) for part in decode_parts("", column) if isinstance(part, Thinking))


def estimate_sessions_to_check(store: Store, query: Query, wanted: int) -> int:
    """Of how many sessions some will have the words, if they stand in these as often as anywhere."""
    (often,) = store.row(_COUNT_MATCHES, query.fts(), MAX_COUNTED_MATCHES)
    (sessions,) = store.row("select count(*) from sessions")
    return int(ESTIMATE_MARGIN * wanted * sessions / max(often, 1))


def find_quick_index_sessions(store: Store, query: Query) -> set[int]:
    """The sessions that were only skimmed, and in which the words were seen."""
    return {
        key
        for condition in build_quick_index_conditions(query)
        for (key,) in store.rows(_SELECT_SESSIONS_WHERE.format(condition.sql), *condition.values)
    }


def rank_sessions(store: Store, query: Query, now: datetime) -> list[int]:
    """The sessions to look at first: with all the words in their title, then with the weightiest message."""
    titled = build_title_condition(query)
    found = _select_keys(store, _SELECT_TITLE_MATCHES, titled, MAX_TITLE_MATCHES) if titled else []
    match = query.fts()
    (often,) = store.row(_COUNT_MATCHES, match, MAX_RANKED_MATCHES + 1) if match else (0,)
    if 0 < often <= MAX_RANKED_MATCHES:
        spoken = build_role_condition(query, now)
        found += [
            key
            for (key,) in store.rows(
                _SELECT_RANKED_SESSIONS.format(spoken.sql), match, MAX_RANKED_ENTRIES, *spoken.values
            )
        ]
    return list(dict.fromkeys(found))


def _select_keys(store: Store, sql: str, condition: Condition, limit: int) -> list[int]:
    return [key for (key,) in store.rows(sql.format(condition.sql), *condition.values, limit)]


def merge_ranges(
    lies: Iterable[tuple[int, int]], max_ranges: int = MAX_RANGES, max_gap: int = MAX_RANGE_GAP
) -> list[EntryRange]:
    """All of them in a few: those that lie nearest to each other are joined."""
    joined = list(_join_near_ranges(sorted(lies), max_gap))
    gaps = sorted(range(1, len(joined)), key=lambda at: joined[at - 1].last - joined[at].first)[: max_ranges - 1]
    bounds = [0, *sorted(gaps), len(joined)]
    return [EntryRange(joined[begin].first, joined[end - 1].last) for begin, end in pairwise(bounds) if begin < end]


def _join_near_ranges(ordered: Sequence[tuple[int, int]], near: int) -> Iterator[EntryRange]:
    """Of a thousand there are a few at most: nothing is made of each."""
    begin, end = ordered[0] if ordered else (0, 0)
    for first, last in ordered:
        if first > end + near:
            yield EntryRange(begin, end)
            begin, end = first, last
        elif last > end:
            end = last
    if ordered:
        yield EntryRange(begin, end)
