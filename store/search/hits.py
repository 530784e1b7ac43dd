"""This module maintains the search index and finds hits: the places in conversations and tool calls that match a query.

The index consists of two FTS5 tables without content; the text itself is in the entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from store.conversations.parts import decode_thoughts
from store.database.progress import Notify, ProgressNotifier
from store.model.entry import Entry, Part, ToolCall, ToolResult, readable_text
from store.model.knowledge import Hit
from store.model.session import entry_id
from store.search.complete import Vocabulary
from store.search.index import INDEXED_KINDS, call_text, conversation_text, tools_text
from store.search.list_rows import ToolHits
from store.search.query import Query
from store.search.recent import find_last_hit_entries
from store.search.sql import (
    TOOL_MATCHES,
    Condition,
    all_of,
    build_entry_condition,
    build_listed_condition,
    build_note_conditions,
    build_quick_index_conditions,
    build_session_condition,
    build_session_filter_condition,
    build_tool_match_condition,
)
from store.search.vocabulary import load_vocabulary
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

MERGE_PAGES = 500
"""The pages that one step merges. A step takes a tenth of a second, so that an edit does not wait for long."""

MAX_TOOL_HITS = 50
"""The most sessions that are listed because of their tool calls. The newest ones are taken."""

SNIPPET_BEFORE = 40
SNIPPET_LENGTH = 160

# ── the index ─────────────────────────────────────────────────────────────────────────────────────

_INSERT_CONVERSATION = "insert into conversation_fts (rowid, text) values (?, ?)"
_INSERT_TOOLS = "insert into tools_fts (rowid, text) values (?, ?)"
_DELETE_CONVERSATION = "insert into conversation_fts (conversation_fts, rowid, text) values ('delete', ?, ?)"
_DELETE_TOOLS = "insert into tools_fts (tools_fts, rowid, text) values ('delete', ?, ?)"
_FTS_TABLES = ("conversation_fts", "tools_fts")
_SELECT_MATCHES = """
    select {columns} from {table}
    join entries on entries.key = {table}.rowid join sessions on sessions.key = entries.session
    where {table} match ? and sessions.deleted = 0 and {condition}
"""
_SELECT_SESSIONS_WITH_TOOL_HITS = f"""
    select sessions.key, max(entries.key) from {TOOL_MATCHES}
    group by sessions.key order by sessions.updated_at desc, sessions.key desc limit ?
"""
_NOT_LISTED = "sessions.key not in (select value from json_each(?))"
_SELECT_QUICK_INDEXED = """
    select id, updated_at, coalesce(nullif(own_title, ''), nullif(agent_title, ''), first_prompt) from sessions
    where deleted = 0 and {} order by updated_at desc, key desc
"""
_SELECT_NOTES = """
    select sessions.key, sessions.id, notes.entry_seq, notes.created_at, notes.text
    from notes join sessions on sessions.key = notes.session
    where notes.session in (select value from json_each(?)) and {} order by notes.id
"""
_SELECT_SPOKEN = """
    select sessions.id, entries.key, entries.seq, entries.turn, entries.role, entries.created_at, entries.text,
        iif(instr(entries.parts, '"thinking"'), entries.parts, null)
    from json_each(?) as keys
    cross join entries on entries.key = keys.value cross join sessions on sessions.key = entries.session
"""
EVERYTHING = Condition()

IndexRow = tuple[int, str]

SearchArea = Literal["conversation", "tools"]
SEARCH_AREAS: tuple[SearchArea, ...] = get_args(SearchArea)
_FTS_TABLE_BY_AREA: dict[SearchArea, str] = dict(zip(SEARCH_AREAS, _FTS_TABLES, strict=True))


class HitPage(NamedTuple):
    """Holds some hits and the number of all hits."""

    hits: list[Hit]
    total: int


class Search:
    """Writes the index and searches it. This is the collection `store.search`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def queue_rows(self, conversation: Sequence[IndexRow], tools: Sequence[IndexRow]) -> None:
        """Queue rows for the index within the transaction that writes the entries. They are written when it ends.

        They are not written immediately because FTS5 writes a small segment at every savepoint, and merging many
        small segments is slow.
        """
        pending = self._store.pending_statements
        pending += [(_INSERT_CONVERSATION, row) for row in conversation]
        pending += [(_INSERT_TOOLS, row) for row in tools]

    def flush(self) -> None:
        """Write the queued rows, before the transaction ends or the index is read."""
        pending = self._store.pending_statements
        for statement in (_INSERT_CONVERSATION, _INSERT_TOOLS):
            rows = [row for queued, row in pending if queued is statement]
            if rows:
                self._store.connection.executemany(statement, rows)
        pending.clear()

    def delete_rows(self, conversation: Sequence[IndexRow], tools: Sequence[IndexRow]) -> None:
        """Delete rows from the index. Their text must be the one that was inserted, or the index is damaged."""
        self.flush()
        self._store.connection.executemany(_DELETE_CONVERSATION, conversation)
        self._store.connection.executemany(_DELETE_TOOLS, tools)

    def build_rows(self, session: int) -> tuple[list[IndexRow], list[IndexRow]]:
        """Return the rows of a session for the conversation index and for the tool index."""
        return self._build_rows(self._store.chains.entries(session))

    def build_rows_of(self, entries: Sequence[int]) -> tuple[list[IndexRow], list[IndexRow]]:
        """Return the rows of some entries, by their keys."""
        return self._build_rows(entry for _, entry in self._store.chains.entries_by_keys(entries))

    def _build_rows(self, entries: Iterable[Entry]) -> tuple[list[IndexRow], list[IndexRow]]:
        conversation: list[IndexRow] = []
        tools: list[IndexRow] = []
        for entry in entries:
            if entry.inherited or entry.kind not in INDEXED_KINDS:
                continue
            if (text := conversation_text(entry.text, entry.parts)) is not None:
                conversation.append((entry.key, text))
            if (text := tools_text(entry.parts)) is not None:
                tools.append((entry.key, text))
        return conversation, tools

    def reindex(self, notify: Notify = str) -> int:
        """Rebuild both indexes from the entries. Return the number of sessions."""
        progress = ProgressNotifier(notify)
        keys = [key for (key,) in self._store.rows("select key from sessions order by key")]
        with self._store.transaction() as connection:
            for table in _FTS_TABLES:
                connection.execute(f"insert into {table} ({table}) values ('delete-all')")
            for done, key in enumerate(keys):
                progress.report(f"{done:,} of {len(keys):,} sessions are in the search index.")
                self.queue_rows(*self.build_rows(key))
                self.flush()
        return len(keys)

    def count_segments(self) -> int:
        """Return the number of segments of the index that has more of them."""
        return max(int(self._store.row(f"select count(distinct segid) from {table}_idx")[0]) for table in _FTS_TABLES)

    def merge_segments(self, *, completely: bool = True) -> Iterator[None]:
        """Merge the segments that an import wrote, step by step. A merged index is smaller and faster.

        Without `completely`, only segments of similar sizes are merged, which rewrites a small part of the index.
        """
        for table in _FTS_TABLES:
            # A negative number makes FTS5 merge all segments into one.
            pages, has_more = -MERGE_PAGES if completely else MERGE_PAGES, True
            while has_more:
                with self._store.transaction(durable=False) as connection:
                    changes_before = connection.total_changes
                    connection.execute(f"insert into {table} ({table}, rank) values ('merge', ?)", (pages,))
                    has_more = connection.total_changes - changes_before > 1
                pages = MERGE_PAGES
                yield

    def optimize(self) -> None:
        """Merge everything after a purge, so that no deleted word stays in an older segment of the index."""
        with self._store.transaction() as connection:
            for table in _FTS_TABLES:
                connection.execute(f"insert into {table} ({table}) values ('optimize')")

    # ── finding ───────────────────────────────────────────────────────────────────────────────────

    def find(
        self,
        query: Query | str,
        *,
        limit: int = 50,
        newest_first: bool = False,
        now: datetime | None = None,
        sessions: Condition = EVERYTHING,
    ) -> tuple[list[Hit], int]:
        """Return the best hits, those in conversations first, and the number of all hits.

        A query without words has no hits. `sessions` says in which sessions to search.
        """
        parsed = Query.parse(query) if isinstance(query, str) else query
        pages = self.find_by_area(parsed, limit=limit, newest_first=newest_first, now=now, sessions=sessions).values()
        return [hit for page in pages for hit in page.hits], sum(page.total for page in pages)

    def find_by_area(
        self,
        query: Query,
        areas: Sequence[SearchArea] = SEARCH_AREAS,
        *,
        limit: int = 50,
        newest_first: bool = False,
        now: datetime | None = None,
        sessions: Condition = EVERYTHING,
    ) -> dict[SearchArea, HitPage]:
        """Return the hits in conversations and the hits in tool calls.

        The first area leaves half of the limit to the second if the second has so many hits.
        """
        match, now = query.fts(), now or datetime.now(UTC)
        if not match:
            return {area: HitPage([], 0) for area in areas}
        with self._store.snapshot():
            unread = self._find_quick_index_hits(query, now, sessions) if "conversation" in areas else []
            totals = {area: self._count_hits(query, area, now, sessions) for area in areas}
            pages: dict[SearchArea, HitPage] = {}
            remaining = limit
            for area in areas:
                total_of_others = sum(totals[other] for other in areas if other not in pages and other != area)
                area_limit = max(remaining - min(total_of_others, remaining // 2), 0)
                pages[area] = HitPage(
                    self._find_best_hits(query, area, area_limit, newest_first, now, sessions), totals[area]
                )
                remaining -= len(pages[area].hits)
            if unread:
                page = pages["conversation"]
                pages["conversation"] = HitPage(page.hits + unread[:remaining], page.total + len(unread))
            return pages

    def _find_quick_index_hits(self, query: Query, now: datetime, sessions: Condition) -> list[Hit]:
        """Return hits for sessions that are only in the quick index. Their entries are not known yet."""
        matches = build_quick_index_conditions(query)
        condition = all_of([build_session_filter_condition(query, now), sessions, *matches])
        rows = self._store.rows(_SELECT_QUICK_INDEXED.format(condition.sql), *condition.values) if matches else []
        pattern = query.pattern()
        return [
            Hit(session, session, 0, "", "text", updated_at, *make_snippet(title, 0, pattern))
            for session, updated_at, title in rows
        ]

    def _count_hits(self, query: Query, area: SearchArea, now: datetime, sessions: Condition) -> int:
        table = _FTS_TABLE_BY_AREA[area]
        condition = all_of([build_entry_condition(query, table, now), sessions])
        sql = _SELECT_MATCHES.format(columns="count(*)", table=table, condition=condition.sql)
        (total,) = self._store.row(sql, query.fts(), *condition.values)
        return int(total)

    def _find_best_hits(
        self,
        query: Query,
        area: SearchArea,
        limit: int,
        newest_first: bool,
        now: datetime,
        sessions: Condition,
    ) -> list[Hit]:
        table = _FTS_TABLE_BY_AREA[area]
        condition = all_of([build_entry_condition(query, table, now), sessions])
        columns = f"entries.key, bm25({table}) as weight, entries.created_at as at"
        sql = _SELECT_MATCHES.format(columns=columns, table=table, condition=condition.sql)
        order = "at desc" if newest_first else "weight, at desc"
        rows = self._store.rows(f"{sql} order by {order} limit ?", query.fts(), *condition.values, limit)
        return list(self._build_hits([key for key, _, _ in rows], table, query).values())

    def find_newest_hits(
        self, sessions: Sequence[int], query: Query, last_hit_entries: Mapping[int, int] | None = None
    ) -> dict[int, Hit]:
        """Return the newest hit of each session that has one, or a note that has the words.

        Pass the entries of the hits if they are known.
        """
        with self._store.snapshot():
            entries = last_hit_entries or find_last_hit_entries(self._store, query, sessions, datetime.now(UTC))
            hits = self._build_hits(
                [entries[session] for session in sessions if session in entries], "conversation_fts", query
            )
            found = {session: hits[entries[session]] for session in sessions if entries.get(session) in hits}
            return self._find_note_hits([session for session in sessions if session not in found], query) | found

    def _find_note_hits(self, sessions: Sequence[int], query: Query) -> dict[int, Hit]:
        """Return the newest note of each session that has all words in one."""
        hits: dict[int, Hit] = {}
        for condition in build_note_conditions(query) if sessions else ():
            sql, keys = _SELECT_NOTES.format(condition.sql), encode(list(sessions)).decode()
            for key, session_id, seq, at, text in self._store.rows(sql, keys, *condition.values):
                entry = session_id if seq is None else entry_id(session_id, seq)
                hits[key] = Hit(session_id, entry, 0, "", "note", at, *find_snippet(text, query))
        return hits

    def find_newest_hit_entry(self, session: int, query: Query) -> str | None:
        """Return the id of the entry at which a session opens after a search, or None."""
        hit = self.find_newest_hits([session], query).get(session)
        return hit.entry if hit and hit.entry != hit.session_id else None

    def find_tool_hits(
        self,
        query: Query,
        folder: str = "",
        *,
        listed: Sequence[int] | None = None,
        limit: int = MAX_TOOL_HITS,
        now: datetime,
    ) -> ToolHits:
        """Return the newest sessions that have all words in one tool call or in one result.

        Those that are listed already are left out; without `listed`, those that match by their title or what was said.
        """
        if not query.fts():
            return ToolHits(query)
        scoped = query.limit_to_folder(folder)
        condition = all_of(
            [
                build_listed_condition(query),
                build_tool_match_condition(scoped, now),
                build_session_condition(query, now).embed_in("not ({0})")
                if listed is None
                else Condition(_NOT_LISTED, (encode(list(listed)).decode(),)),
            ]
        )
        sql = _SELECT_SESSIONS_WITH_TOOL_HITS.format(condition.sql)
        with self._store.snapshot():
            rows = self._store.rows(sql, query.fts(), *condition.values, limit + 1)
            hits = self._build_hits([entry for _, entry in rows[:limit]], "tools_fts", query)
        return ToolHits(
            query, {session: hits[entry] for session, entry in rows[:limit] if entry in hits}, len(rows) > limit
        )

    def load_vocabulary(self) -> Vocabulary:
        """Return the values that filters can have in this archive."""
        return load_vocabulary(self._store.rows)

    def _build_hits(self, keys: Sequence[int], table: str, query: Query) -> dict[int, Hit]:
        """Return the hits in these entries, in the order of the keys. Purged entries are missing."""
        is_spoken = table == "conversation_fts"
        entries = self._read_spoken(keys) if is_spoken else self._read_tool_texts(keys)
        hits: dict[int, Hit] = {}
        for entry in entries:
            name, snippet, marks = _pick_field_and_snippet(entry.fields, query)
            public_id = entry_id(entry.session_id, entry.seq)
            hits[entry.key] = Hit(
                entry.session_id, public_id, entry.turn, entry.role, name, entry.created_at, snippet, marks
            )
        return hits

    def _read_spoken(self, keys: Sequence[int]) -> Iterator[_SearchedEntry]:
        """Read what was said and thought. Other parts may be in compressed blocks, which takes longer to read."""
        rows = {row[1]: row for row in self._store.rows(_SELECT_SPOKEN, encode(keys).decode())}
        for *columns, text, parts in (rows[key] for key in keys if key in rows):
            thoughts = [("thinking", thought.text) for thought in decode_thoughts(parts)]
            yield _SearchedEntry._make((*columns, [("text", text), *thoughts]))

    def _read_tool_texts(self, keys: Sequence[int]) -> Iterator[_SearchedEntry]:
        for session_id, entry in self._store.chains.entries_by_keys(keys):
            yield _SearchedEntry(
                session_id,
                entry.key,
                entry.seq,
                entry.turn,
                entry.role,
                entry.created_at,
                list(_tool_fields(entry.parts)),
            )


class _SearchedEntry(NamedTuple):
    """Holds the texts of an entry that a search looks at, each with the name of its field."""

    session_id: str
    key: int
    seq: int
    turn: int
    role: str
    created_at: str
    fields: list[tuple[str, str]]


def _pick_field_and_snippet(
    fields: Sequence[tuple[str, str]], query: Query
) -> tuple[str, str, tuple[tuple[int, int], ...]]:
    """Return the name of the first field that matches, its snippet, and the ranges to highlight."""
    for ignore_accents in (False, True):
        pattern = query.pattern(ignore_accents=ignore_accents)
        name, body, offset = max(
            ((name, body, _find_first_offset(pattern, body)) for name, body in fields), key=lambda field: field[2] >= 0
        )
        if (
            offset >= 0
            or pattern is None
            or all(text.isascii() for text in (pattern.pattern, *(body for _, body in fields)))
        ):
            break
    return name, *make_snippet(body, max(offset, 0), pattern)


def find_snippet(body: str, query: Query) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return one line of a text around the first term of a query, and the ranges to highlight."""
    _, snippet, highlights = _pick_field_and_snippet([("text", body)], query)
    return snippet, highlights


def _find_first_offset(pattern: re.Pattern[str] | None, body: str) -> int:
    match = pattern.search(body) if pattern else None
    return match.start() if match else -1


def _tool_fields(parts: Sequence[Part]) -> Iterable[tuple[str, str]]:
    for part in parts:
        if isinstance(part, ToolCall):
            yield "tool_call", call_text(part)
        elif isinstance(part, ToolResult):
            yield "tool_result", readable_text(part.output)


def make_snippet(body: str, offset: int, pattern: re.Pattern[str] | None) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return one line of text around the offset, and the ranges in it that match the pattern."""
    start = max(offset - SNIPPET_BEFORE, 0)
    snippet = " ".join(body[start : start + SNIPPET_LENGTH].split())
    if start:
        snippet = "…" + snippet
    if start + SNIPPET_LENGTH < len(body):
        snippet += "…"
    spans = tuple(match.span() for match in pattern.finditer(snippet)) if pattern else ()
    return snippet, tuple(span for span in spans if span[0] < span[1])
