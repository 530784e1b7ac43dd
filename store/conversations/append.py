"""This module appends entries to a session. Nothing else writes new entries, apart from copying them to a fork.

All rows of a batch are written in one transaction, so that no row refers to one that is missing.

The rows come from `derive_rows` and count from the beginning of the batch. The numbers at which the batch begins are
appended to each row, and SQLite adds them. The statements are therefore the same for every batch, and SQLite prepares
them once. The rows are plain tuples, because an import writes millions of them; `DerivedRows` lists their columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, repeat
from typing import TYPE_CHECKING, Any

from store.conversations.derive import DerivedRows, UnpairedResult, derive_rows, find_duration
from store.errors import NotFound, Refused
from store.model.entry import NewEntry
from store.model.usage import USAGE_VERSION
from store.usage.rows import write_usage
from store.usage.session_totals import write_session_totals

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
# ?1 to ?13 are the columns of DerivedRows.entries; ?14 first key, ?15 session, ?16 tail of the chain or -1, ?17 first
# seq, ?18 first record, ?19 turn before the batch.
_INSERT_ENTRY = """
    insert into entries (key, session, parent, seq, record, turn, kind, role, author, model, message_key, text, parts,
        inherited, tokens, created_at)
    values (?1 + ?14, ?15, case ?1 when 0 then nullif(?16, -1) else ?1 + ?14 - 1 end, ?1 + ?17, ?2 + ?18, ?3 + ?19,
        ?4, ?5, ?6, ?7, ?8, ?9, nullif(?10, ''), ?11, nullif(?12, ''), ?13)
"""
# ?1 to ?5 are the columns of DerivedRows.turns; ?6 session, ?7 turn before the batch, ?8 first key, ?9 first seq.
_INSERT_TURN = """
    insert into turns (session, n, entry, first_seq, last_seq, started_at, ended_at)
    values (?6, ?1 + ?7, ?2 + ?8, ?2 + ?9, ?3 + ?9, ?4, ?5)
"""
# ?1 to ?10 are the columns of DerivedRows.calls; ?11 session, ?12 turn before the batch, ?13 first key.
_INSERT_CALL = """
    insert into tool_calls (session, turn, call_id, name, status, duration_ms, entry, part, result_entry, result_part,
        inherited)
    values (?11, ?1 + ?12, ?2, ?3, ?4, nullif(?5, ''), ?6 + ?13, ?7, nullif(?8, '') + ?13, nullif(?9, ''), ?10)
"""
_EXTEND_TURN = "update turns set last_seq = ?, ended_at = max(ended_at, ?) where session = ? and n = ?"
_FIND_PENDING_CALL = """
    select tool_calls.key, entries.created_at from tool_calls join entries on entries.key = tool_calls.entry
    where tool_calls.session = ? and call_id = ? and status = 'pending' order by tool_calls.key desc limit 1
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
        tokens_cached = tokens_cached + :cache_read + :cache_write,
        tokens_cache_write = tokens_cache_write + :cache_write,
        tokens_total = tokens_total + :input + :output + :cache_read + :cache_write,
        model = case when :model = '' then model else :model end,
        activity = case when :activity = '' or (activity = 'failed' and not :continues) then activity
            else :activity end,
        updated_at = max(updated_at, :updated_at),
        usage_version = case when head is null then :usage_version else usage_version end
    where key = :session
"""


def append_entries(store: Store, session: int, entries: Sequence[NewEntry], *, durable: bool = True) -> range:
    """Append the entries to the end of the session's chain, and return their keys."""
    return append_rows(store, session, derive_rows(entries), durable=durable)


def append_rows(store: Store, session: int, rows: DerivedRows, *, durable: bool = True) -> range:
    """Append a batch whose rows were derived before, perhaps in another process."""
    if not rows.entries:
        return range(0)
    with store.transaction(durable=durable):
        return _BatchWriter(store, session).write(rows)


class _BatchWriter:
    """Writes one batch. It holds the numbers at which the batch begins."""

    def __init__(self, store: Store, session: int) -> None:
        self.store = store
        self.session = session
        chain_end = store.connection.execute(_SELECT_CHAIN_END, (session,)).fetchone()
        if chain_end is None:
            raise NotFound("The session is no longer in the store.")
        self.tail, last_seq, self.last_turn, last_entry, last_record = chain_end
        self.first_seq, self.first_entry, self.first_record = last_seq + 1, last_entry + 1, last_record + 1

    def write(self, rows: DerivedRows) -> range:
        if rows.has_header != (self.tail is None):
            raise Refused("A session must begin with a header and can have only one.")
        executemany = self.store.connection.executemany
        if rows.records:
            executemany(_INSERT_RECORD, self._record_rows(rows))
        tail = -1 if self.tail is None else self.tail
        offsets = (self.first_entry, self.session, tail, self.first_seq, self.first_record, self.last_turn)
        executemany(_INSERT_ENTRY, [row + offsets for row in rows.entries])
        if rows.continued_turn and self.last_turn:
            last, ended_at = rows.continued_turn
            values = (self.first_seq + last, ended_at, self.session, self.last_turn)
            self.store.connection.execute(_EXTEND_TURN, values)
        turn_offsets = (self.session, self.last_turn, self.first_entry, self.first_seq)
        executemany(_INSERT_TURN, [row + turn_offsets for row in rows.turns])
        call_offsets = (self.session, self.last_turn, self.first_entry)
        executemany(_INSERT_CALL, [row + call_offsets for row in rows.calls])
        if rows.usage:
            write_usage(self.store.connection, self.session, self.first_entry, rows.usage)
        errors = sum(self._pair_result(result) for result in rows.unpaired_results)
        self.store.search.queue_rows(
            [(self.first_entry + n, text) for n, text in rows.conversation_texts],
            [(self.first_entry + n, text) for n, text in rows.tool_texts],
        )
        self._update_session(rows, errors)
        return range(self.first_entry, self.first_entry + len(rows.entries))

    def _record_rows(self, rows: DerivedRows) -> list[tuple[Any, ...]]:
        records = self.store.records
        place_keys = [records.get_place_key(name) for name in rows.places]
        if rows.block is not None:
            positions: Iterator[tuple[int, int]] = zip(repeat(rows.block.key), rows.starts, strict=False)
        else:
            positions = map(records.open_pending_blocks().add_record, count(self.first_record), rows.record_data)
        placed = zip(rows.records, positions, strict=True)
        first, session = self.first_record, self.session
        return [
            (first + n, session, place_keys[place], position, digest, length, behind, block, start)
            for (n, place, position, digest, length, behind), (block, start) in placed
        ]

    def _pair_result(self, result: UnpairedResult) -> bool:
        """Store the result with its pending call from an earlier batch, or without a call.

        Return whether the session has one more error.
        """
        connection = self.store.connection
        position = (self.first_entry + result.entry, result.part)
        pending = connection.execute(_FIND_PENDING_CALL, (self.session, result.call_id)).fetchone()
        if pending is None:
            identity = (self.session, self.last_turn + result.turn, result.call_id, result.name)
            connection.execute(_INSERT_ORPHAN_RESULT, (*identity, result.duration_ms, *position, result.inherited))
            return False
        call, called_at = pending
        duration = find_duration(result.duration_ms, called_at, result.answered_at)
        connection.execute(_CLOSE_CALL, (result.status, duration, *position, result.name, call))
        return result.status == "error" and not result.inherited

    def _update_session(self, rows: DerivedRows, errors: int) -> None:
        changes = rows.counts | {
            "errors": rows.counts["errors"] + errors,
            "session": self.session,
            "head": self.first_entry,
            "tail": self.first_entry + len(rows.entries) - 1,
            "first_prompt": rows.first_prompt,
            "model": rows.model,
            "activity": rows.activity,
            "continues": rows.continues,
            "updated_at": rows.updated_at,
            "usage_version": USAGE_VERSION,
        }
        self.store.connection.execute(_UPDATE_SESSION, changes)
        if rows.model and not rows.usage:
            write_session_totals(self.store.connection, self.session)  # the model is known only now
