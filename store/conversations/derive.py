"""This module derives the rows of tables and indexes from a batch of entries, without reading the store.

All numbers count from the beginning of the batch, and `store.conversations.append` adds the numbers at which the batch
begins. Another process can therefore derive a batch while the writer writes the batch before it.

The rows are plain tuples without None, bool and bytes, because this is the hot path of an import: Python's SQLite
driver looks up an adapter for each of those values, which takes as long as everything else that it does with a row.
Empty text represents null, and a bytearray represents bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from store.errors import Refused
from store.model.entry import (
    NewEntry,
    NewRecord,
    Part,
    Text,
    Thinking,
    Tokens,
    ToolCall,
    ToolResult,
    part_to_json,
)
from store.model.session import UNKNOWN_USER
from store.model.status import QUESTION_TOOLS, Activity
from store.model.timeline import EVENT_PREVIEW_LENGTH, is_error_notice, is_interruption, mentions_failure
from store.search.index import INDEXED_KINDS, conversation_text, tools_text
from store.text.timestamps import elapsed_ms
from store.text.titles import prompt_title
from store.text.unicode import separate_cjk
from store.text.validate import (
    encode,
    encode_derived,
    replace_surrogates,
    utc_timestamp,
    validate_integers,
    validate_text,
)
from store.usage.rows import UsageRow, UsageRows, usage_from_tokens

if TYPE_CHECKING:
    from store.conversations.record_blocks import PrebuiltBlock

_COMMON_NAMES = frozenset(
    {"", "message", "event", "user", "assistant", "tool", "system", "header", "compaction", "unknown"}
)

# These are the columns of a turn row that later entries change.
_TURN_END, _TURN_TIME = 2, 4

# These are the columns of a call row that its result fills in.
_STATUS_AND_DURATION = slice(3, 5)
_RESULT_POSITION = slice(7, 9)

MAX_INLINE_PARTS_BYTES = 64
"""Is the size up to which parts are stored with their entry. Opening a block for them would take longer."""


def find_duration(stated_ms: float | None, called_at: str, answered_at: str) -> float | None:
    """Return how long a call took: what its source states, or else the time from the call to the result."""
    return elapsed_ms(called_at, answered_at) if stated_ms is None else stated_ms


def derive_rows(entries: Sequence[NewEntry]) -> DerivedRows:
    builder = _RowBuilder()
    for entry in entries:
        builder.add(entry)
    rows = builder.build()
    rows.activity, rows.continues = _find_activity(entries)
    return rows


def encode_tokens(tokens: Tokens | None) -> str:
    return encode_derived(list(tokens)).decode() if tokens else ""


def compute_digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _find_activity(entries: Sequence[NewEntry]) -> tuple[Activity | Literal[""], bool]:
    """Return what the agent does after the last entry that tells it, and whether it goes on in these entries.

    An agent that failed may still record that it waits or ends. It does not go on then.
    """
    aftermath: Activity | Literal[""] = ""
    for entry in reversed(entries):
        activity = entry.activity or _infer_activity(entry)
        if activity is None:
            continue
        if entry.kind != "event" or activity not in ("waiting", "ended"):
            return (activity if activity == "failed" else aftermath or activity), True
        aftermath = aftermath or activity
    return aftermath, False


def _infer_activity(entry: NewEntry) -> Activity | None:
    """Return what the agent does after an entry, or None if the entry does not tell.

    An error that is the last thing that happened has ended the session; the next message tells if it has not.
    """
    text = entry.get_text()
    if entry.kind == "event":
        text = text[:EVENT_PREVIEW_LENGTH]
        return None if not mentions_failure(text) else "waiting" if is_interruption(text) else "failed"
    if entry.kind != "message":
        return None
    if is_error_notice(entry.role, entry.model, text):
        return "failed"
    if entry.begins_turn() or entry.role == "tool":
        return "working"
    if entry.role != "assistant" or not entry.parts:
        return None
    kinds = set(map(type, entry.parts))
    if ToolCall in kinds:
        asks = any(type(part) is ToolCall and part.name in QUESTION_TOOLS for part in entry.parts)
        return "waiting" if asks else "working"
    # An answer ends the turn, unless the agent has only thought so far.
    return "waiting" if Text in kinds and ToolResult not in kinds else "working"


class _RowBuilder:
    def __init__(self) -> None:
        self.rows = DerivedRows()
        self._turn = 0
        self._open_turn: list[Any] = [0, 0, -1, "", ""]
        "Holds the row of the last turn. The first one began before this batch, and has no entry here if its end is -1."
        self._continued_turn = self._open_turn
        self._turns: list[list[Any]] = []
        self._counts = dict.fromkeys(("turns", "entries", "tool_calls", "errors"), 0)
        self._tokens: list[Tokens] = []
        self._records: dict[int, _RecordPieces] = {}
        "Holds the records of this batch by their identity, because several entries may have the same one."
        self._places: dict[str, int] = {}
        self._usage = UsageRows()
        self._calls: list[list[Any]] = []
        self._open_calls: dict[str, tuple[list[Any], str]] = {}
        "Holds the row of each call without a result, and the time that its entry states."

    def add(self, entry: NewEntry) -> None:
        rows, n = self.rows, len(self.rows.entries)
        if entry.kind == "header":
            if n:
                raise Refused("A session must begin with a header and can have only one.")
            rows.has_header = True
        parts, author = entry.parts, entry.author
        created_at = entry.created_at or utc_timestamp()
        text = replace_surrogates(entry.get_text())
        if entry.begins_turn():
            author = author or UNKNOWN_USER
            self._begin_turn(n, text, created_at, entry.inherited)
        else:
            turn = self._open_turn
            turn[_TURN_END] = n
            if created_at > turn[_TURN_TIME]:
                turn[_TURN_TIME] = created_at
        is_only_text = len(parts) == 1 and type(parts[0]) is Text
        if parts or entry.kind in INDEXED_KINDS:
            self._add_parts(n, entry, text, is_only_text)
        if not entry.inherited:
            self._count(n, entry, created_at)
        if created_at > rows.updated_at:
            rows.updated_at = created_at
        record = self._add_record(entry.record) if entry.record else None
        rows.entries.append(
            (
                n,
                record and record.number,
                self._turn,
                entry.kind if entry.kind in _COMMON_NAMES else validate_text(entry.kind, "kind"),
                entry.role if entry.role in _COMMON_NAMES else validate_text(entry.role, "role"),
                author and replace_surrogates(author),
                entry.model and replace_surrogates(entry.model),
                entry.message_key and replace_surrogates(entry.message_key),
                text,
                "" if is_only_text and parts[0].text == text else _encode_parts(parts, record),  # type: ignore[union-attr]
                int(entry.inherited),
                encode_tokens(entry.tokens),
                created_at,
            )
        )

    def _begin_turn(self, n: int, text: str, started_at: str, inherited: bool) -> None:
        self._turn += 1
        self._counts["turns"] += not inherited
        self._open_turn = [self._turn, n, n, started_at, started_at]
        self._turns.append(self._open_turn)
        if not self.rows.first_prompt:
            self.rows.first_prompt = prompt_title(text)

    def _add_record(self, record: NewRecord) -> _RecordPieces:
        known = self._records.get(id(record))
        if known is None:
            known = self._records[id(record)] = _RecordPieces(len(self._records), record)
        return known

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _add_parts(self, n: int, entry: NewEntry, text: str, is_only_text: bool) -> None:
        is_indexed = entry.kind in INDEXED_KINDS and not entry.inherited
        if is_only_text:
            if is_indexed and text:
                self.rows.conversation_texts.append((n, separate_cjk(text)))
            return
        for index, part in enumerate(entry.parts):
            if isinstance(part, ToolCall):
                self._open_call(n, index, part, entry)
            elif isinstance(part, ToolResult):
                self._close_call(n, index, part, entry)
        if is_indexed:
            if (indexed_text := conversation_text(text, entry.parts)) is not None:
                self.rows.conversation_texts.append((n, indexed_text))
            if (indexed_text := tools_text(entry.parts)) is not None:
                self.rows.tool_texts.append((n, indexed_text))

    def _open_call(self, n: int, index: int, call: ToolCall, entry: NewEntry) -> None:
        call_id = replace_surrogates(call.id)
        name = replace_surrogates(call.name)
        row = [self._turn, call_id, name, "pending", "", n, index, "", "", int(entry.inherited)]
        self._calls.append(row)
        self._open_calls[call_id] = row, entry.created_at
        self._counts["tool_calls"] += not entry.inherited

    def _close_call(self, n: int, index: int, result: ToolResult, entry: NewEntry) -> None:
        call_id = replace_surrogates(result.call_id)
        status = "error" if result.is_error else "ok"
        open_call = self._open_calls.pop(call_id, None)
        if open_call is not None:
            row, called_at = open_call
            duration = find_duration(result.duration_ms, called_at, entry.created_at)
            row[_STATUS_AND_DURATION] = [status, "" if duration is None else duration]
            row[_RESULT_POSITION] = [n, index]
            self._counts["errors"] += result.is_error and not entry.inherited
            return
        name = replace_surrogates(result.name)
        self.rows.unpaired_results.append(
            UnpairedResult(
                call_id,
                name,
                self._turn,
                status,
                result.duration_ms,
                n,
                index,
                inherited=entry.inherited,
                answered_at=entry.created_at,
            )
        )

    def _count(self, n: int, entry: NewEntry, created_at: str) -> None:
        """Count an entry that is not inherited, with its tokens and its usage."""
        tokens, usage = entry.tokens, entry.usage
        self._counts["entries"] += entry.kind != "header"
        if entry.model and entry.role == "assistant":
            self.rows.model = replace_surrogates(entry.model)
        if tokens is not None:
            self._tokens.append(tokens)
        if usage is not None or tokens is not None:
            self._usage.add(n, usage or usage_from_tokens(tokens), entry.model, created_at)

    def _sum_tokens(self) -> dict[str, int]:
        validate_integers([*chain.from_iterable(self._tokens)], "token count")
        return Tokens(*map(sum, zip(*self._tokens, strict=True)))._asdict()

    # ── the end of the batch ──────────────────────────────────────────────────────────────────────

    def build(self) -> DerivedRows:
        self.rows.calls = [tuple(row) for row in self._calls]
        self.rows.turns = [tuple(row) for row in self._turns]
        if self._continued_turn[_TURN_END] >= 0:
            self.rows.continued_turn = (self._continued_turn[_TURN_END], self._continued_turn[_TURN_TIME])
        self.rows.counts = self._counts | self._sum_tokens()
        self.rows.usage = self._usage.rows()
        for pieces in self._records.values():
            data, place, position = pieces.record
            place_number = self._places.setdefault(place, len(self._places))
            digest = bytearray(compute_digest(data))
            self.rows.records.append((pieces.number, place_number, position, digest, len(data), pieces.behind))
            self.rows.record_data.append(b"".join([data, *pieces.parts]) if pieces.parts else data)
        self.rows.places = list(self._places)
        return self.rows


class _RecordPieces:
    """Holds a record and the parts that are stored behind it."""

    __slots__ = ("behind", "number", "parts", "record")

    def __init__(self, number: int, record: NewRecord) -> None:
        self.number = number
        self.record = record
        self.parts: list[bytes] = []
        self.behind = 0
        "Counts the bytes of the parts."

    def add(self, parts: bytes) -> bytes:
        """Add parts, and return their offset and length behind the record."""
        reference = b"[%d,%d]" % (self.behind, len(parts))
        self.parts.append(parts)
        self.behind += len(parts)
        return reference


def _encode_parts(parts: Sequence[Part], record: _RecordPieces | None) -> bytearray:
    """Return the parts as JSON, or their offset and length behind their record.

    The text of thinking is also stored with the entry, because a search for words reads it. Its signature, which is
    often longer, is not.
    """
    if not parts:
        return bytearray(b"[]")
    values = [part_to_json(part) for part in parts]
    if record is None:
        return bytearray(encode(values))
    # The record keeps the exact form.
    column = encode_derived(values)
    thoughts = [{"type": "thinking", "text": part.text} for part in parts if type(part) is Thinking]
    searched = encode_derived(thoughts) if thoughts else b""
    if len(column) <= MAX_INLINE_PARTS_BYTES + len(searched):
        return bytearray(column)
    reference = record.add(column)
    return bytearray(b"[%s,%s" % (reference, searched[1:]) if searched else reference)


@dataclass(slots=True)
class UnpairedResult:
    "Describes a result whose call is in an earlier batch, or missing."

    call_id: str
    name: str
    turn: int
    status: str
    duration_ms: float | None
    entry: int
    part: int
    inherited: bool
    answered_at: str
    "The time that its entry states; empty when it states none."


@dataclass(slots=True)
class DerivedRows:
    "Holds the rows of a batch of entries. The strings below list the columns of the tuples."

    entries: list[tuple[Any, ...]] = field(default_factory=list)
    "number in batch, record, turn, kind, role, author, model, message key, text, parts, inherited, tokens, created at"
    records: list[tuple[Any, ...]] = field(default_factory=list)
    "number in batch, index in `places`, position, digest, length, length of the parts behind it"
    record_data: list[bytes] = field(default_factory=list)
    "Holds the data of each record followed by its parts. Is empty when they are in `block`."
    block: PrebuiltBlock | None = None
    starts: list[int] = field(default_factory=list)
    "Holds the offset of each record in `block`."
    places: list[str] = field(default_factory=list)
    turns: list[tuple[Any, ...]] = field(default_factory=list)
    "turn, first entry, last entry, started at, ended at; only turns that begin in this batch"
    continued_turn: tuple[int, str] | None = None
    "Holds the last entry, and its time, of the turn that began before this batch."
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    "turn, call id, name, status, duration, entry, part, result entry, result part, inherited"
    usage: list[UsageRow] = field(default_factory=list)
    unpaired_results: list[UnpairedResult] = field(default_factory=list)
    conversation_texts: list[tuple[int, str]] = field(default_factory=list)
    "entry, text for the conversation index"
    tool_texts: list[tuple[int, str]] = field(default_factory=list)
    "entry, text for the tool index"
    has_header: bool = False
    first_prompt: str = ""
    model: str = ""
    activity: str = ""
    "Holds what the agent does after the last entry that tells it."
    continues: bool = False
    "Is true when the agent goes on in this batch, also after a failure before it."
    updated_at: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    "Holds the numbers of turns, entries, tool_calls and errors, and of tokens by the fields of `Tokens`."
