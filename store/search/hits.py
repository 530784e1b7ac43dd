"""This module maintains the search index and finds hits: the places in conversations and tool calls that match a query.

The index consists of two FTS5 tables without content; the text itself is in the entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from store.database.progress import Notify, ProgressNotifier
from store.model.entry import Part, Thinking, ToolCall, ToolResult, readable_text
from store.model.knowledge import Hit
from store.model.session import UNKNOWN_USER, entry_id
from store.search.complete import Vocabulary
from store.search.index import INDEXED_KINDS, call_text, conversation_text, tools_text
from store.search.query import Query
from store.search.recent import find_last_hit_entries
from store.search.sql import all_of, build_entry_condition, build_quick_index_conditions, build_session_filter_condition

if TYPE_CHECKING:
    from store.store import Store

MERGE_PAGES = 500
"""The pages that one step merges. A step takes a tenth of a second, so that an edit does not wait for long."""

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
_SELECT_QUICK_INDEXED = """
    select id, updated_at, coalesce(nullif(own_title, ''), nullif(agent_title, ''), first_prompt) from sessions
    where deleted = 0 and {} order by updated_at desc, key desc
"""
_VOCABULARY_SQL = {
    "agents": "select source, count(*) from sessions where deleted = 0 group by source",
    "models": "select model, count(*) from sessions where deleted = 0 group by model",
    "folders": "select cwd, count(*) from sessions where deleted = 0 group by cwd",
    "users": f"""
        select name, count(*) from (
            select user as name from sessions where deleted = 0
            union all select author from turns join entries on entries.key = turns.entry
        ) where name not in ('', '{UNKNOWN_USER}') group by name""",
    "channels": "select channel, count(*) from sessions where deleted = 0 group by channel",
    "tools": "select name, count(*) from tool_calls where inherited = 0 group by name",
    "tags": "select name, count(*) from tags group by name",
}
MAX_VOCABULARY_VALUES = 500
"""The values of each filter that completion may offer."""

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
        conversation: list[IndexRow] = []
        tools: list[IndexRow] = []
        for entry in self._store.chains.entries(session):
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

    def merge_segments(self) -> Iterator[None]:
        """Merge the segments that an import wrote, step by step. A merged index is smaller and faster."""
        for table in _FTS_TABLES:
            pages, has_more = -MERGE_PAGES, True  # a negative number makes FTS5 merge all segments into one
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
        self, query: Query | str, *, limit: int = 50, newest_first: bool = False, now: datetime | None = None
    ) -> tuple[list[Hit], int]:
        """Return the best hits, those in conversations first, and the number of all hits.

        A query without words has no hits.
        """
        parsed = Query.parse(query) if isinstance(query, str) else query
        pages = self.find_by_area(parsed, limit=limit, newest_first=newest_first, now=now).values()
        return [hit for page in pages for hit in page.hits], sum(page.total for page in pages)

    def find_by_area(
        self,
        query: Query,
        areas: Sequence[SearchArea] = SEARCH_AREAS,
        *,
        limit: int = 50,
        newest_first: bool = False,
        now: datetime | None = None,
    ) -> dict[SearchArea, HitPage]:
        """Return the hits in conversations and the hits in tool calls.

        The first area leaves half of the limit to the second if the second has so many hits.
        """
        match, now = query.fts(), now or datetime.now(UTC)
        if not match:
            return {area: HitPage([], 0) for area in areas}
        with self._store.snapshot():
            unread = self._find_quick_index_hits(query, now) if "conversation" in areas else []
            totals = {area: self._count_hits(query, area, now) for area in areas}
            pages: dict[SearchArea, HitPage] = {}
            remaining = limit
            for area in areas:
                total_of_others = sum(totals[other] for other in areas if other not in pages and other != area)
                area_limit = max(remaining - min(total_of_others, remaining // 2), 0)
                pages[area] = HitPage(self._find_best_hits(query, area, area_limit, newest_first, now), totals[area])
                remaining -= len(pages[area].hits)
            if unread:
                page = pages["conversation"]
                pages["conversation"] = HitPage(page.hits + unread[:remaining], page.total + len(unread))
            return pages

    def _find_quick_index_hits(self, query: Query, now: datetime) -> list[Hit]:
        """Return hits for sessions that are only in the quick index. Their entries are not known yet."""
        matches = build_quick_index_conditions(query)
        condition = all_of([build_session_filter_condition(query, now), *matches])
        rows = self._store.rows(_SELECT_QUICK_INDEXED.format(condition.sql), *condition.values) if matches else []
        pattern = query.pattern()
        return [
            Hit(session, session, 0, "", "text", updated_at, *make_snippet(title, 0, pattern))
            for session, updated_at, title in rows
        ]

    def _count_hits(self, query: Query, area: SearchArea, now: datetime) -> int:
        table = _FTS_TABLE_BY_AREA[area]
        condition = build_entry_condition(query, table, now)
        sql = _SELECT_MATCHES.format(columns="count(*)", table=table, condition=condition.sql)
        (total,) = self._store.row(sql, query.fts(), *condition.values)
        return int(total)

    def _find_best_hits(
        self, query: Query, area: SearchArea, limit: int, newest_first: bool, now: datetime
    ) -> list[Hit]:
        table = _FTS_TABLE_BY_AREA[area]
        condition = build_entry_condition(query, table, now)
        columns = f"entries.key, bm25({table}) as weight, entries.created_at as at"
        sql = _SELECT_MATCHES.format(columns=columns, table=table, condition=condition.sql)
        order = "at desc" if newest_first else "weight, at desc"
        rows = self._store.rows(f"{sql} order by {order} limit ?", query.fts(), *condition.values, limit)
        return list(self._build_hits([key for key, _, _ in rows], table, query).values())

    def find_newest_hits(
        self, sessions: Sequence[int], query: Query, last_hit_entries: Mapping[int, int] | None = None
    ) -> dict[int, Hit]:
        """Return the newest hit of each session that has one. Pass the entries of the hits if they are known."""
        with self._store.snapshot():
            entries = last_hit_entries or find_last_hit_entries(self._store, query, sessions, datetime.now(UTC))
            hits = self._build_hits(
                [entries[session] for session in sessions if session in entries], "conversation_fts", query
            )
            return {session: hits[entries[session]] for session in sessions if entries.get(session) in hits}

    def find_newest_hit_entry(self, session: int, query: Query) -> str | None:
        """Return the id of the entry at which a session opens after a search, or None."""
        hit = self.find_newest_hits([session], query).get(session)
        return hit.entry if hit else None

    def load_vocabulary(self) -> Vocabulary:
        """Return the values that filters can have in this archive."""
        values = {
            kind: tuple(
                value
                for value, _ in self._store.rows(f"{sql} order by 2 desc, 1 limit ?", MAX_VOCABULARY_VALUES)
                if value
            )
            for kind, sql in _VOCABULARY_SQL.items()
        }
        return Vocabulary(**values)

    def _build_hits(self, keys: Sequence[int], table: str, query: Query) -> dict[int, Hit]:
        """Return the hits in these entries, in the order of the keys. Purged entries are missing."""
        hits: dict[int, Hit] = {}
        for session_id, entry in self._store.chains.entries_by_keys(keys):
            fields = list(
                _conversation_fields(entry.text, entry.parts)
                if table == "conversation_fts"
                else _tool_fields(entry.parts)
            )
            name, snippet, marks = _pick_field_and_snippet(fields, query)
            public_id = entry_id(session_id, entry.seq)
            hits[entry.key] = Hit(session_id, public_id, entry.turn, entry.role, name, entry.created_at, snippet, marks)
        return hits


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


def _find_first_offset(pattern: re.Pattern[str] | None, body: str) -> int:
    match = pattern.search(body) if pattern else None
    return match.start() if match else -1


def _conversation_fields(text: str, parts: Sequence[Part]) -> Iterable[tuple[str, str]]:
    yield "text", text
    for part in parts:
        if isinstance(part, Thinking):
            yield "thinking", part.text


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
