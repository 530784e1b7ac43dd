"""Entries into rows: turns, paired tool calls, what the search index holds, records. Pure.

All numbers count from the batch's own beginning; only the store knows where that is. So a batch can be made ready
anywhere, also in another process, while the one writer writes the batch before it.

The rows hold no None, no bool and no bytes: Python's driver asks around how to adapt each of those, which takes as long
as all else it does with a row. Empty text stands for null, a bytearray for bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from store.errors import Refused
from store.model.entry import UNKNOWN_USER, NewEntry, NewRecord, Text, Thinking, ToolCall, ToolResult, part_to_json
from store.search.index import INDEXED, conversation_text, tools_text
from store.text.unicode import search_text
from store.text.validate import column_text, encode, encode_derived, exact_integer, exact_text, now

if TYPE_CHECKING:
    from store.conversations.record_blocks import Parcel

PROMPT_SHOWN = 200
"""How much of the first prompt a session carries as its title of last resort."""

_USUAL = frozenset({"", "message", "event", "user", "assistant", "tool", "system", "header", "compaction", "unknown"})

SHORT = 64
"""Bytes of parts up to which they stand with their entry: to open a block for them would take longer."""


def shown_prompt(text: str) -> str:
    """As a title shows it."""
    return " ".join(text[: PROMPT_SHOWN * 4].split())[:PROMPT_SHOWN]


def derive(entries: Sequence[NewEntry]) -> Derived:
    deriving = _Deriving()
    for entry in entries:
        deriving.take(entry)
    return deriving.finish()


def digest_of(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


class _Deriving:
    def __init__(self) -> None:
        self.made = Derived()
        self._turn = 0
        self._counts = dict.fromkeys(("turns", "entries", "tool_calls", "errors", "input", "output", "cached"), 0)
        self._records: list[list[bytes]] = []
        "Each with what lies behind it."
        self._told: list[NewRecord] = []
        self._numbers: dict[int, int] = {}
        self._places: dict[str, int] = {}
        self._calls: list[list[Any]] = []
        self._open: dict[str, list[Any]] = {}

    def take(self, entry: NewEntry) -> None:
        made, n = self.made, len(self.made.entries)
        if entry.kind == "header":
            if n:
                raise Refused("A chain begins with its one header and has no other.")
            made.header = True
        at = entry.created_at or now()
        text = column_text(entry.reading_text())
        author = entry.author
        if entry.begins_turn():
            author = author or UNKNOWN_USER
            self._begin_turn(n, text, at, entry.inherited)
        elif made.turns:
            turn, first, _, started, ended = made.turns[-1]
            made.turns[-1] = (turn, first, n, started, max(ended, at))
        else:
            made.continued = (n, max(at, made.continued[1]) if made.continued else at)
        plain = len(entry.parts) == 1 and type(entry.parts[0]) is Text
        self._take_parts(n, entry, text, plain)
        if not entry.inherited:
            self._count(entry)
        if at > made.updated_at:
            made.updated_at = at
        record = self._record_number(entry.record)
        made.entries.append(
            (
                n,
                record,
                self._turn,
                entry.kind if entry.kind in _USUAL else exact_text(entry.kind, "kind"),
                entry.role if entry.role in _USUAL else exact_text(entry.role, "role"),
                author and column_text(author),
                entry.model and column_text(entry.model),
                entry.message_key and column_text(entry.message_key),
                text,
                "" if plain and entry.parts[0].text == text else self._parts(entry, record),  # type: ignore[union-attr]
                int(entry.inherited),
                encode_derived(list(entry.tokens)).decode() if entry.tokens else "",
                at,
            )
        )

    def _begin_turn(self, n: int, text: str, at: str, inherited: bool) -> None:
        self._turn += 1
        self._counts["turns"] += not inherited
        self.made.turns.append((self._turn, n, n, at, at))
        if not self.made.first_prompt:
            self.made.first_prompt = shown_prompt(text)

    def _record_number(self, record: NewRecord | None) -> int | None:
        if record is None:
            return None
        number = self._numbers.get(id(record))
        if number is None:
            number = self._numbers[id(record)] = len(self._records)
            self._records.append([record.data])
            self._told.append(record)
        return number

    def _parts(self, entry: NewEntry, record: int | None) -> bytearray:
        """Themselves, or where behind their record they lie. Thoughts are looked for when words are, and stay."""
        if not entry.parts:
            return bytearray(b"[]")
        parts = [part_to_json(part) for part in entry.parts]
        if record is None:
            return bytearray(encode(parts))
        # The exact form is in the record.
        column = encode_derived(parts)
        if len(column) <= SHORT or any(type(part) is Thinking for part in entry.parts):
            return bytearray(column)
        pieces = self._records[record]
        place = sum(map(len, pieces[1:]))
        pieces.append(column)
        return bytearray(b"[%d,%d]" % (place, len(column)))

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _take_parts(self, n: int, entry: NewEntry, text: str, plain: bool) -> None:
        indexed = entry.kind in INDEXED and not entry.inherited
        if plain:
            if indexed and text:
                self.made.conversation.append((n, search_text(text)))
            return
        for index, part in enumerate(entry.parts):
            if isinstance(part, ToolCall):
                self._open_call(n, index, part, entry.inherited)
            elif isinstance(part, ToolResult):
                self._close_call(n, index, part, entry.inherited)
        if indexed:
            if (said := conversation_text(text, entry.parts)) is not None:
                self.made.conversation.append((n, said))
            if (done := tools_text(entry.parts)) is not None:
                self.made.tools.append((n, done))

    def _open_call(self, n: int, index: int, call: ToolCall, inherited: bool) -> None:
        call_id = column_text(call.id)
        row = [self._turn, call_id, column_text(call.name), "pending", "", n, index, "", "", int(inherited)]
        self._calls.append(row)
        self._open[call_id] = row
        self._counts["tool_calls"] += not inherited

    def _close_call(self, n: int, index: int, result: ToolResult, inherited: bool) -> None:
        call_id = column_text(result.call_id)
        status = "error" if result.is_error else "ok"
        waiting = self._open.pop(call_id, None)
        if waiting is not None:
            waiting[3:5] = [status, "" if result.duration_ms is None else result.duration_ms]
            waiting[7:9] = [n, index]
            self._counts["errors"] += result.is_error and not inherited
            return
        name = column_text(result.name)
        self.made.answers.append(Answer(call_id, name, self._turn, status, result.duration_ms, n, index, inherited))

    def _count(self, entry: NewEntry) -> None:
        self._counts["entries"] += entry.kind != "header"
        if entry.model and entry.role == "assistant":
            self.made.model = column_text(entry.model)
        if entry.tokens:
            for name, amount in zip(("input", "output", "cached"), entry.tokens, strict=True):
                self._counts[name] += exact_integer(amount, "token count")

    # ── records ───────────────────────────────────────────────────────────────────────────────────

    def finish(self) -> Derived:
        self.made.calls = [tuple(row) for row in self._calls]
        self.made.counts = self._counts
        for number, (told, pieces) in enumerate(zip(self._told, self._records, strict=True)):
            place = self._places.setdefault(told.place, len(self._places))
            data = b"".join(pieces) if len(pieces) > 1 else told.data
            length, digest = len(told.data), bytearray(digest_of(told.data))
            self.made.records.append((number, place, told.position, digest, length, len(data) - length))
            self.made.data.append(data)
        self.made.places = list(self._places)
        return self.made


@dataclass(slots=True)
class Answer:
    "A result whose call stands before the batch, or nowhere."

    call_id: str
    name: str
    turn: int
    status: str
    duration_ms: float | None
    entry: int
    part: int
    inherited: bool


@dataclass(slots=True)
class Derived:
    "The rows of a batch of entries."

    entries: list[tuple[Any, ...]] = field(default_factory=list)
    "n, record, turn, kind, role, author, model, message key, text, parts, inherited, tokens, created"
    records: list[tuple[Any, ...]] = field(default_factory=list)
    "n, place, position, digest, length, behind; the place by its number"
    data: list[bytes] = field(default_factory=list)
    "Of each record, with what lies behind it; none where it lies in a parcel."
    parcel: Parcel | None = None
    starts: list[int] = field(default_factory=list)
    "Where in the parcel each record lies."
    places: list[str] = field(default_factory=list)
    turns: list[tuple[Any, ...]] = field(default_factory=list)
    "turn, first entry, last entry, started, ended; of the turns that begin here"
    continued: tuple[int, str] | None = None
    "The last entry, and its time, of the turn that was under way before."
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    "turn, call id, name, status, duration, entry, part, result entry, result part, inherited"
    answers: list[Answer] = field(default_factory=list)
    conversation: list[tuple[int, str]] = field(default_factory=list)
    tools: list[tuple[int, str]] = field(default_factory=list)
    header: bool = False
    first_prompt: str = ""
    model: str = ""
    updated_at: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    "turns, entries, tool_calls, errors, input, output, cached"
