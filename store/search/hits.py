"""Words, phrases and prefixes over conversations and tool calls. The two FTS5 tables hold no text of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from store.model.entry import Part, Thinking, ToolCall, ToolResult, readable_text
from store.model.knowledge import Hit
from store.model.session import entry_id
from store.search.index import INDEXED_KINDS, call_text, conversation_text, tools_text
from store.search.query import Query, Vocabulary
from store.search.recent import find_last_hit_entries
from store.search.sql import all_of, build_entry_condition, build_quick_index_conditions, build_session_filter_condition

if TYPE_CHECKING:
    from store.store import Store

MERGE_PAGES = 500
"""At a time; a tenth of a second, as nobody who edits meanwhile should wait for long."""

SNIPPET_BEFORE = 40
SNIPPET_LENGTH = 160

# ── the shelf ─────────────────────────────────────────────────────────────────────────────────────

_INSERT_CONVERSATION = "insert into conversation_fts (rowid, text) values (?, ?)"
_INSERT_TOOLS = "insert into tools_fts (rowid, text) values (?, ?)"
_DELETE_CONVERSATION = "insert into conversation_fts (conversation_fts, rowid, text) values ('delete', ?, ?)"
_DELETE_TOOLS = "insert into tools_fts (tools_fts, rowid, text) values ('delete', ?, ?)"
_FTS_TABLES = ("conversation_fts", "tools_fts")
_SELECT_MATCHES = """
    select {what} from {table}
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
    "tools": "select name, count(*) from tool_calls where inherited = 0 group by name",
    "tags": "select name, count(*) from tags group by name",
}
MAX_VOCABULARY_VALUES = 500
"""Of each kind; nobody chooses from more."""

IndexRow = tuple[int, str]

SearchArea = Literal["conversation", "tools"]
SEARCH_AREAS: tuple[SearchArea, ...] = get_args(SearchArea)
_FTS_TABLE_BY_AREA: dict[SearchArea, str] = dict(zip(SEARCH_AREAS, _FTS_TABLES, strict=True))


class HitPage(NamedTuple):
    hits: list[Hit]
    total: int


class Search:
    def __init__(self, store: Store) -> None:
        self._store = store

    def queue_rows(self, conversation: Sequence[IndexRow], tools: Sequence[IndexRow]) -> None:
        """Within the transaction that writes the entries; the index itself is written as that one ends.

        Not at once, since FTS5 writes out all it holds at every savepoint, and then merges the crumbs for ever.
        """
        waiting = self._store.pending_statements
        waiting += [(_INSERT_CONVERSATION, row) for row in conversation]
        waiting += [(_INSERT_TOOLS, row) for row in tools]

    def flush(self) -> None:
        """What waits to be indexed, before the transaction ends or the index is read."""
        waiting = self._store.pending_statements
        for statement in (_INSERT_CONVERSATION, _INSERT_TOOLS):
            rows = [row for its, row in waiting if its is statement]
            if rows:
                self._store.connection.executemany(statement, rows)
        waiting.clear()

    def delete_rows(self, conversation: Sequence[IndexRow], tools: Sequence[IndexRow]) -> None:
        """With the same text that went in, or the index is damaged."""
        self.flush()
        self._store.connection.executemany(_DELETE_CONVERSATION, conversation)
        self._store.connection.executemany(_DELETE_TOOLS, tools)

    def build_rows(self, session: int) -> tuple[list[IndexRow], list[IndexRow]]:
        """What the indexes hold of a session."""
        conversation: list[IndexRow] = []
        tools: list[IndexRow] = []
        for entry in self._store.chains.entries(session):
            if entry.inherited or entry.kind not in INDEXED_KINDS:
                continue
            if (said := conversation_text(entry.text, entry.parts)) is not None:
                conversation.append((entry.key, said))
            if (done := tools_text(entry.parts)) is not None:
                tools.append((entry.key, done))
        return conversation, tools

    def reindex(self) -> int:
        """Both indexes anew from the entries; gives how many sessions were read."""
        keys = [key for (key,) in self._store.rows("select key from sessions order by key")]
        with self._store.transaction() as connection:
            for table in _FTS_TABLES:
                connection.execute(f"insert into {table} ({table}) values ('delete-all')")
            for key in keys:
                self.queue_rows(*self.build_rows(key))
                self.flush()
        return len(keys)

    def merge_segments(self) -> Iterator[None]:
        """What an import wrote in many pieces into one, step by step: it takes less room, and is searched faster."""
        for table in _FTS_TABLES:
            pages, is_left = -MERGE_PAGES, True  # less than nothing asks for all of them
            while is_left:
                with self._store.transaction(durable=False) as connection:
                    before = connection.total_changes
                    connection.execute(f"insert into {table} ({table}, rank) values ('merge', ?)", (pages,))
                    is_left = connection.total_changes - before > 1
                pages = MERGE_PAGES
                yield

    def optimize(self) -> None:
        """After a purge: merge what is left, so that no deleted word stays in the index's older segments."""
        with self._store.transaction() as connection:
            for table in _FTS_TABLES:
                connection.execute(f"insert into {table} ({table}) values ('optimize')")

    # ── finding ───────────────────────────────────────────────────────────────────────────────────

    def find(
        self, given: Query | str, *, limit: int = 50, newest_first: bool = False, now: datetime | None = None
    ) -> tuple[list[Hit], int]:
        """The best hits, in conversations first, and how many there are in all; none without a word to look for."""
        query = Query.parse(given) if isinstance(given, str) else given
        found = self.find_by_area(query, limit=limit, newest_first=newest_first, now=now).values()
        return [hit for one in found for hit in one.hits], sum(one.total for one in found)

    def find_by_area(
        self,
        query: Query,
        places: Sequence[SearchArea] = SEARCH_AREAS,
        *,
        limit: int = 50,
        newest_first: bool = False,
        now: datetime | None = None,
    ) -> dict[SearchArea, HitPage]:
        """What was said, and what tools were asked and answered. Neither takes more than half from the other."""
        match, now = query.fts(), now or datetime.now(UTC)
        if not match:
            return {place: HitPage([], 0) for place in places}
        with self._store.snapshot():
            unread = self._find_quick_index_hits(query, now) if "conversation" in places else []
            totals = {place: self._count_hits(query, place, now) for place in places}
            hits: dict[SearchArea, HitPage] = {}
            left = limit
            for place in places:
                of_others = sum(totals[other] for other in places if other not in hits and other != place)
                room = max(left - min(of_others, left // 2), 0)
                hits[place] = HitPage(self._find_best_hits(query, place, room, newest_first, now), totals[place])
                left -= len(hits[place].hits)
            if unread:
                said = hits["conversation"]
                hits["conversation"] = HitPage(said.hits + unread[:left], said.total + len(unread))
            return hits

    def _find_quick_index_hits(self, query: Query, now: datetime) -> list[Hit]:
        """Sessions that hold the words, as far as is known before they are read; where they stand is not."""
        found = build_quick_index_conditions(query)
        condition = all_of([build_session_filter_condition(query, now), *found])
        rows = self._store.rows(_SELECT_QUICK_INDEXED.format(condition.sql), *condition.values) if found else []
        pattern = query.pattern()
        return [
            Hit(session, session, 0, "", "text", at, *make_snippet(title, 0, pattern)) for session, at, title in rows
        ]

    def _count_hits(self, query: Query, place: SearchArea, now: datetime) -> int:
        table = _FTS_TABLE_BY_AREA[place]
        condition = build_entry_condition(query, table, now)
        sql = _SELECT_MATCHES.format(what="count(*)", table=table, condition=condition.sql)
        (total,) = self._store.row(sql, query.fts(), *condition.values)
        return int(total)

    def _find_best_hits(self, query: Query, place: SearchArea, limit: int, newest: bool, now: datetime) -> list[Hit]:
        table = _FTS_TABLE_BY_AREA[place]
        condition = build_entry_condition(query, table, now)
        what = f"entries.key, bm25({table}) as weight, entries.created_at as at"
        sql = _SELECT_MATCHES.format(what=what, table=table, condition=condition.sql)
        order = "at desc" if newest else "weight, at desc"
        rows = self._store.rows(f"{sql} order by {order} limit ?", query.fts(), *condition.values, limit)
        return list(self._build_hits([key for key, _, _ in rows], table, query).values())

    def find_newest_hits(
        self, sessions: Sequence[int], query: Query, said: Mapping[int, int] | None = None
    ) -> dict[int, Hit]:
        """Of each session that holds the words, where they were said last; which may be known already."""
        with self._store.snapshot():
            found = said or find_last_hit_entries(self._store, query, sessions, datetime.now(UTC))
            hits = self._build_hits(
                [found[session] for session in sessions if session in found], "conversation_fts", query
            )
            return {session: hits[found[session]] for session in sessions if found.get(session) in hits}

    def find_newest_hit_entry(self, session: int, query: Query) -> str | None:
        """The entry at which a session that was found opens."""
        hit = self.find_newest_hits([session], query).get(session)
        return hit.entry if hit else None

    def load_vocabulary(self) -> Vocabulary:
        """What there is to filter by."""
        named = {
            kind: tuple(
                value
                for value, _ in self._store.rows(f"{sql} order by 2 desc, 1 limit ?", MAX_VOCABULARY_VALUES)
                if value
            )
            for kind, sql in _VOCABULARY_SQL.items()
        }
        return Vocabulary(**named)

    def _build_hits(self, keys: Sequence[int], table: str, query: Query) -> dict[int, Hit]:
        """What these entries show of the words, in this order; those that went meanwhile are missing."""
        hits: dict[int, Hit] = {}
        for session_id, entry in self._store.chains.entries_by_keys(keys):
            fields = list(
                _conversation_fields(entry.text, entry.parts)
                if table == "conversation_fts"
                else _tool_fields(entry.parts)
            )
            name, shown, marks = _pick_field_and_snippet(fields, query)
            place = entry_id(session_id, entry.seq)
            hits[entry.key] = Hit(session_id, place, entry.turn, entry.role, name, entry.created_at, shown, marks)
        return hits


def _pick_field_and_snippet(
    fields: Sequence[tuple[str, str]], query: Query
) -> tuple[str, str, tuple[tuple[int, int], ...]]:
    """The field with the words, a line of it, and where in that they stand."""
    for accents in (False, True):
        pattern = query.pattern(ignore_accents=accents)
        name, body, at = max(
            ((name, body, _find_first_offset(pattern, body)) for name, body in fields), key=lambda found: found[2] >= 0
        )
        if (
            at >= 0
            or pattern is None
            or all(text.isascii() for text in (pattern.pattern, *(body for _, body in fields)))
        ):
            break
    return name, *make_snippet(body, max(at, 0), pattern)


def _find_first_offset(pattern: re.Pattern[str] | None, body: str) -> int:
    found = pattern.search(body) if pattern else None
    return found.start() if found else -1


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


def make_snippet(body: str, at: int, pattern: re.Pattern[str] | None) -> tuple[str, tuple[tuple[int, int], ...]]:
    """A line around the hit, and where in it the words stand."""
    start = max(at - SNIPPET_BEFORE, 0)
    cut = " ".join(body[start : start + SNIPPET_LENGTH].split())
    if start:
        cut = "…" + cut
    if start + SNIPPET_LENGTH < len(body):
        cut += "…"
    marks = tuple(found.span() for found in pattern.finditer(cut)) if pattern else ()
    return cut, tuple(span for span in marks if span[0] < span[1])
