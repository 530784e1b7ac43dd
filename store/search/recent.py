"""This module finds the sessions that match a query without reading all matches: among a few, the newest, or the best.

A common word has a hundred thousand matches, but a person who types needs only the first page of results. So the index
is searched only within the ranges of entry keys that belong to the sessions in question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from store.conversations.parts import decode_thoughts
from store.search.query import Query, Term
from store.search.sql import (
    build_note_conditions,
    build_quick_index_conditions,
    build_role_condition,
    build_title_condition,
)
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

MAX_RANGES = 8
"""The most ranges to search. Each search expands the prefix again, which takes time."""

MAX_RANGE_GAP = 4_000
"""The largest gap between two ranges that are joined. Reading the entries in the gap is faster than another search."""

SHORT_PREFIX_CHARS = 2
"""A prefix of so few letters occurs in nearly every conversation."""

MAX_UNCOUNTED_PREFIX_CHARS = 3
"""The matches of a prefix of so few letters are not counted: the index merges the matches of all words that begin with
it, up to 30 ms for 1 GB."""

MAX_SCANNED_PREFIX_CHARS = 4
"""A prefix of so few letters may be common enough to scan messages for it."""

MAX_SCAN_MISSES = 8
"""After so many sessions without a match the prefix is rare, and the index is faster than scanning."""

MAX_ENTRIES_SCANNED = 20
"""The messages of a session that are scanned before the index is searched."""

MAX_RANKED_MATCHES = 50_000
"""More matches than this are not ranked: the word is too common to rank by, and it would take long."""

RANKED_ENTRIES = (60, 500)
"""So many messages are ranked at first, and so many if they belong to too few sessions. The session of each of them is
looked up, which takes longer than the ranking."""

MAX_TITLE_MATCHES = 20
"""The sessions with a matching title, and those with a matching note, that are ranked first. The newest ones are
taken."""

MAX_COUNTED_MATCHES = 5_000
"""Limits how many matches are counted to estimate how frequent they are."""

ESTIMATE_MARGIN = 2
"""The factor by which an estimate is raised, to be on the safe side."""

MAX_RARE_MATCHES = 400
"""So few matches are all found with the index, and ranked, within a few milliseconds."""

MAX_SCANNED_TITLES = 20_000
"""The titles of so many sessions are searched within a few milliseconds."""

_SELECT_ENTRY_RANGES = (
    "select key, head, tail from sessions where key in (select value from json_each(?)) and head is not null"
)
# The cross joins force SQLite to start with the index. Otherwise it looks up every entry of the sessions in the index.
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
_SELECT_SESSIONS_BY_NOTE = "select session from notes where {} group by session order by max(id) desc"
_SELECT_TITLE_MATCHES = """
    select sessions.key from sessions where sessions.deleted = 0 and {}
    order by sessions.updated_at desc, sessions.key desc
"""


class EntryRange(NamedTuple):
    """Describes a range of entry keys, both ends included."""

    first: int
    last: int


def find_last_hit_entries(
    store: Store, query: Query, sessions: Sequence[int], now: datetime, limit: int | None = None
) -> dict[int, int]:
    """Map each session that matches to its last matching entry. With a limit, some sessions may be missing."""
    if not query.fts():
        return {}
    entries = _scan_newest_entries(store, query, sessions, limit or len(sessions))
    if len(entries) >= (limit or len(sessions)):
        return entries
    others = encode([session for session in sessions if session not in entries]).decode()
    return entries | find_last_hit_entries_by_index(
        store, query, {key: (head, tail) for key, head, tail in store.rows(_SELECT_ENTRY_RANGES, others)}, now
    )


def find_last_hit_entries_by_index(
    store: Store, query: Query, ranges: Mapping[int, tuple[int, int]], now: datetime
) -> dict[int, int]:
    """Do the same with the index alone. `ranges` maps sessions to their first and last entries."""
    match, keys, role = query.fts(), encode(list(ranges)).decode(), build_role_condition(query, now)
    entries: dict[int, int] = {}
    for entry_range in merge_ranges(ranges.values()):
        for session, entry in store.rows(
            _SELECT_LAST_HIT_ENTRIES.format(role.sql), match, *entry_range, keys, *role.values
        ):
            entries[session] = max(entry, entries.get(session, 0))
    return entries


def _scan_newest_entries(store: Store, query: Query, sessions: Sequence[int], limit: int) -> dict[int, int]:
    """Map sessions to their last matching entry if the query is one short prefix; else return nothing.

    A short prefix occurs in nearly every conversation, so reading the newest messages is faster than the index.
    """
    groups = query.word_groups
    if len(groups) != 1 or len(query.groups) != 1 or len(groups[0]) != 1:
        return {}
    (term,) = groups[0]
    if not _is_short_prefix(term, MAX_SCANNED_PREFIX_CHARS):
        return {}
    misses, max_misses = 0, len(sessions) if len(term.text) <= SHORT_PREFIX_CHARS else MAX_SCAN_MISSES
    letters, pattern = term.text.lower(), re.compile(term.to_regex(), re.IGNORECASE)
    entries: dict[int, int] = {}
    for session in sessions:
        newest = store.rows(_SELECT_NEWEST_ENTRIES, session, MAX_ENTRIES_SCANNED)
        # Most texts do not contain the letters at all, and `in` is much faster than the pattern.
        matching = (
            entry
            for entry, text, parts in newest
            if (letters in text.lower() and pattern.search(text))
            or (parts and letters.encode() in parts.lower() and _has_match_in_thinking(pattern, parts))
        )
        if (entry := next(matching, None)) is not None:
            entries[session] = entry
        else:
            misses += 1
        if len(entries) == limit or misses > max_misses:
            break
    return entries


def _is_short_prefix(term: Term, max_chars: int) -> bool:
    return term.prefix and len(term.text) <= max_chars and term.text.isascii()


def _has_match_in_thinking(pattern: re.Pattern[str], parts_column: bytes) -> bool:
    return any(pattern.search(thought.text) for thought in decode_thoughts(parts_column))


def estimate_sessions_to_check(store: Store, query: Query, needed: int) -> int:
    """Estimate how many sessions must be searched to find the needed number of matches."""
    matches = _count_matches(store, query, MAX_COUNTED_MATCHES)
    (sessions,) = store.row("select count(*) from sessions")
    return int(ESTIMATE_MARGIN * needed * sessions / max(matches, 1))


def is_ranked_quickly(store: Store, query: Query) -> bool:
    """Whether all matches can be found and ranked at every letter. If nothing matches, typing errors are considered,
    which takes longer."""
    if any(_is_short_prefix(term, MAX_UNCOUNTED_PREFIX_CHARS) for group in query.word_groups for term in group):
        return False
    if not 0 < _count_matches(store, query, MAX_RARE_MATCHES + 1) <= MAX_RARE_MATCHES:
        return False
    (sessions,) = store.row("select count(*) from sessions")
    return int(sessions) <= MAX_SCANNED_TITLES


def _count_matches(store: Store, query: Query, limit: int) -> int:
    (matches,) = store.row(_COUNT_MATCHES, query.fts(), limit)
    return int(matches)


def find_quick_index_sessions(store: Store, query: Query) -> set[int]:
    """Return the sessions that match by the quick index, because they are not read yet."""
    return {
        key
        for condition in build_quick_index_conditions(query)
        for (key,) in store.rows(_SELECT_SESSIONS_WHERE.format(condition.sql), *condition.values)
    }


def find_sessions_by_note(store: Store, query: Query) -> list[int]:
    """Return the sessions with a note that has all words, those with the newest notes first."""
    return [
        key
        for condition in build_note_conditions(query)
        for (key,) in store.rows(_SELECT_SESSIONS_BY_NOTE.format(condition.sql), *condition.values)
    ]


def find_title_matches(store: Store, query: Query) -> list[int]:
    """Return the sessions with a matching title, the newest first. All titles are read, from an index."""
    title = build_title_condition(query)
    return [key for (key,) in store.rows(_SELECT_TITLE_MATCHES.format(title.sql), *title.values)] if title else []


def rank_sessions(
    store: Store, query: Query, now: datetime, among: Set[int], count: int, title_keys: Sequence[int] | None = None
) -> list[int]:
    """Return the best of the sessions: by their titles, then by their notes, then by their highest ranked messages.

    At least `count` of them are returned if so many match, unless the word is too common to rank by. Pass the sessions
    with a matching title if they are known.
    """
    title_keys = find_title_matches(store, query) if title_keys is None else title_keys
    keys = [*title_keys[:MAX_TITLE_MATCHES]]
    keys += find_sessions_by_note(store, query)[:MAX_TITLE_MATCHES]
    ranked = _keep_among(keys, among)
    matches = _count_matches(store, query, MAX_RANKED_MATCHES + 1) if query.fts() else 0
    if 0 < matches <= MAX_RANKED_MATCHES:
        sql, role = _SELECT_RANKED_SESSIONS, build_role_condition(query, now)
        for entry_count in RANKED_ENTRIES:
            rows = store.rows(sql.format(role.sql), query.fts(), entry_count, *role.values)
            ranked = _keep_among([*keys, *(key for (key,) in rows)], among)
            if len(ranked) >= count or entry_count >= matches:
                break
    return ranked


def _keep_among(keys: Iterable[int], among: Set[int]) -> list[int]:
    return [key for key in dict.fromkeys(keys) if key in among]


def merge_ranges(
    ranges: Iterable[tuple[int, int]], max_ranges: int = MAX_RANGES, max_gap: int = MAX_RANGE_GAP
) -> list[EntryRange]:
    """Join ranges until there are at most `max_ranges`. The smallest gaps are closed first."""
    joined = list(_join_near_ranges(sorted(ranges), max_gap))
    widest_gaps = sorted(range(1, len(joined)), key=lambda index: joined[index - 1].last - joined[index].first)
    bounds = [0, *sorted(widest_gaps[: max_ranges - 1]), len(joined)]
    return [EntryRange(joined[start].first, joined[end - 1].last) for start, end in pairwise(bounds) if start < end]


def _join_near_ranges(ordered: Sequence[tuple[int, int]], max_gap: int) -> Iterator[EntryRange]:
    """Join sorted ranges with small gaps. It creates objects only for the results, since there may be many ranges."""
    start, end = ordered[0] if ordered else (0, 0)
    for first, last in ordered:
        if first > end + max_gap:
            yield EntryRange(start, end)
            start, end = first, last
        elif last > end:
            end = last
    if ordered:
        yield EntryRange(start, end)
