"""The one way into a chain. A batch of entries becomes rows in one pass: links, turns, paired tool calls, search
index and the session's counts are all written in the same transaction, so that none can tell of what is not there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from store.coding import column_text, encode, encode_derived, exact_integer, exact_text, now
from store.errors import NotFound, Refused
from store.model import (
    UNKNOWN_USER,
    NewEntry,
    NewRecord,
    Part,
    Text,
    ToolCall,
    ToolResult,
    part_to_json,
)
from store.search import INDEXED, conversation_row, search_text, tools_row

if TYPE_CHECKING:
    from store.store import Store

PROMPT_SHOWN = 200
"""How much of the first prompt a session carries as its title of last resort."""

_STATE = """
    select sessions.tail, coalesce(entries.seq, -2), coalesce(entries.turn, 0), sessions.first_prompt,
        entries.created_at
    from sessions left join entries on entries.key = sessions.tail where sessions.key = ?
"""
_INSERT_ENTRY = """
    insert into entries (key, session, parent, seq, record, turn, kind, role, author, model, message_key, text,
        parts, inherited, tokens, created_at)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_TURN = """
    insert into turns (session, n, entry, first_seq, last_seq, started_at, ended_at) values (?, ?, ?, ?, ?, ?, ?)
"""
_EXTEND_TURN = "update turns set last_seq = ?, ended_at = max(ended_at, ?) where session = ? and n = ?"
_INSERT_CALL = """
    insert into tool_calls (session, turn, call_id, name, status, duration_ms, entry, part, result_entry, result_part,
        inherited)
    values (:session, :turn, :call_id, :name, :status, :duration_ms, :entry, :part, :result_entry, :result_part,
        :inherited)
"""
_OPEN_CALL = """
    select key from tool_calls where session = ? and call_id = ? and status = 'pending' order by key desc limit 1
"""
_CLOSE_CALL = """
    update tool_calls set status = ?, duration_ms = ?, result_entry = ?, result_part = ?,
        name = case when name = '' then ? else name end where key = ?
"""
_UPDATE_SESSION = """
    update sessions set tail = :tail, head = coalesce(head, :head), first_prompt = :first_prompt,
        turns = turns + :turns, entries = entries + :entries, tool_calls = tool_calls + :tool_calls,
        errors = errors + :errors, tokens_input = tokens_input + :input, tokens_output = tokens_output + :output,
        tokens_cached = tokens_cached + :cached, tokens_total = tokens_total + :input + :output + :cached,
        model = case when :model = '' then model else :model end,
        updated_at = max(updated_at, :updated_at)
    where key = :session
"""


def append(store: Store, session: int, entries: Sequence[NewEntry], *, durable: bool = True) -> range:
    """Chain the entries to the session's tail; gives their keys."""
    with store.transaction(durable=durable):
        batch = _Batch(store, session)
        for entry in entries:
            batch.take(entry)
        return batch.write()


@dataclass
class _Batch:
    store: Store
    session: int
    entry_rows: list[tuple[Any, ...]] = field(default_factory=list)
    turn_rows: list[tuple[Any, ...]] = field(default_factory=list)
    call_rows: list[dict[str, Any]] = field(default_factory=list)
    open_calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    closed_calls: list[tuple[Any, ...]] = field(default_factory=list)
    conversation: list[tuple[int, str, str]] = field(default_factory=list)
    tools: list[tuple[int, str, str]] = field(default_factory=list)
    records: list[NewRecord] = field(default_factory=list)
    record_of: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        connection = self.store.connection
        state = connection.execute(_STATE, (self.session,)).fetchone()
        if state is None:
            raise NotFound("That session is not in the store.")
        self.tail, self.seq, self.turn, self.first_prompt, self.last_at = state
        (last,) = connection.execute("select coalesce(max(key), 0) from entries").fetchone()
        self.first = self.next = last + 1
        (last_record,) = connection.execute("select coalesce(max(key), 0) from records").fetchone()
        self.next_record = last_record + 1
        self.opening_turn = self.turn
        self.counts = dict.fromkeys(("turns", "entries", "tool_calls", "errors", "input", "output", "cached"), 0)
        self.extended: tuple[int, str] | None = None
        self.model = ""

    def take(self, entry: NewEntry) -> None:
        if (entry.kind == "header") != (self.tail is None):
            raise Refused("A chain begins with its one header and has no other.")
        at = entry.created_at or now()
        text = column_text(entry.reading_text())
        author = entry.author
        key, self.next = self.next, self.next + 1
        self.seq += 1
        if entry.begins_turn():
            author = author or UNKNOWN_USER
            self._begin_turn(key, text, at, entry.inherited)
        elif self.turn_rows:
            *_, started, ended = self.turn_rows[-1]
            self.turn_rows[-1] = (*self.turn_rows[-1][:4], self.seq, started, max(ended, at))
        elif self.turn:
            self.extended = (self.seq, max(at, self.extended[1]) if self.extended else at)
        self._take_parts(key, entry, text)
        self._count(entry)
        self.entry_rows.append(
            (
                key,
                self.session,
                self.tail,
                self.seq,
                self._record_key(entry.record),
                self.turn,
                exact_text(entry.kind, "kind"),
                exact_text(entry.role, "role"),
                column_text(author),
                column_text(entry.model),
                column_text(entry.message_key),
                text,
                _parts_column(entry, text),
                entry.inherited,
                encode(entry.tokens).decode() if entry.tokens else None,
                at,
            )
        )
        self.tail = key
        self.last_at = max(self.last_at or at, at)

    def _begin_turn(self, key: int, text: str, at: str, inherited: bool) -> None:
        self.turn += 1
        self.counts["turns"] += not inherited
        self.turn_rows.append((self.session, self.turn, key, self.seq, self.seq, at, at))
        if not self.first_prompt:
            self.first_prompt = " ".join(text[: PROMPT_SHOWN * 4].split())[:PROMPT_SHOWN]

    def _record_key(self, record: NewRecord | None) -> int | None:
        if record is None:
            return None
        key = self.record_of.get(id(record))
        if key is None:
            key = self.record_of[id(record)] = self.next_record + len(self.records)
            self.records.append(record)
        return key

    def _take_parts(self, key: int, entry: NewEntry, text: str) -> None:
        indexed = entry.kind in INDEXED and not entry.inherited
        if _is_plain(entry.parts):
            if indexed and text:
                self.conversation.append((key, search_text(text), ""))
            return
        for index, part in enumerate(entry.parts):
            if isinstance(part, ToolCall):
                self._open_call(key, index, part, entry.inherited)
            elif isinstance(part, ToolResult):
                self._close_call(key, index, part, entry.inherited)
        if indexed:
            if (said := conversation_row(text, entry.parts)) is not None:
                self.conversation.append((key, *said))
            if (done := tools_row(entry.parts)) is not None:
                self.tools.append((key, *done))

    def _open_call(self, key: int, index: int, call: ToolCall, inherited: bool) -> None:
        row = self._call_row(call.id, call.name, "pending", inherited) | {"entry": key, "part": index}
        self.call_rows.append(row)
        self.open_calls[row["call_id"]] = row
        self.counts["tool_calls"] += not inherited

    def _close_call(self, key: int, index: int, result: ToolResult, inherited: bool) -> None:
        status = "error" if result.is_error else "ok"
        failed = result.is_error and not inherited
        answer = {
            "status": status,
            "duration_ms": result.duration_ms,
            "result_entry": key,
            "result_part": index,
        }
        call_id = column_text(result.call_id)
        waiting = self.open_calls.pop(call_id, None)
        if waiting is not None:
            waiting.update(answer)
            self.counts["errors"] += failed
            return
        stored = self.store.connection.execute(_OPEN_CALL, (self.session, call_id)).fetchone()
        if stored is not None and stored[0] not in {row[-1] for row in self.closed_calls}:
            self.closed_calls.append((status, result.duration_ms, key, index, column_text(result.name), stored[0]))
            self.counts["errors"] += failed
            return
        self.call_rows.append(self._call_row(call_id, result.name, "orphan", inherited) | answer | {"status": "orphan"})

    def _call_row(self, call_id: str, name: str, status: str, inherited: bool) -> dict[str, Any]:
        return {
            "session": self.session,
            "turn": self.turn,
            "call_id": column_text(call_id),
            "name": column_text(name),
            "status": status,
            "duration_ms": None,
            "entry": None,
            "part": None,
            "result_entry": None,
            "result_part": None,
            "inherited": inherited,
        }

    def _count(self, entry: NewEntry) -> None:
        if entry.inherited:
            return
        self.counts["entries"] += entry.kind != "header"
        if entry.role == "assistant" and entry.model:
            self.model = column_text(entry.model)
        if entry.tokens:
            for name, amount in zip(("input", "output", "cached"), entry.tokens, strict=True):
                self.counts[name] += exact_integer(amount, "token count")

    def write(self) -> range:
        if not self.entry_rows:
            return range(0)
        connection = self.store.connection
        if self.records:
            self.store.records.add(self.session, self.records)
        connection.executemany(_INSERT_ENTRY, self.entry_rows)
        if self.extended:
            connection.execute(_EXTEND_TURN, (*self.extended, self.session, self.opening_turn))
        connection.executemany(_INSERT_TURN, self.turn_rows)
        connection.executemany(_INSERT_CALL, self.call_rows)
        connection.executemany(_CLOSE_CALL, self.closed_calls)
        self.store.search.index(self.conversation, self.tools)
        changes = self.counts | {
            "session": self.session,
            "head": self.first,
            "tail": self.tail,
            "first_prompt": self.first_prompt,
            "model": self.model,
            "updated_at": self.last_at,
        }
        connection.execute(_UPDATE_SESSION, changes)
        return range(self.first, self.next)


def _is_plain(parts: Sequence[Part]) -> bool:
    """Most of what people and models say is one piece of text, and worth a shorter way."""
    return len(parts) == 1 and type(parts[0]) is Text


def _parts_column(entry: NewEntry, text: str) -> bytes | None:
    """NULL where the text column says it all. The exact form is in the record, where there is one."""
    if _is_plain(entry.parts) and entry.parts == (Text(text),):
        return None
    write = encode if entry.record is None else encode_derived
    return write([part_to_json(part) for part in entry.parts])
