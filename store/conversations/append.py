"""The one way into a chain: all rows of a batch in one transaction, so that none can tell of what is not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, repeat
from typing import TYPE_CHECKING, Any

from store.conversations.derive import DerivedRows, UnpairedResult, derive_rows
from store.errors import NotFound, Refused
from store.model.entry import NewEntry

if TYPE_CHECKING:
    from store.store import Store

_SELECT_CHAIN_END = """
    select sessions.tail, coalesce(entries.seq, -2), coalesce(entries.turn, 0),
        (select coalesce(max(key), 0) from entries), (select coalesce(max(key), 0) from records)
    from sessions left join entries on entries.key = sessions.tail where sessions.key = ?
"""
_INSERT_RECORD = """
    insert into records (key, session, place_key, position, digest, length, behind, block, start)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_ENTRY = """
    insert into entries (key, session, parent, seq, record, turn, kind, role, author, model, message_key, text, parts,
        inherited, tokens, created_at)
    values (?1 + ?14, ?15, case ?1 when 0 then nullif(?16, -1) else ?1 + ?14 - 1 end, ?1 + ?17, ?2 + ?18, ?3 + ?19,
        ?4, ?5, ?6, ?7, ?8, ?9, nullif(?10, ''), ?11, nullif(?12, ''), ?13)
"""
_INSERT_TURN = """
    insert into turns (session, n, entry, first_seq, last_seq, started_at, ended_at)
    values (?6, ?1 + ?7, ?2 + ?8, ?2 + ?9, ?3 + ?9, ?4, ?5)
"""
_INSERT_CALL = """
    insert into tool_calls (session, turn, call_id, name, status, duration_ms, entry, part, result_entry, result_part,
        inherited)
    values (?11, ?1 + ?12, ?2, ?3, ?4, nullif(?5, ''), ?6 + ?13, ?7, nullif(?8, '') + ?13, nullif(?9, ''), ?10)
"""
_EXTEND_TURN = "update turns set last_seq = ?, ended_at = max(ended_at, ?) where session = ? and n = ?"
_FIND_PENDING_CALL = """
    select key from tool_calls where session = ? and call_id = ? and status = 'pending' order by key desc limit 1
"""
_CLOSE_CALL = """
    update tool_calls set status = ?, duration_ms = ?, result_entry = ?, result_part = ?,
        name = case when name = '' then ? else name end where key = ?
"""
_INSERT_ORPHAN_RESULT = """
    insert into tool_calls (session, turn, call_id, name, status, duration_ms, result_entry, result_part, inherited)
    values (?, ?, ?, ?, 'orphan', ?, ?, ?, ?)
"""
_UPDATE_SESSION = """
    update sessions set tail = :tail, head = coalesce(head, :head),
        first_prompt = case when first_prompt = '' then :first_prompt else first_prompt end,
        turns = turns + :turns, entries = entries + :entries, tool_calls = tool_calls + :tool_calls,
        errors = errors + :errors, tokens_input = tokens_input + :input, tokens_output = tokens_output + :output,
        tokens_cached = tokens_cached + :cached, tokens_total = tokens_total + :input + :output + :cached,
        model = case when :model = '' then model else :model end, updated_at = max(updated_at, :updated_at)
    where key = :session
"""


def append_entries(store: Store, session: int, entries: Sequence[NewEntry], *, durable: bool = True) -> range:
    """Chain the entries to the session's tail; gives their keys."""
    return append_rows(store, session, derive_rows(entries), durable=durable)


def append_rows(store: Store, session: int, rows: DerivedRows, *, durable: bool = True) -> range:
    """The same for a batch that was made ready elsewhere."""
    if not rows.entries:
        return range(0)
    with store.transaction(durable=durable):
        return _BatchWriter(store, session).write(rows)


class _BatchWriter:
    """Where a batch begins. Its numbers go to SQLite with every row, which adds them: so the statements are always the
    same, and need not be understood anew for every batch."""

    def __init__(self, store: Store, session: int) -> None:
        self.store = store
        self.session = session
        state = store.connection.execute(_SELECT_CHAIN_END, (session,)).fetchone()
        if state is None:
            raise NotFound("That session is not in the store.")
        self.tail, last_seq, self.turn, last_entry, last_record = state
        self.seq, self.entry, self.record = last_seq + 1, last_entry + 1, last_record + 1

    def write(self, rows: DerivedRows) -> range:
        if rows.has_header != (self.tail is None):
            raise Refused("A chain begins with its one header and has no other.")
        many = self.store.connection.executemany
        if rows.records:
            many(_INSERT_RECORD, self._record_rows(rows))
        tail = -1 if self.tail is None else self.tail
        begins = (self.entry, self.session, tail, self.seq, self.record, self.turn)
        many(_INSERT_ENTRY, [row + begins for row in rows.entries])
        if rows.continued_turn and self.turn:
            last, ended = rows.continued_turn
            self.store.connection.execute(_EXTEND_TURN, (self.seq + last, ended, self.session, self.turn))
        places = (self.session, self.turn, self.entry, self.seq)
        many(_INSERT_TURN, [row + places for row in rows.turns])
        many(_INSERT_CALL, [row + places[:3] for row in rows.calls])
        errors = sum(self._pair_result(answer) for answer in rows.unpaired_results)
        self.store.search.queue_rows(
            [(self.entry + n, said) for n, said in rows.conversation_texts],
            [(self.entry + n, done) for n, done in rows.tool_texts],
        )
        self._update_session(rows, errors)
        return range(self.entry, self.entry + len(rows.entries))

    def _record_rows(self, rows: DerivedRows) -> Iterator[tuple[Any, ...]]:
        records = self.store.records
        places = [records.get_place_key(name) for name in rows.places]
        if rows.block is not None:
            lies: Iterator[tuple[int, int]] = zip(repeat(rows.block.key), rows.starts, strict=False)
        else:
            lies = map(records.open_pending_blocks().add_record, count(self.record), rows.record_data)
        for (n, place, *rest), where in zip(rows.records, lies, strict=True):
            yield self.record + n, self.session, places[place], *rest, *where

    def _pair_result(self, answer: UnpairedResult) -> bool:
        """To a call of an earlier batch, or to none. True when it tells of an error that counts."""
        connection = self.store.connection
        place = (answer.duration_ms, self.entry + answer.entry, answer.part)
        waiting = connection.execute(_FIND_PENDING_CALL, (self.session, answer.call_id)).fetchone()
        if waiting is None:
            told: tuple[Any, ...] = (self.session, self.turn + answer.turn, answer.call_id, answer.name)
            connection.execute(_INSERT_ORPHAN_RESULT, (*told, *place, answer.inherited))
            return False
        connection.execute(_CLOSE_CALL, (answer.status, *place, answer.name, waiting[0]))
        return answer.status == "error" and not answer.inherited

    def _update_session(self, rows: DerivedRows, errors: int) -> None:
        changes = rows.counts | {
            "errors": rows.counts["errors"] + errors,
            "session": self.session,
            "head": self.entry,
            "tail": self.entry + len(rows.entries) - 1,
            "first_prompt": rows.first_prompt,
            "model": rows.model,
            "updated_at": rows.updated_at,
        }
        self.store.connection.execute(_UPDATE_SESSION, changes)
