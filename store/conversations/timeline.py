"""A long conversation read in the order in which a screen needs it: the outline of all its turns at once, the turns
themselves a few at a time, and where in it some words stand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from store.conversations.entries import LAST_SEQ
from store.model.entry import Entry, Json, PairedCall, Part, ToolCall, ToolResult, Turn
from store.model.timeline import Outline, Place, TurnOutline, tells_failure
from store.text.validate import encode, parse

if TYPE_CHECKING:
    from store.store import Store

PROMPT_SHOWN = 240
EVENT_READ = 400
"""Characters: how a prompt begins, and how much of an event tells whether something failed."""

PAGE = 500
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
_FIRST = f"select coalesce(min(first_seq), {LAST_SEQ}) from turns where session = ?"
_BEFORE = "select max(seq), min(created_at), max(created_at) from entries where session = ? and seq < ?"
_CALLS = "select turn, count(*), sum(status = 'error') from tool_calls where session = ? group by turn"
_SPENT = """
    select turn, total(json_extract(tokens, '$[0]') + json_extract(tokens, '$[1]')), max(model) from entries
    where session = ? and (tokens is not null or model != '') group by turn
"""
_EVENTS = "select turn, substr(text, 1, ?) from entries where session = ? and kind = 'event' and text != ''"
_COVERED = "select up_to_turn from summaries where session = ? and current = 1"
_TEXTS = """
    select seq, turn, text, parts, record from entries where session = ? and seq between ? and ? order by seq
"""
_LAST = "select coalesce(max(seq), -1) from entries where session = ?"


class Outlines:
    def __init__(self, store: Store) -> None:
        self._store = store

    def outline(self, session: int) -> Outline:
        rows = self._store.rows
        with self._store.snapshot():
            spans = rows(_TURNS, PROMPT_SHOWN, session)
            (last, started, ended), *_ = rows(_BEFORE, session, spans[0][1] if spans else LAST_SEQ)
            calls = {turn: (count, failed) for turn, count, failed in rows(_CALLS, session)}
            spent = {turn: (int(tokens), model) for turn, tokens, model in rows(_SPENT, session)}
            events = [turn for turn, text in rows(_EVENTS, EVENT_READ, session) if tells_failure(text)]
            covered = rows(_COVERED, session)
        if last is not None:
            spans.insert(0, (0, -1, last, started, ended, "", ""))
        failures = {turn: failed for turn, (_, failed) in calls.items()}
        for turn in events:
            failures[turn] = failures.get(turn, 0) + 1
        return Outline(
            tuple(
                TurnOutline._make(
                    (*span, calls.get(span[0], (0, 0))[0], failures.get(span[0], 0), *spent.get(span[0], (0, "")))
                )
                for span in spans
            ),
            (covered[0][0] or 0) if covered else 0,
        )

    def turns(self, session: int, numbers: Sequence[int]) -> list[Turn]:
        """Those of these numbers that there are, whole, as they stand now."""
        wanted = encode(list(numbers)).decode()
        with self._store.snapshot():
            spans = self._store.rows(_SPANS, session, wanted)
            if 0 in numbers:
                first = self._store.row(_FIRST, session)
                (last, started, ended), *_ = self._store.rows(_BEFORE, session, first[0])
                spans += [(0, -1, last, started, ended)] if last is not None else []
            return [self._turn(session, *span) for span in sorted(spans)]

    def _turn(self, session: int, n: int, first: int, last: int, started: str, ended: str) -> Turn:
        entries = tuple(self._store.chains.entries(session, first, last))
        calls = _sharing(entries, self._store.chains.tool_calls(session, n))
        return Turn(n, entries[0].text if n else "", started, ended, entries, calls)

    def find(self, session: int, words: re.Pattern[str], stop: Callable[[], bool] = lambda: False) -> list[Place]:
        """Every entry in which the words are shown, in order; of those so far when nobody wants the rest."""
        found: list[Place] = []
        (last,) = self._store.row(_LAST, session)
        for first in range(-1, last + 1, PAGE):
            if stop():
                break
            for seq, turn, text, *parts in self._store.rows(_TEXTS, session, first, first + PAGE - 1):
                if words.search(text) or any(map(words.search, _shown(self._store.records.parts(*parts)))):
                    found.append(Place(turn, seq))
        return found


def _sharing(entries: Sequence[Entry], calls: Sequence[PairedCall]) -> tuple[PairedCall, ...]:
    """Calls that hold the very arguments and results of the entries, not copies: a turn may have megabytes of them."""
    parts: dict[object, Part] = {
        (entry.seq, _call_id(part), type(part)): part for entry in entries for part in entry.parts
    }
    shared = []
    for call in calls:
        asked = parts.get((_seq(call.entry), call.call_id, ToolCall))
        answered = parts.get((_seq(call.result_entry), call.call_id, ToolResult))
        if isinstance(asked, ToolCall) and asked.arguments == call.arguments:
            call = call._replace(arguments=asked.arguments)
        if isinstance(answered, ToolResult) and answered.output == call.result:
            call = call._replace(result=answered.output)
        shared.append(call)
    return tuple(shared)


def _call_id(part: Part) -> str:
    return part.id if isinstance(part, ToolCall) else part.call_id if isinstance(part, ToolResult) else ""


def _seq(entry: str | None) -> int | None:
    return int(entry.rpartition("#")[2]) if entry else None


def _shown(column: bytes | None) -> Iterator[str]:
    """What a person is shown of an entry's parts. Off the JSON itself: making parts of it all would take far longer."""
    for part in parse(column.decode()) if column else ():
        for name in _TOLD.get(part.get("type"), ()):
            yield from strings(part.get(name))


_TOLD = {
    "text": ("text",),
    "thinking": ("text",),
    "tool_call": ("name", "arguments"),
    "tool_result": ("output",),
    "attachment": ("name",),
}


def strings(value: Json, *, names: bool = False) -> Iterator[str]:
    """Every text in a JSON value, whatever it is wrapped in; the names of its fields, too, where they count."""
    left: list[Any] = [value]
    while left:
        match left.pop():
            case str() as text:
                yield text
            case dict() as table:
                left += reversed([*table, *table.values()] if names else table.values())
            case list() as items:
                left += reversed(items)
            case None:
                pass
            case other:
                yield json.dumps(other)
