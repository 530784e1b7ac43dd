"""This module splits a turn into timeline items: its prompt, texts, thinking, tool calls and events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from store.model.entry import (
    Attachment,
    Entry,
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
from store.model.session import entry_id
from store.model.timeline import mentions_failure

ItemKind = Literal[
    "prompt", "text", "context", "thinking", "call", "result", "attachment", "opaque", "event", "compaction"
]

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
    text: str
    "The stored text, for copying. Is empty for a call, which holds its arguments and result."
    label: str = ""
    "The author, the tool or the kind. Is empty when that is obvious."
    call: PairedCall | None = None
    has_gap: bool = True
    "Asks for a blank line before the item."
    merged_seqs: tuple[int, ...] = ()
    "More entries that are shown on the same line."

    @property
    def is_foldable(self) -> bool:
        return self.kind in FOLDED_KINDS and not (self.kind == "compaction" and not self.text.strip())

    @property
    def has_failed(self) -> bool:
        if self.call is not None:
            return self.call.status == "error"
        return self.kind == "event" and mentions_failure(self.text)

    @property
    def entry_seqs(self) -> tuple[int, ...]:
        """The sequence numbers of the entries that the item shows. A call also shows the entry of its result."""
        result_seq = _parse_seq(self.call.result_entry) if self.call else None
        seqs = (self.entry.seq, *self.merged_seqs)
        return seqs if result_seq is None else (*seqs, result_seq)

    @property
    def is_quiet(self) -> bool:
        """True for an ordinary event. Agents record several per step, so they are merged into one line."""
        return self.kind == "event" and not self.has_failed


def build_items(session_id: str, turn: Turn) -> list[TimelineItem]:
    items: list[TimelineItem] = []
    for item in _ItemBuilder(session_id, turn).build():
        if items and item.is_quiet and items[-1].is_quiet:
            items[-1].text += f" · {item.text}"
            items[-1].merged_seqs += (item.entry.seq,)
            continue
        item.has_gap = not (items and item.kind in COMPACT_KINDS and items[-1].kind in COMPACT_KINDS)
        items.append(item)
    return items


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
                yield TimelineItem("event", entry, None, entry.text or _event_text(entry))
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
                return TimelineItem("result", entry, index, readable_text(output), part.name or call_id, orphan)
            case Attachment(media_type, name):
                return TimelineItem("attachment", entry, index, part.uri or name or media_type)
            case Opaque(kind, value):
                return TimelineItem("opaque", entry, index, readable_text(value), kind)
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
