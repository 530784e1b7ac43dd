"""The tool calls of one session to look through: all of them without their results, or a single one whole.

A result can be of any length. Whoever lists calls wants to know what was done to what, and how it ended; only the one
that is looked at is read with what came of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from store.conversations.entries import build_paired_call, decode_parts
from store.errors import NotFound
from store.model.entry import PairedCall, Part

if TYPE_CHECKING:
    from store.store import Store

_CALL_COLUMNS = """
    select tool_calls.key, sessions.id, tool_calls.turn, tool_calls.call_id, tool_calls.name, tool_calls.status,
        tool_calls.duration_ms, asked.seq, answered.seq, coalesce(asked.created_at, answered.created_at),
        asked.key, asked.text, asked.parts, asked.record, tool_calls.part
"""
_RESULT_COLUMNS = ", answered.text, answered.parts, answered.record, tool_calls.result_part"
_FROM_CALLS = """
    from tool_calls join sessions on sessions.key = tool_calls.session
    left join entries as asked on asked.key = tool_calls.entry
    left join entries as answered on answered.key = tool_calls.result_entry
"""
_CHAIN_ORDER = """
    order by coalesce(asked.seq, answered.seq), coalesce(tool_calls.part, tool_calls.result_part), tool_calls.key
"""


def iter_session_calls(store: Store, session: int) -> Iterator[PairedCall]:
    """In the order of the chain, each with its arguments and without its result."""
    last, parts = None, tuple[Part, ...]()
    for row in store.rows(f"{_CALL_COLUMNS} {_FROM_CALLS} where tool_calls.session = ? {_CHAIN_ORDER}", session):
        *_, asked, text, column, record, part = row
        if asked != last or asked is None:  # many calls of one entry share its parts
            last, parts = asked, _load_parts(store, text, column, record)
        yield build_paired_call(row[:9], row[9], _part_at(parts, part), None)


def get_call(store: Store, key: int) -> PairedCall:
    row = store.row(f"{_CALL_COLUMNS} {_RESULT_COLUMNS} {_FROM_CALLS} where tool_calls.key = ?", key)
    if row is None:
        raise NotFound(f"There is no tool call {key}.")
    *asked, part = row[11:15]
    *answered, result_part = row[15:]
    call, result = _part_at(_load_parts(store, *asked), part), _part_at(_load_parts(store, *answered), result_part)
    return build_paired_call(row[:9], row[9], call, result)


def _load_parts(store: Store, text: str | None, column: bytes | None, record: int | None) -> tuple[Part, ...]:
    return () if text is None else decode_parts(text, store.records.load_parts(column, record))


def _part_at(parts: Sequence[Part], index: int | None) -> Part | None:
    return parts[index] if index is not None and index < len(parts) else None
