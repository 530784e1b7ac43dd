"""This module reads tool calls together with their results.

A result can be of any length, so that a list of calls is read without the results.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from store.conversations.parts import decode_part, decode_parts
from store.errors import NotFound, StoreError
from store.model.entry import Json, PairedCall, Part, Status, ToolCall, ToolResult
from store.model.session import entry_id
from store.text.validate import decode

if TYPE_CHECKING:
    from store.store import Store

JOIN_CALL_ENTRIES = """
    left join entries as asked on asked.key = tool_calls.entry
    left join entries as answered on answered.key = tool_calls.result_entry
"""
"""Joins the entry with the call, as `asked`, and the entry with the result, as `answered`. Either may be missing."""

FROM_CALLS = f"from tool_calls join sessions on sessions.key = tool_calls.session {JOIN_CALL_ENTRIES}"

CALLED_AT = "coalesce(asked.created_at, answered.created_at)"
"""Is the time of a call, or of a result without a call."""

_CALL_COLUMNS = f"""
    select tool_calls.key, sessions.id, tool_calls.turn, tool_calls.call_id, tool_calls.name, tool_calls.status,
        tool_calls.duration_ms, asked.seq, answered.seq, {CALLED_AT} as at, asked.parts, asked.record, tool_calls.part
"""
_SELECT_CALLS = f"{_CALL_COLUMNS}, answered.parts, answered.record, tool_calls.result_part {FROM_CALLS}"
_SELECT_CALLS_WITHOUT_RESULTS = f"{_CALL_COLUMNS}, null, null, null {FROM_CALLS}"
_CHAIN_ORDER = """
    order by coalesce(asked.seq, answered.seq), coalesce(tool_calls.part, tool_calls.result_part), tool_calls.key
"""


class _CallRow(NamedTuple):
    """Holds the columns of `_SELECT_CALLS`."""

    key: int
    session_id: str
    turn: int
    call_id: str
    name: str
    status: Status
    duration_ms: float | None
    seq: int | None
    result_seq: int | None
    at: str
    parts: bytes | None
    record: int | None
    part: int | None
    "Is the index of the call among the parts of its entry."
    result_parts: bytes | None
    result_record: int | None
    result_part: int | None

    def to_paired_call(self, call: Part | None, result: Part | None) -> PairedCall:
        return PairedCall(
            self.key,
            self.session_id,
            self.turn,
            self.call_id,
            self.name,
            self.status,
            self.duration_ms,
            entry_id(self.session_id, self.seq) if self.seq is not None else None,
            entry_id(self.session_id, self.result_seq) if self.result_seq is not None else None,
            call.arguments if isinstance(call, ToolCall) else None,
            result.output if isinstance(result, ToolResult) else None,
            self.at,
        )


def select_calls(store: Store, clauses: str, *values: Any) -> list[PairedCall]:
    """Return the calls that `where` and further clauses of SQL select, with their arguments and results."""
    return [_load_call(store, _CallRow._make(row)) for row in store.rows(f"{_SELECT_CALLS} {clauses}", *values)]


def iter_session_calls(store: Store, session: int) -> Iterator[PairedCall]:
    """Yield the calls of a session in the order of the chain, with their arguments and without their results."""
    seq, parts = None, tuple[Part, ...]()
    for row in store.rows(f"{_SELECT_CALLS_WITHOUT_RESULTS} where tool_calls.session = ? {_CHAIN_ORDER}", session):
        call = _CallRow._make(row)
        if call.seq != seq or call.seq is None:  # the calls of one entry share its parts
            seq, parts = call.seq, decode_parts("", store.records.load_parts(call.parts, call.record))
        part = parts[call.part] if call.part is not None and call.part < len(parts) else None
        yield call.to_paired_call(part, None)


def get_call(store: Store, key: int) -> PairedCall:
    calls = select_calls(store, "where tool_calls.key = ?", key)
    if not calls:
        raise NotFound(f"No such tool call: {key}.")
    return calls[0]


def load_result_record(store: Store, session: int, call: PairedCall) -> Json:
    """Return what the agent recorded with the result of a call, or None if that is unknown or belongs to others too."""
    if call.result_entry is None:
        return None
    entry = store.chains.entry(session, int(call.result_entry.rpartition("#")[2]))
    is_alone = sum(isinstance(part, ToolResult) for part in entry.parts) == 1
    if entry.record is None or not is_alone:
        return None
    with suppress(StoreError):
        return decode(store.records.get(entry.record))
    return None


def _load_call(store: Store, row: _CallRow) -> PairedCall:
    load_parts = store.records.load_parts
    call = decode_part(load_parts(row.parts, row.record), row.part)
    result = decode_part(load_parts(row.result_parts, row.result_record), row.result_part)
    return row.to_paired_call(call, result)
