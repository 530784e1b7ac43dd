"""This module reads two things of the store and compares them: sessions, turns, entries, calls, summaries, facts, or an
edit before and after.

A thing is named by a reference: the id of a session; `ID#12` for an entry and `ID#12.1` for one part of it; `ID#t3` for
turn 3; `ID#s5` for version 5 of the summary; `fact:7` for a fact and `fact:7@12` for its text after edit 12;
`edit:12:before` and `edit:12:after` for what an edit changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from store.conversations.timeline import Timelines
from store.edits.diff import diff_foreign_rows, diff_own_rows, find_summary_texts
from store.edits.labels import label_edit
from store.errors import BadValue, NotFound, StoreError
from store.formats.comparison import (
    AlignedTurns,
    Block,
    Comparison,
    Section,
    TurnKey,
    align_turns,
    compare_blocks,
    describe_turn,
    list_call_blocks,
    list_entry_blocks,
    list_prompt_words,
)
from store.model.entry import ToolCall, ToolResult
from store.model.session import Session, entry_id
from store.text.sanitize import one_line

if TYPE_CHECKING:
    from store.model.entry import PairedCall
    from store.store import Store

MAX_DETAILED_TURNS = 200
"""Limits the turns whose texts are compared. Of the others, only the prompts are shown."""

TURNS_PER_PAGE = 50
_MAX_TITLE = 60

_PLACE = re.compile(
    r"(?P<id>.+)#(?:(?P<seq>-?\d{1,9})(?:\.(?P<part>\d{1,6}))?|t(?P<turn>\d{1,9})|s(?P<summary>\d{1,9}))"
)
_FACT = re.compile(r"fact:(\d{1,9})(?:@(\d{1,9}))?")
_EDIT = re.compile(r"edit:(\d{1,9}):(before|after)")
_TURN_RECORDS = "select turn, record from entries where session = ? and turn > 0 order by seq"

Progress = Callable[[int, int], object]
"""Is called with the number of turns that are read, and the number of all turns."""


class Side(NamedTuple):
    """Is one of two things that are compared."""

    title: str
    blocks: Sequence[Block]
    session: Session | None = None
    "Is the session, if the whole session is compared. It has no blocks then."


def compare(
    store: Store,
    left: str,
    right: str,
    *,
    progress: Progress = lambda done, total: None,
) -> Comparison:
    """Compare two things. A long comparison of two sessions tells its progress."""
    sides = read_side(store, left), read_side(store, right)
    sessions = [side.session for side in sides if side.session is not None]
    titles = [side.title for side in sides]
    if len(sessions) == 2:
        return _SessionComparison(store, sessions[0], sessions[1], progress).run()
    if sessions:
        raise BadValue("A session can only be compared with a session. Name two turns or entries, e.g. `ID#t3`.")
    sections = compare_blocks(sides[0].blocks, sides[1].blocks)
    return Comparison(titles[0], titles[1], sections)


def read_side(store: Store, reference: str) -> Side:
    """Read what a reference names. A session is not read yet."""
    with suppress(StoreError):
        session = store.sessions.get(reference)
        return Side(_name_session(session), (), session)
    if match := _FACT.fullmatch(reference):
        return _read_fact(store, int(match[1]), int(match[2]) if match[2] else None)
    if match := _EDIT.fullmatch(reference):
        return _read_edit(store, int(match[1]), is_after=match[2] == "after")
    if match := _PLACE.fullmatch(reference):
        return _read_place(store, match)
    session = store.sessions.find(reference)
    return Side(_name_session(session), (), session)


def _name_session(session: Session) -> str:
    return one_line(session.plain_title or session.id, _MAX_TITLE)


def _read_place(store: Store, place: re.Match[str]) -> Side:
    session = store.sessions.find(place["id"])
    name = _name_session(session)
    if place["turn"]:
        turn = store.chains.turns(session.key, int(place["turn"]))[0]
        block = Block("turn", describe_turn(turn), entry_id(session.id, turn.entries[0].seq))
        return Side(f"turn {turn.n} of {name}", [block])
    if place["summary"]:
        versions = {version.key: version for version in store.summaries.history(session)}
        if (version := versions.get(int(place["summary"]))) is None:
            raise NotFound(f"No such version of the summary: {place['summary']}.")
        return Side(f"summary, version {version.key}, of {name}", [Block("summary", version.text)])
    return _read_entry(store, session, int(place["seq"]), int(place["part"]) if place["part"] else None)


def _read_entry(store: Store, session: Session, seq: int, part: int | None) -> Side:
    entry = store.chains.entry(session.key, seq)
    calls = {call.call_id: call for call in store.chains.tool_calls(session.key, entry.turn)}
    place = entry_id(session.id, seq)
    title = f"{place.rpartition('#')[2]} of turn {entry.turn}, {_name_session(session)}"
    if part is None:
        parts = [chosen for chosen in entry.parts if isinstance(chosen, ToolCall)]
        if len(parts) != 1 or len(entry.parts) != 1:
            return Side(f"entry {title}", list_entry_blocks(entry, place, calls))
        part = 0
    if part >= len(entry.parts):
        raise NotFound(f"No such part: {part}. The entry has {len(entry.parts)}.")
    chosen = entry.parts[part]
    call = _find_call(chosen, calls)
    if call is not None:
        return Side(f"{one_line(call.name, 40)} in turn {entry.turn}, {_name_session(session)}", list_call_blocks(call))
    return Side(f"entry {title}", list_entry_blocks(entry._replace(parts=(chosen,)), place, calls))


def _find_call(part: object, calls: dict[str, PairedCall]) -> PairedCall | None:
    match part:
        case ToolCall(call_id) | ToolResult(call_id):
            return calls.get(call_id)
    return None


def _read_fact(store: Store, number: int, edit: int | None) -> Side:
    if edit is None:
        return Side(f"fact {number}", [Block("fact", store.facts.get(number).text)])
    texts = [text for made, text in _iter_fact_texts(store, number) if made <= edit]
    if not texts:
        raise NotFound(f"Fact {number} has no text after edit {edit}. Run `backscroll facts history {number}`.")
    return Side(f"fact {number} after edit {edit}", [Block("fact", texts[-1])])


def list_fact_versions(store: Store, number: int) -> list[int]:
    """Return the edits that gave a fact another text, oldest first."""
    return [edit for edit, _ in _iter_fact_texts(store, number)]


def _iter_fact_texts(store: Store, number: int) -> Iterator[tuple[int, str]]:
    for edit in store.facts.history(number):
        for change in edit.changes:
            if change.table == "facts" and change.key == number and change.after and "text" in change.after:
                yield edit.id, str(change.after["text"])


def _read_edit(store: Store, number: int, *, is_after: bool) -> Side:
    edit = store.journal.get(number)
    summary = find_summary_texts(edit, label_edit(store, edit).summaries)
    blocks = [Block("summary", summary[is_after])] if summary is not None else []
    blocks += [
        Block(f"{change.table} {change.key} {change.column}", change.new if is_after else change.old)
        for change in (*diff_own_rows(edit), *diff_foreign_rows(edit))
        if summary is None or change.table != "summaries"
    ]
    return Side(f"{'after' if is_after else 'before'} edit {number}", blocks)


# ── two sessions ──────────────────────────────────────────────────────────────────────────────────


class _SessionComparison:
    def __init__(self, store: Store, left: Session, right: Session, progress: Progress) -> None:
        self._store = store
        self._sessions = left, right
        self._timelines = Timelines(store)
        self._progress = progress
        self._notes: list[str] = []

    def run(self) -> Comparison:
        with self._store.snapshot():
            records = [self._read_records(session) for session in self._sessions]
            known = self._count_shared_turns(*records)
            total = sum(map(len, records))
            keys = [self._read_keys(n, records[n], known, total) for n in range(2)]
            sections = tuple(self._build_sections(align_turns(*keys), keys))
        left, right = map(_name_session, self._sessions)
        if left == right:
            left, right = (f"{left} ({session.id})" for session in self._sessions)
        return Comparison(left, right, sections, tuple(self._notes))

    def _read_records(self, session: Session) -> dict[int, list[int | None]]:
        """Return the records of each turn. Turns with the same records are the same."""
        records: dict[int, list[int | None]] = {}
        for turn, record in self._store.rows(_TURN_RECORDS, session.key):
            records.setdefault(turn, []).append(record)
        return records

    def _count_shared_turns(self, left: dict[int, list[int | None]], right: dict[int, list[int | None]]) -> int:
        """Count the turns at the beginning that are shared. The turns of a fork need not be read for that."""
        shared = 0
        while left.get(shared + 1) is not None and left.get(shared + 1) == right.get(shared + 1):
            if None in left[shared + 1]:
                break
            shared += 1
        return shared

    def _read_keys(self, side: int, records: dict[int, list[int | None]], known: int, total: int) -> list[TurnKey]:
        keys = [TurnKey(n, ("shared", n), ("shared", n)) for n in records if n <= known]
        unknown = [n for n in records if n > known]
        read = side * (total - len(records))
        for start in range(0, len(unknown), TURNS_PER_PAGE):
            for turn in self._timelines.load_turns(self._sessions[side].key, unknown[start : start + TURNS_PER_PAGE]):
                # The texts are not kept. A hash of 64 bits is different for different texts, except on purpose.
                words = list_prompt_words(turn.prompt)
                keys.append(TurnKey(turn.n, hash(turn.prompt), hash(describe_turn(turn)), words))
            self._progress(read + len(keys), total)
        return keys

    def _build_sections(self, aligned: Sequence[AlignedTurns], keys: Sequence[Sequence[TurnKey]]) -> Iterator[Section]:
        room = MAX_DETAILED_TURNS
        for kind, left, right in aligned:
            numbers = [[side[n].n for n in found] for side, found in zip(keys, (left, right), strict=True)]
            if kind == "shared":
                blocks = [self._make_block(n, found[0]) for n, found in enumerate(numbers)]
                yield Section(kind, blocks[0], blocks[1], len(left))
                continue
            room -= len(left) + len(right)
            texts = [self._make_block(n, found[0], room >= 0) if found else None for n, found in enumerate(numbers)]
            yield Section(kind, texts[0], texts[1], is_detailed=room >= 0)
        if room < 0:
            self._notes.append(f"Only the first {MAX_DETAILED_TURNS} different turns are compared in full.")

    def _make_block(self, side: int, number: int, with_text: bool | None = None) -> Block:
        """Make the block of a turn: with its text, with its prompt only, or without any text."""
        session = self._sessions[side]
        if with_text is None:
            return Block(f"turn {number}", "")
        (turn,) = self._timelines.load_turns(session.key, [number])
        text = describe_turn(turn) if with_text else one_line(turn.prompt, 200)
        return Block(f"turn {number}", text, entry_id(session.id, turn.entries[0].seq))
