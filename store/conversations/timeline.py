"""A long conversation read in the order in which a screen needs it: the outline of all its turns at once, the turns
themselves a few at a time, and where in it some words stand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from store.conversations.entries import MAX_SEQ
from store.model.entry import Entry, Json, PairedCall, Part, ToolCall, ToolResult, Turn
from store.model.timeline import EntryPosition, TimelineOutline, TurnOutline, mentions_failure
from store.text.validate import encode, parse

if TYPE_CHECKING:
    from store.store import Store

PROMPT_PREVIEW_LENGTH = 240
EVENT_PREVIEW_LENGTH = 400
"""Characters: how a prompt begins, and how much of an event tells whether something failed."""

PAGE_ENTRIES = 500
"""Entries looked through between two questions whether anybody still wants to know."""

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
_TOKENS_BY_TURN = """
    select turn, total(json_extract(tokens, '$[0]') + json_extract(tokens, '$[1]')), max(model) from entries
    where session = ? and (tokens is not null or model != '') group by turn
"""
_EVENTS = "select turn, substr(text, 1, ?) from entries where session = ? and kind = 'event' and text != ''"
_SUMMARY_UP_TO_TURN = "select up_to_turn from summaries where session = ? and current = 1"
_ENTRY_TEXTS = """
    select seq, turn, text, parts, record from entries where session = ? and seq between ? and ? order by seq
"""
_LAST_ENTRY_SEQ = "select coalesce(max(seq), -1) from entries where session = ?"


class Timelines:
    def __init__(self, store: Store) -> None:
        self._store = store

    def load_outline(self, session: int) -> TimelineOutline:
        rows = self._store.rows
        with self._store.snapshot():
            spans = rows(_TURNS, PROMPT_PREVIEW_LENGTH, session)
            (last, started, ended), *_ = rows(_BEFORE_FIRST_TURN, session, spans[0][1] if spans else MAX_SEQ)
            calls = {turn: (count, failed) for turn, count, failed in rows(_CALLS_BY_TURN, session)}
            spent = {turn: (int(tokens), model) for turn, tokens, model in rows(_TOKENS_BY_TURN, session)}
            events = [turn for turn, text in rows(_EVENTS, EVENT_PREVIEW_LENGTH, session) if mentions_failure(text)]
            covered = rows(_SUMMARY_UP_TO_TURN, session)
        if last is not None:
            spans.insert(0, (0, -1, last, started, ended, "", ""))
        failures = {turn: failed for turn, (_, failed) in calls.items()}
        for turn in events:
            failures[turn] = failures.get(turn, 0) + 1
        return TimelineOutline(
            tuple(
                TurnOutline._make(
                    (*span, calls.get(span[0], (0, 0))[0], failures.get(span[0], 0), *spent.get(span[0], (0, "")))
                )
                for span in spans
            ),
            (covered[0][0] or 0) if covered else 0,
        )

    def load_turns(self, session: int, numbers: Sequence[int]) -> list[Turn]:
        """Those of these numbers that there are, whole, as they stand now."""
        wanted = encode(list(numbers)).decode()
        with self._store.snapshot():
            spans = self._store.rows(_SPANS, session, wanted)
            if 0 in numbers:
                first = self._store.row(_FIRST_TURN_SEQ, session)
                (last, started, ended), *_ = self._store.rows(_BEFORE_FIRST_TURN, session, first[0])
                spans += [(0, -1, last, started, ended)] if last is not None else []
            return [self._load_turn(session, *span) for span in sorted(spans)]

    def _load_turn(self, session: int, n: int, first: int, last: int, started: str, ended: str) -> Turn:
        entries = tuple(self._store.chains.entries(session, first, last))
        calls = _share_payloads(entries, self._store.chains.tool_calls(session, n))
        return Turn(n, entries[0].text if n else "", started, ended, entries, calls)

    def find_text(
        self, session: int, words: re.Pattern[str], stop: Callable[[], bool] = lambda: False
    ) -> list[EntryPosition]:
        """Every entry in which the words are shown, in order; of those so far when nobody wants the rest."""
        found: list[EntryPosition] = []
        (last,) = self._store.row(_LAST_ENTRY_SEQ, session)
        for first in range(-1, last + 1, PAGE_ENTRIES):
            if stop():
                break
            for seq, turn, text, *parts in self._store.rows(_ENTRY_TEXTS, session, first, first + PAGE_ENTRIES - 1):
                if words.search(text) or any(
                    map(words.search, _iter_shown_texts(self._store.records.load_parts(*parts)))
                ):
                    found.append(EntryPosition(turn, seq))
        return found


def _share_payloads(entries: Sequence[Entry], calls: Sequence[PairedCall]) -> tuple[PairedCall, ...]:
    """Calls that hold the very arguments and results of the entries, not copies: a turn may have megabytes of them."""
    parts: dict[object, Part] = {
        (entry.seq, _call_id(part), type(part)): part for entry in entries for part in entry.parts
    }
    shared = []
    for call in calls:
        asked = parts.get((_parse_seq(call.entry), call.call_id, ToolCall))
        answered = parts.get((_parse_seq(call.result_entry), call.call_id, ToolResult))
        if isinstance(asked, ToolCall) and asked.arguments == call.arguments:
            call = call._replace(arguments=asked.arguments)
        if isinstance(answered, ToolResult) and answered.output == call.result:
            call = call._replace(result=answered.output)
        shared.append(call)
    return tuple(shared)


def _call_id(part: Part) -> str:
    return part.id if isinstance(part, ToolCall) else part.call_id if isinstance(part, ToolResult) else ""


def _parse_seq(entry: str | None) -> int | None:
    return int(entry.rpartition("#")[2]) if entry else None


def _iter_shown_texts(column: bytes | None) -> Iterator[str]:
    """What a person is shown of an entry's parts. Off the JSON itself: making parts of it all would take far longer."""
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
    """Every text in a JSON value, whatever it is wrapped in; the names of its fields, too, where they count."""
    left: list[Any] = [value]
    while left:
        match left.pop():
            case str() as text:
                yield text
            case dict() as table:
                left += reversed([*table, *table.values()] if include_names else table.values())
            case list() as items:
                left += reversed(items)
            case None:
                pass
            case other:
                yield json.dumps(other)
