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

from store.conversations.entries import parts_of
from store.model.entry import Thinking
from store.search.query import Query
from store.search.sql import Condition, in_title, on_speakers, skimmed
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

STRETCHES = 8
"""The index is asked so often at most; each time it gathers anew what a beginning of a word stands for."""

NEAR = 4_000
"""Entries between two stretches that are sooner read over than asked around."""

SHORT = 2
"""Letters with which so many words begin that nearly every conversation has one."""

PERHAPS = 4
"""Letters with which many may begin."""

SELDOM = 8
"""Sessions without a word that begins with so many letters, and they are seldom: the index knows sooner where."""

LOOKED_THROUGH = 20
"""Messages of a session; if none of them has it, the index is asked."""

RANKED_MATCHES = 50_000
"""A word that was said more often tells no message from another, and to weigh them all would take long."""

RANKED_ENTRIES = 500
TITLED = 20
"""Sessions with the words in their title that are named, the newest of them."""

OFTEN = 5_000
"""Matches are counted no further, to guess how far apart they lie."""

SAFELY = 2
"""Times as far as a guess says."""

_LIES = "select key, head, tail from sessions where key in (select value from json_each(?)) and head is not null"
# Cross joins: SQLite would rather go through the sessions' entries, and ask the index for each.
_SAID = """
    select sessions.key, max(entries.key) from conversation_fts
    cross join entries on entries.key = conversation_fts.rowid
    cross join sessions on sessions.key = entries.session
    where conversation_fts match ? and conversation_fts.rowid between ? and ?
    and entries.session in (select value from json_each(?)) and {} group by sessions.key
"""
_NEWEST_SAID = """
    select key, text, iif(instr(parts, '"thinking"'), parts, null) as thoughts from entries
    where session = ? and seq >= 0 and inherited = 0 and kind in ('message', 'compaction')
    and (text != '' or thoughts is not null) order by seq desc limit ?
"""
_COUNT = "select count(*) from (select 1 from conversation_fts where conversation_fts match ? limit ?)"
_RANKED = """
    select sessions.key from
    (select rowid as entry, rank as weight from conversation_fts where conversation_fts match ? order by rank limit ?)
    cross join entries on entries.key = entry cross join sessions on sessions.key = entries.session
    where sessions.deleted = 0 and {} order by weight, entries.key desc
"""
_UNREAD = "select sessions.key from sessions where {}"
_TITLED = """
    select sessions.key from sessions where sessions.deleted = 0 and {}
    order by sessions.updated_at desc, sessions.key desc limit ?
"""


class Stretch(NamedTuple):
    first: int
    last: int


def said_last(
    store: Store, query: Query, sessions: Sequence[int], now: datetime, enough: int | None = None
) -> dict[int, int]:
    """Of each of these sessions in which the words were said, the last entry that holds them; or of enough of them."""
    if not query.fts():
        return {}
    found = _met(store, query, sessions, enough or len(sessions))
    if len(found) >= (enough or len(sessions)):
        return found
    others = encode([session for session in sessions if session not in found]).decode()
    return found | indexed_last(store, query, {key: (head, tail) for key, head, tail in store.rows(_LIES, others)}, now)


def indexed_last(store: Store, query: Query, lies: Mapping[int, tuple[int, int]], now: datetime) -> dict[int, int]:
    """The same by the index alone, of sessions the first and last entries of which are known."""
    match, keys, spoken = query.fts(), encode(list(lies)).decode(), on_speakers(query, now)
    found: dict[int, int] = {}
    for stretch in stretches(lies.values()):
        for session, entry in store.rows(_SAID.format(spoken.sql), match, *stretch, keys, *spoken.values):
            found[session] = max(entry, found.get(session, 0))
    return found


def _met(store: Store, query: Query, sessions: Sequence[int], enough: int) -> dict[int, int]:
    """What few letters begin is met in nearly every conversation, sooner than the index has gathered all it knows."""
    groups = query.words
    if len(groups) != 1 or len(query.groups) != 1 or len(groups[0]) != 1:
        return {}
    (term,) = groups[0]
    if not term.prefix or len(term.text) > PERHAPS or not term.text.isascii():
        return {}
    missed, patience = 0, len(sessions) if len(term.text) <= SHORT else SELDOM
    letters, begins = term.text.lower(), re.compile(term.spelled(), re.IGNORECASE)
    found: dict[int, int] = {}
    for session in sessions:
        said = store.rows(_NEWEST_SAID, session, LOOKED_THROUGH)
        # Most have the letters nowhere, which is told much sooner than that no word begins with them.
        met = (
            entry
            for entry, text, parts in said
            if (letters in text.lower() and begins.search(text))
            or (parts and letters.encode() in parts.lower() and _is_thought(begins, parts))
        )
        if (entry := next(met, None)) is not None:
            found[session] = entry
        else:
            missed += 1
        if len(found) == enough or missed > patience:
            break
    return found


def _is_thought(words: re.Pattern[str], column: bytes) -> bool:
    return any(words.search(part.text) for part in parts_of("", column) if isinstance(part, Thinking))


def expected_among(store: Store, query: Query, wanted: int) -> int:
    """Of how many sessions some will have the words, if they stand in these as often as anywhere."""
    (often,) = store.row(_COUNT, query.fts(), OFTEN)
    (sessions,) = store.row("select count(*) from sessions")
    return int(SAFELY * wanted * sessions / max(often, 1))


def said_in_unread(store: Store, query: Query) -> set[int]:
    """The sessions that were only skimmed, and in which the words were seen."""
    return {
        key for condition in skimmed(query) for (key,) in store.rows(_UNREAD.format(condition.sql), *condition.values)
    }


def best(store: Store, query: Query, now: datetime) -> list[int]:
    """The sessions to look at first: with all the words in their title, then with the weightiest message."""
    titled = in_title(query)
    found = _keys(store, _TITLED, titled, TITLED) if titled else []
    match = query.fts()
    (often,) = store.row(_COUNT, match, RANKED_MATCHES + 1) if match else (0,)
    if 0 < often <= RANKED_MATCHES:
        spoken = on_speakers(query, now)
        found += [key for (key,) in store.rows(_RANKED.format(spoken.sql), match, RANKED_ENTRIES, *spoken.values)]
    return list(dict.fromkeys(found))


def _keys(store: Store, sql: str, condition: Condition, limit: int) -> list[int]:
    return [key for (key,) in store.rows(sql.format(condition.sql), *condition.values, limit)]


def stretches(lies: Iterable[tuple[int, int]], most: int = STRETCHES, near: int = NEAR) -> list[Stretch]:
    """All of them in a few: those that lie nearest to each other are joined."""
    joined = list(_joined(sorted(lies), near))
    gaps = sorted(range(1, len(joined)), key=lambda at: joined[at - 1].last - joined[at].first)[: most - 1]
    bounds = [0, *sorted(gaps), len(joined)]
    return [Stretch(joined[begin].first, joined[end - 1].last) for begin, end in pairwise(bounds) if begin < end]


def _joined(ordered: Sequence[tuple[int, int]], near: int) -> Iterator[Stretch]:
    """Of a thousand there are a few at most: nothing is made of each."""
    begin, end = ordered[0] if ordered else (0, 0)
    for first, last in ordered:
        if first > end + near:
            yield Stretch(begin, end)
            begin, end = first, last
        elif last > end:
            end = last
    if ordered:
        yield Stretch(begin, end)
