"""This module reads a long conversation as a screen needs it: first the outline of all turns, then single turns.

It also finds the entries that contain a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from store.conversations.entries import HEADER_TEXT, MAX_SEQ, TurnSpan
from store.conversations.tool_calls import load_result_record
from store.formats.exit_code import RECORD_DEPTH, find_exit_code
from store.formats.file_changes import find_recorded_diff, may_need_record
from store.model.entry import Entry, Json, PairedCall, Part, Tokens, ToolCall, ToolResult, Turn
from store.model.timeline import (
    EVENT_PREVIEW_LENGTH,
    SYNTHETIC_MODEL,
    EntryPosition,
    TimelineOutline,
    TurnOutline,
    is_bookkeeping,
    is_error_notice,
    mentions_failure,
)
from store.text.validate import encode, parse

if TYPE_CHECKING:
    from store.store import Store

PROMPT_PREVIEW_LENGTH = 240
PAGE_ENTRIES = 500
"""Is how many entries a search reads between two checks whether it was cancelled."""

_TURNS = """
    select turns.n, turns.first_seq, turns.last_seq, turns.started_at, turns.ended_at,
        substr(entries.text, 1, ?), entries.author
    from turns join entries on entries.session = turns.session and entries.seq = turns.first_seq
    where turns.session = ? order by turns.n
"""
_SPANS = """
    select n, first_seq, last_seq, started_at, ended_at from turns
    where session = ? and n in (select value from json_each(?))
"""
_FIRST_TURN_SEQ = f"select coalesce(min(first_seq), {MAX_SEQ}) from turns where session = ?"
_BEFORE_FIRST_TURN = "select max(seq), min(created_at), max(created_at) from entries where session = ? and seq < ?"
_CALLS_BY_TURN = "select turn, count(*), sum(status = 'error') from tool_calls where session = ? group by turn"
_TOKENS_OF_ENTRY = " + ".join(
    f"coalesce(json_extract(tokens, '$[{position}]'), 0)" for position in range(len(Tokens()))
)
_TOKENS_BY_TURN = f"""
    select turn, total(iif(tokens is null, 0, {_TOKENS_OF_ENTRY})), max(model) from entries
    where session = ? and (tokens is not null or model != '') group by turn
"""
_EVENTS = f"""
    select turn, kind, role, model, substr(text, 1, ?) from entries where session = ?
        and (kind = 'event' or (kind = 'message' and text != '' and (role = 'system' or model = '{SYNTHETIC_MODEL}')))
"""
_SUMMARY_UP_TO_TURN = "select up_to_turn from summaries where session = ? and current = 1"
_ENTRY_TEXTS = f"""
    select seq, turn, {HEADER_TEXT}, parts, record from entries where session = ? and seq between ? and ? order by seq
"""
_LAST_ENTRY_SEQ = "select coalesce(max(seq), -1) from entries where session = ?"


class Timelines:
    """Reads the timelines of sessions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def load_outline(self, session: int) -> TimelineOutline:
        rows = self._store.rows
        with self._store.snapshot():
            turns = rows(_TURNS, PROMPT_PREVIEW_LENGTH, session)
            (last_seq, started_at, ended_at), *_ = rows(_BEFORE_FIRST_TURN, session, turns[0][1] if turns else MAX_SEQ)
            calls = {turn: (count, failed) for turn, count, failed in rows(_CALLS_BY_TURN, session)}
            usage = {turn: (int(tokens), model) for turn, tokens, model in rows(_TOKENS_BY_TURN, session)}
            events = rows(_EVENTS, EVENT_PREVIEW_LENGTH + 1, session)
            summaries = rows(_SUMMARY_UP_TO_TURN, session)
            notes = tuple(self._store.notes.by_session_key(session))
        if last_seq is not None:
            turns.insert(0, (0, -1, last_seq, started_at, ended_at, "", ""))
        errors = {turn: failed for turn, (_, failed) in calls.items()}
        for turn, kind, role, model, text in events:
            if mentions_failure(text) if kind == "event" else is_error_notice(role, model, text):
                errors[turn] = errors.get(turn, 0) + 1
        return TimelineOutline(
            tuple(
                TurnOutline._make((n, *columns, calls.get(n, (0, 0))[0], errors.get(n, 0), *usage.get(n, (0, ""))))
                for n, *columns in turns
            ),
            (summaries[0][0] or 0) if summaries else 0,
            notes,
            sum(kind == "event" and is_bookkeeping(text) for _, kind, _, _, text in events),
        )

    def load_turns(self, session: int, numbers: Sequence[int]) -> list[Turn]:
        """Return the turns with these numbers in order. Turns that do not exist are left out."""
        with self._store.snapshot():
            rows = self._store.rows(_SPANS, session, encode(list(numbers)).decode())
            spans = list(map(TurnSpan._make, rows))
            if 0 in numbers:
                (first_seq,) = self._store.row(_FIRST_TURN_SEQ, session)
                last_seq, started_at, ended_at = self._store.row(_BEFORE_FIRST_TURN, session, first_seq)
                spans += [TurnSpan(0, -1, last_seq, started_at, ended_at)] if last_seq is not None else []
            return [self._load_turn(session, span) for span in sorted(spans)]

    def _load_turn(self, session: int, span: TurnSpan) -> Turn:
        entries = tuple(self._store.chains.entries(session, span.first_seq, span.last_seq))
        calls = _share_payloads(entries, self._store.chains.tool_calls(session, span.n))
        calls = tuple(self._add_recorded_details(session, call) for call in calls)
        return Turn(span.n, entries[0].text if span.n else "", span.started_at, span.ended_at, entries, calls)

    def _add_recorded_details(self, session: int, call: PairedCall) -> PairedCall:
        """Return a call with what only the record of its result says: the exit code of a failed one, or the line
        numbers of an edit."""
        if call.status == "error" and find_exit_code(call.result) is None:
            return call._replace(exit_code=find_exit_code(load_result_record(self._store, session, call), RECORD_DEPTH))
        if call.status == "ok" and may_need_record(call.arguments):
            return call._replace(recorded_diff=find_recorded_diff(load_result_record(self._store, session, call)))
        return call

    def find_text(
        self, session: int, pattern: re.Pattern[str], stop: Callable[[], bool] = lambda: False
    ) -> list[EntryPosition]:
        """Return the entries that show a match of the pattern, or that have a note with one, in order.

        Return the ones so far when `stop()` is true.
        """
        positions: list[EntryPosition] = []
        notes = self._store.notes.by_session_key(session)
        noted_seqs = {note.entry_seq for note in notes if pattern.search(note.signed_text)}
        (last_seq,) = self._store.row(_LAST_ENTRY_SEQ, session)
        for first_seq in range(-1, last_seq + 1, PAGE_ENTRIES):
            if stop():
                break
            page = self._store.rows(_ENTRY_TEXTS, session, first_seq, first_seq + PAGE_ENTRIES - 1)
            for seq, turn, text, parts, record in page:
                if (
                    seq in noted_seqs
                    or pattern.search(text)
                    or any(map(pattern.search, _iter_shown_texts(self._store.records.load_parts(parts, record))))
                ):
                    positions.append(EntryPosition(turn, seq))
        return positions


def _share_payloads(entries: Sequence[Entry], calls: Sequence[PairedCall]) -> tuple[PairedCall, ...]:
    """Let the calls share arguments and results with the entries, because a turn may have megabytes of them."""
    parts: dict[object, Part] = {
        (entry.seq, _call_id(part), type(part)): part for entry in entries for part in entry.parts
    }
    shared = []
    for call in calls:
        call_part = parts.get((_parse_seq(call.entry), call.call_id, ToolCall))
        result_part = parts.get((_parse_seq(call.result_entry), call.call_id, ToolResult))
        if isinstance(call_part, ToolCall) and call_part.arguments == call.arguments:
            call = call._replace(arguments=call_part.arguments)
        if isinstance(result_part, ToolResult) and result_part.output == call.result:
            call = call._replace(result=result_part.output)
        shared.append(call)
    return tuple(shared)


def _call_id(part: Part) -> str:
    return part.id if isinstance(part, ToolCall) else part.call_id if isinstance(part, ToolResult) else ""


def _parse_seq(entry: str | None) -> int | None:
    return int(entry.rpartition("#")[2]) if entry else None


def _iter_shown_texts(column: bytes | None) -> Iterator[str]:
    """Yield the texts of an entry's parts that a screen shows.

    They are read from the JSON, because creating the parts would take far longer.
    """
    for part in parse(column.decode()) if column else ():
        for name in _SHOWN_FIELDS.get(part.get("type"), ()):
            yield from iter_strings(part.get(name))


_SHOWN_FIELDS = {
    "text": ("text",),
    "thinking": ("text",),
    "tool_call": ("name", "arguments"),
    "tool_result": ("output",),
    "attachment": ("name",),
}


def iter_strings(value: Json, *, include_names: bool = False) -> Iterator[str]:
    """Yield every text in a JSON value, at any depth, and the field names if `include_names` is true."""
    stack: list[Any] = [value]
    while stack:
        match stack.pop():
            case str() as text:
                yield text
            case dict() as fields:
                stack += reversed([*fields, *fields.values()] if include_names else fields.values())
            case list() as items:
                stack += reversed(items)
            case None:
                pass
            case other:
                yield json.dumps(other)
