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
from store.search.index import INDEXED_KINDS, conversation_text, tools_text
from store.text.unicode import separate_cjk
from store.text.validate import (
    encode,
    encode_derived,
    replace_surrogates,
    utc_timestamp,
    validate_integer,
    validate_text,
)

if TYPE_CHECKING:
    from store.conversations.record_blocks import PrebuiltBlock

PROMPT_TITLE_LENGTH = 200
"""How much of the first prompt a session carries as its title of last resort."""

_COMMON_NAMES = frozenset(
    {"", "message", "event", "user", "assistant", "tool", "system", "header", "compaction", "unknown"}
)

MAX_INLINE_PARTS_BYTES = 64
"""Bytes of parts up to which they stand with their entry: to open a block for them would take longer."""


def prompt_title(text: str) -> str:
    """As a title shows it."""
    return " ".join(text[: PROMPT_TITLE_LENGTH * 4].split())[:PROMPT_TITLE_LENGTH]


def derive_rows(entries: Sequence[NewEntry]) -> DerivedRows:
    deriving = _RowBuilder()
    for entry in entries:
        deriving.add(entry)
    return deriving.build()


def compute_digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


class _RowBuilder:
    def __init__(self) -> None:
        self.rows = DerivedRows()
        self._turn = 0
        self._counts = dict.fromkeys(("turns", "entries", "tool_calls", "errors", "input", "output", "cached"), 0)
        self._record_pieces: list[list[bytes]] = []
        "Each with what lies behind it."
        self._new_records: list[NewRecord] = []
        self._numbers_by_identity: dict[int, int] = {}
        self._places: dict[str, int] = {}
        self._calls: list[list[Any]] = []
        self._open_calls: dict[str, list[Any]] = {}

    def add(self, entry: NewEntry) -> None:
        made, n = self.rows, len(self.rows.entries)
        if entry.kind == "header":
            if n:
                raise Refused("A chain begins with its one header and has no other.")
            made.has_header = True
        at = entry.created_at or utc_timestamp()
        text = replace_surrogates(entry.get_text())
        author = entry.author
        if entry.begins_turn():
            author = author or UNKNOWN_USER
            self._begin_turn(n, text, at, entry.inherited)
        elif made.turns:
            turn, first, _, started, ended = made.turns[-1]
            made.turns[-1] = (turn, first, n, started, max(ended, at))
        else:
            made.continued_turn = (n, max(at, made.continued_turn[1]) if made.continued_turn else at)
        plain = len(entry.parts) == 1 and type(entry.parts[0]) is Text
        self._add_parts(n, entry, text, plain)
        if not entry.inherited:
            self._add_to_counts(entry)
        if at > made.updated_at:
            made.updated_at = at
        record = self._number_record(entry.record)
        made.entries.append(
            (
                n,
                record,
                self._turn,
                entry.kind if entry.kind in _COMMON_NAMES else validate_text(entry.kind, "kind"),
                entry.role if entry.role in _COMMON_NAMES else validate_text(entry.role, "role"),
                author and replace_surrogates(author),
                entry.model and replace_surrogates(entry.model),
                entry.message_key and replace_surrogates(entry.message_key),
                text,
                "" if plain and entry.parts[0].text == text else self._encode_parts(entry, record),  # type: ignore[union-attr]
                int(entry.inherited),
                encode_derived(list(entry.tokens)).decode() if entry.tokens else "",
                at,
            )
        )

    def _begin_turn(self, n: int, text: str, at: str, inherited: bool) -> None:
        self._turn += 1
        self._counts["turns"] += not inherited
        self.rows.turns.append((self._turn, n, n, at, at))
        if not self.rows.first_prompt:
            self.rows.first_prompt = prompt_title(text)

    def _number_record(self, record: NewRecord | None) -> int | None:
        if record is None:
            return None
        number = self._numbers_by_identity.get(id(record))
        if number is None:
            number = self._numbers_by_identity[id(record)] = len(self._record_pieces)
            self._record_pieces.append([record.data])
            self._new_records.append(record)
        return number

    def _encode_parts(self, entry: NewEntry, record: int | None) -> bytearray:
        """Themselves, or where behind their record they lie. Thoughts are looked for when words are, and stay."""
        if not entry.parts:
            return bytearray(b"[]")
        parts = [part_to_json(part) for part in entry.parts]
        if record is None:
            return bytearray(encode(parts))
        # The exact form is in the record.
        column = encode_derived(parts)
        if len(column) <= MAX_INLINE_PARTS_BYTES or any(type(part) is Thinking for part in entry.parts):
            return bytearray(column)
        pieces = self._record_pieces[record]
        place = sum(map(len, pieces[1:]))
        pieces.append(column)
        return bytearray(b"[%d,%d]" % (place, len(column)))

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _add_parts(self, n: int, entry: NewEntry, text: str, plain: bool) -> None:
        indexed = entry.kind in INDEXED_KINDS and not entry.inherited
        if plain:
            if indexed and text:
                self.rows.conversation_texts.append((n, separate_cjk(text)))
            return
        for index, part in enumerate(entry.parts):
            if isinstance(part, ToolCall):
                self._open_call(n, index, part, entry.inherited)
            elif isinstance(part, ToolResult):
                self._close_call(n, index, part, entry.inherited)
        if indexed:
            if (said := conversation_text(text, entry.parts)) is not None:
                self.rows.conversation_texts.append((n, said))
            if (done := tools_text(entry.parts)) is not None:
                self.rows.tool_texts.append((n, done))

    def _open_call(self, n: int, index: int, call: ToolCall, inherited: bool) -> None:
        call_id = replace_surrogates(call.id)
        row = [self._turn, call_id, replace_surrogates(call.name), "pending", "", n, index, "", "", int(inherited)]
        self._calls.append(row)
        self._open_calls[call_id] = row
        self._counts["tool_calls"] += not inherited

    def _close_call(self, n: int, index: int, result: ToolResult, inherited: bool) -> None:
        call_id = replace_surrogates(result.call_id)
        status = "error" if result.is_error else "ok"
        waiting = self._open_calls.pop(call_id, None)
        if waiting is not None:
            waiting[3:5] = [status, "" if result.duration_ms is None else result.duration_ms]
            waiting[7:9] = [n, index]
            self._counts["errors"] += result.is_error and not inherited
            return
        name = replace_surrogates(result.name)
        self.rows.unpaired_results.append(
            UnpairedResult(call_id, name, self._turn, status, result.duration_ms, n, index, inherited)
        )

    def _add_to_counts(self, entry: NewEntry) -> None:
        self._counts["entries"] += entry.kind != "header"
        if entry.model and entry.role == "assistant":
            self.rows.model = replace_surrogates(entry.model)
        if entry.tokens:
            for name, amount in zip(("input", "output", "cached"), entry.tokens, strict=True):
                self._counts[name] += validate_integer(amount, "token count")

    # ── records ───────────────────────────────────────────────────────────────────────────────────

    def build(self) -> DerivedRows:
        self.rows.calls = [tuple(row) for row in self._calls]
        self.rows.counts = self._counts
        for number, (told, pieces) in enumerate(zip(self._new_records, self._record_pieces, strict=True)):
            place = self._places.setdefault(told.place, len(self._places))
            data = b"".join(pieces) if len(pieces) > 1 else told.data
            length, digest = len(told.data), bytearray(compute_digest(told.data))
            self.rows.records.append((number, place, told.position, digest, length, len(data) - length))
            self.rows.record_data.append(data)
        self.rows.places = list(self._places)
        return self.rows


@dataclass(slots=True)
class UnpairedResult:
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
class DerivedRows:
    "The rows of a batch of entries."

    entries: list[tuple[Any, ...]] = field(default_factory=list)
    "n, record, turn, kind, role, author, model, message key, text, parts, inherited, tokens, created"
    records: list[tuple[Any, ...]] = field(default_factory=list)
    "n, place, position, digest, length, behind; the place by its number"
    record_data: list[bytes] = field(default_factory=list)
    "Of each record, with what lies behind it; none where it lies in a parcel."
    block: PrebuiltBlock | None = None
    starts: list[int] = field(default_factory=list)
    "Where in the parcel each record lies."
    places: list[str] = field(default_factory=list)
    turns: list[tuple[Any, ...]] = field(default_factory=list)
    "turn, first entry, last entry, started, ended; of the turns that begin here"
    continued_turn: tuple[int, str] | None = None
    "The last entry, and its time, of the turn that was under way before."
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    "turn, call id, name, status, duration, entry, part, result entry, result part, inherited"
    unpaired_results: list[UnpairedResult] = field(default_factory=list)
    conversation_texts: list[tuple[int, str]] = field(default_factory=list)
    tool_texts: list[tuple[int, str]] = field(default_factory=list)
    has_header: bool = False
    first_prompt: str = ""
    model: str = ""
    updated_at: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    "turns, entries, tool_calls, errors, input, output, cached"
