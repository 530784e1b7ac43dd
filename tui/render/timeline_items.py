"""A turn taken apart into what a cursor can rest on: the prompt, what was said, thought, called, and what happened."""

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
"""What is one line until somebody wants to see it."""

COMPACT_KINDS: frozenset[ItemKind] = frozenset(
    ["thinking", "call", "result", "attachment", "opaque", "event", "context"]
)
"""What needs no blank line before it when it follows one of its like."""


@dataclass(slots=True)
class TimelineItem:
    kind: ItemKind
    entry: Entry
    part_index: int | None
    "Which of the entry's parts; None when it is the entry itself."
    text: str
    "As it is kept: what is copied. None of a call's, which has it twice already."
    label: str = ""
    "Who or what, where that is not plain."
    call: PairedCall | None = None
    has_gap: bool = True
    "A blank line before it."
    merged_seqs: tuple[int, ...] = ()
    "Further entries that are told on the same line."

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
        """The entries that are shown here: a call's and its result's."""
        answer = _parse_seq(self.call.result_entry) if self.call else None
        told = (self.entry.seq, *self.merged_seqs)
        return told if answer is None else (*told, answer)

    @property
    def is_quiet(self) -> bool:
        """One of the marks that a program leaves of its own workings, several to a step."""
        return self.kind == "event" and not self.has_failed


def build_items(session_id: str, turn: Turn) -> list[TimelineItem]:
    found: list[TimelineItem] = []
    for block in _ItemBuilder(session_id, turn).build():
        if found and block.is_quiet and found[-1].is_quiet:
            found[-1].text += f" · {block.text}"
            found[-1].merged_seqs += (block.entry.seq,)
            continue
        block.has_gap = not (found and block.kind in COMPACT_KINDS and found[-1].kind in COMPACT_KINDS)
        found.append(block)
    return found


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
                block = self._build_item(entry, index, part)
                if block is not None:
                    yield block

    def _build_item(self, entry: Entry, index: int, part: Part) -> TimelineItem | None:
        place = entry_id(self._session_id, entry.seq)
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
                call = self._calls.get((place, id)) or self._pending_call(entry, part, place)
                return TimelineItem("call", entry, index, "", name, call)
            case ToolResult(call_id, output):
                if (place, call_id) in self._paired_results:
                    return None
                orphan = self._orphans.get((place, call_id))
                return TimelineItem("result", entry, index, readable_text(output), part.name or call_id, orphan)
            case Attachment(media_type, name):
                return TimelineItem("attachment", entry, index, part.uri or name or media_type)
            case Opaque(kind, value):
                return TimelineItem("opaque", entry, index, readable_text(value), kind)
        return None

    def _speaker_label(self, author: str) -> str:
        """Told when somebody else takes over."""
        label = author if author and author != self._speaker else ""
        self._speaker = author
        return label

    def _pending_call(self, entry: Entry, part: ToolCall, place: str) -> PairedCall:
        """A call that the store has not paired: two of one id in one entry, say."""
        at = entry.created_at
        return PairedCall(
            0, self._session_id, entry.turn, part.id, part.name, "pending", None, place, None, part.arguments, None, at
        )


def _parse_seq(place: str | None) -> int | None:
    return int(place.rpartition("#")[2]) if place else None


def _event_text(entry: Entry) -> str:
    return " · ".join(
        part.kind if isinstance(part, Opaque) else part.text for part in entry.parts if isinstance(part, Opaque | Text)
    )
