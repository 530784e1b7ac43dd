"""This module splits a turn into timeline items: its prompt, texts, thinking, tool calls and events."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from store.model.entry import (
    Attachment,
    Entry,
    Json,
    Opaque,
    PairedCall,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
    readable_text,
)
from store.model.knowledge import Note
from store.model.session import entry_id
from store.model.timeline import is_bookkeeping, is_error_notice, mentions_failure
from tui.render.inspection.parallel_calls import find_parallel_calls

ItemKind = Literal[
    "prompt", "text", "context", "thinking", "call", "result", "attachment", "opaque", "event", "compaction", "note"
]

UNNAMED_EVENT = "event"
"""Is shown for an event that has neither a text nor a name."""

FOLDED_KINDS: frozenset[ItemKind] = frozenset(["context", "thinking", "call", "result", "compaction"])
"""Lists the kinds that are folded to one line at first."""

COMPACT_KINDS: frozenset[ItemKind] = frozenset(
    ["thinking", "call", "result", "attachment", "opaque", "event", "context"]
)
"""Lists the kinds that need no blank line between each other."""


@dataclass(slots=True)
class TimelineItem:
    kind: ItemKind
    entry: Entry
    part_index: int | None
    "The index of the entry's part. Is None when the item is the entry itself."
    value: Json
    "The stored text, or the value of a result or an opaque part. Is empty for a call, which holds them itself."
    label: str = ""
    "The author, the tool or the kind. Is empty when that is obvious."
    call: PairedCall | None = None
    has_gap: bool = True
    "Asks for a blank line before the item."
    merged_seqs: tuple[int, ...] = ()
    "More entries that are shown on the same line."
    note: Note | None = None
    "The note that the item shows. A person wrote it, on the entry of the item."

    is_parallel: bool = False
    "Is true for a call that ran at the same time as others."
    is_failure: bool = False
    "Is true for a notice of the program that something failed."

    @property
    def text(self) -> str:
        """The stored text, for copying. Reading it takes long for a large value that is not a text."""
        return readable_text(self.value)

    @property
    def identity(self) -> Hashable:
        """Tells the item apart from the others of its turn, also after notes were added or deleted."""
        return self.kind, self.entry.seq, self.part_index, self.note.id if self.note else None

    @property
    def is_foldable(self) -> bool:
        return self.kind in FOLDED_KINDS and not (self.kind == "compaction" and not self.text.strip())

    @property
    def has_failed(self) -> bool:
        if self.call is not None:
            return self.call.status == "error"
        return self.is_failure or (self.kind == "event" and mentions_failure(self.text))

    @property
    def entry_seqs(self) -> tuple[int, ...]:
        """The sequence numbers of the entries that the item shows. A call also shows the entry of its result."""
        result_seq = _parse_seq(self.call.result_entry) if self.call else None
        seqs = (self.entry.seq, *self.merged_seqs)
        return seqs if result_seq is None else (*seqs, result_seq)

    @property
    def is_bookkeeping(self) -> bool:
        """True for an event that tells a person nothing. Agents record several per step: they are merged or hidden."""
        return self.kind == "event" and is_bookkeeping(self.text)


def build_items(
    session_id: str, turn: Turn, notes: Sequence[Note] = (), *, with_bookkeeping: bool = True
) -> list[TimelineItem]:
    """Return the items of a turn. Each note follows the entry that it is on."""
    items = _insert_notes(_merge_bookkeeping(session_id, turn, with_bookkeeping), notes)
    parallel = find_parallel_calls(turn.tool_calls) if len(turn.tool_calls) > 1 else ()
    for item in items if parallel else ():
        item.is_parallel = item.call is not None and item.call.key in parallel
    for previous, item in pairwise(items):
        item.has_gap = not (item.kind in COMPACT_KINDS and previous.kind in COMPACT_KINDS)
    return items


def _insert_notes(items: list[TimelineItem], notes: Sequence[Note]) -> list[TimelineItem]:
    """Insert each note after its entry. If nothing of the entry is shown, it follows the entries before that one."""
    for note in notes if items else ():
        seq = note.entry_seq or 0
        shown = [n for n, item in enumerate(items) if seq in item.entry_seqs]
        before = [n for n, item in enumerate(items) if item.entry.seq <= seq]
        place = max(shown or before, default=0)
        items.insert(
            place + 1, TimelineItem("note", items[place].entry, None, note.signed_text, note.created_at, note=note)
        )
    return items


def _merge_bookkeeping(session_id: str, turn: Turn, with_bookkeeping: bool) -> list[TimelineItem]:
    items: list[TimelineItem] = []
    for item in _ItemBuilder(session_id, turn).build():
        if item.is_bookkeeping and not with_bookkeeping:
            continue
        if items and item.is_bookkeeping and items[-1].is_bookkeeping:
            items[-1].value = _join_names(items[-1].text, item.text)
            items[-1].merged_seqs += (item.entry.seq,)
            continue
        items.append(item)
    return items


def _join_names(names: str, name: str) -> str:
    """Join the names of events. Those without a name add nothing."""
    return " · ".join(filter(None, [names, name if name != UNNAMED_EVENT else ""])) or UNNAMED_EVENT


class _ItemBuilder:
    def __init__(self, session_id: str, turn: Turn) -> None:
        self._session_id = session_id
        self._turn = turn
        self._calls = {(call.entry, call.call_id): call for call in turn.tool_calls if call.entry}
        self._paired_results = {(call.result_entry, call.call_id) for call in self._calls.values()}
        self._orphans = {(call.result_entry, call.call_id): call for call in turn.tool_calls if not call.entry}
        self._speaker = ""

    def build(self) -> Iterator[TimelineItem]:
        for entry in self._turn.entries:
            if self._turn.n and entry is self._turn.entries[0]:
                yield TimelineItem("prompt", entry, None, entry.text)
                yield from self._part_items(entry, skip_text=True)
            elif entry.kind == "header":
                if entry.text.strip():
                    yield TimelineItem("context", entry, None, entry.text, "system prompt")
            elif entry.kind == "event":
                yield TimelineItem("event", entry, None, entry.text or _event_text(entry) or UNNAMED_EVENT)
            elif is_error_notice(entry.role, entry.model, entry.text):
                yield TimelineItem("event", entry, None, entry.text, is_failure=True)
            elif entry.kind == "compaction":
                yield TimelineItem("compaction", entry, None, entry.text)
            else:
                yield from self._part_items(entry)

    def _part_items(self, entry: Entry, *, skip_text: bool = False) -> Iterator[TimelineItem]:
        for index, part in enumerate(entry.parts):
            if not (skip_text and isinstance(part, Text)):
                item = self._build_item(entry, index, part)
                if item is not None:
                    yield item

    def _build_item(self, entry: Entry, index: int, part: Part) -> TimelineItem | None:
        entry_ref = entry_id(self._session_id, entry.seq)
        match part:
            case Text(text) if not text.strip():
                return None
            case Text(text) if entry.role == "assistant":
                return TimelineItem("text", entry, index, text, self._speaker_label(entry.author))
            case Text(text):
                return TimelineItem("context", entry, index, text, " · ".join(filter(None, [entry.role, entry.author])))
            case Thinking(text):
                return TimelineItem("thinking", entry, index, text) if text.strip() else None
            case ToolCall(id, name):
                call = self._calls.get((entry_ref, id)) or self._pending_call(entry, part, entry_ref)
                return TimelineItem("call", entry, index, "", name, call)
            case ToolResult(call_id, output):
                if (entry_ref, call_id) in self._paired_results:
                    return None
                orphan = self._orphans.get((entry_ref, call_id))
                return TimelineItem("result", entry, index, output, part.name or call_id, orphan)
            case Attachment(media_type, name):
                return TimelineItem("attachment", entry, index, part.uri or name or media_type)
            case Opaque(kind, value):
                return TimelineItem("opaque", entry, index, value, kind)
        return None

    def _speaker_label(self, author: str) -> str:
        """Return the author if it differs from the last one, else nothing."""
        label = author if author and author != self._speaker else ""
        self._speaker = author
        return label

    def _pending_call(self, entry: Entry, part: ToolCall, entry_ref: str) -> PairedCall:
        """Build a call that the store has not paired, e.g. because two calls of an entry have the same id."""
        at = entry.created_at
        return PairedCall(
            0,
            self._session_id,
            entry.turn,
            part.id,
            part.name,
            "pending",
            None,
            entry_ref,
            None,
            part.arguments,
            None,
            at,
        )


def _parse_seq(entry_ref: str | None) -> int | None:
    return int(entry_ref.rpartition("#")[2]) if entry_ref else None


def _event_text(entry: Entry) -> str:
    return " · ".join(
        part.kind if isinstance(part, Opaque) else part.text for part in entry.parts if isinstance(part, Opaque | Text)
    )
