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
    readable,
)
from store.model.session import entry_id
from store.model.timeline import tells_failure

Kind = Literal["prompt", "text", "context", "thinking", "call", "result", "attachment", "opaque", "event", "compaction"]

FOLDED: frozenset[Kind] = frozenset(["context", "thinking", "call", "result", "compaction"])
"""What is one line until somebody wants to see it."""

CLOSE: frozenset[Kind] = frozenset(["thinking", "call", "result", "attachment", "opaque", "event", "context"])
"""What needs no blank line before it when it follows one of its like."""


@dataclass(slots=True)
class Block:
    kind: Kind
    entry: Entry
    part: int | None
    "Which of the entry's parts; None when it is the entry itself."
    text: str
    "As it is kept: what is copied. None of a call's, which has it twice already."
    label: str = ""
    "Who or what, where that is not plain."
    call: PairedCall | None = None
    gap: bool = True
    "A blank line before it."
    also: tuple[int, ...] = ()
    "Further entries that are told on the same line."

    @property
    def foldable(self) -> bool:
        return self.kind in FOLDED and not (self.kind == "compaction" and not self.text.strip())

    @property
    def failed(self) -> bool:
        if self.call is not None:
            return self.call.status == "error"
        return self.kind == "event" and tells_failure(self.text)

    @property
    def seqs(self) -> tuple[int, ...]:
        """The entries that are shown here: a call's and its result's."""
        answer = _seq(self.call.result_entry) if self.call else None
        told = (self.entry.seq, *self.also)
        return told if answer is None else (*told, answer)

    @property
    def is_quiet(self) -> bool:
        """One of the marks that a program leaves of its own workings, several to a step."""
        return self.kind == "event" and not self.failed


def blocks_of(session_id: str, turn: Turn) -> list[Block]:
    found: list[Block] = []
    for block in _Taker(session_id, turn).blocks():
        if found and block.is_quiet and found[-1].is_quiet:
            found[-1].text += f" · {block.text}"
            found[-1].also += (block.entry.seq,)
            continue
        block.gap = not (found and block.kind in CLOSE and found[-1].kind in CLOSE)
        found.append(block)
    return found


class _Taker:
    def __init__(self, session_id: str, turn: Turn) -> None:
        self._session_id = session_id
        self._turn = turn
        self._calls = {(call.entry, call.call_id): call for call in turn.tool_calls if call.entry}
        self._answered = {(call.result_entry, call.call_id) for call in self._calls.values()}
        self._orphans = {(call.result_entry, call.call_id): call for call in turn.tool_calls if not call.entry}
        self._speaker = ""

    def blocks(self) -> Iterator[Block]:
        for entry in self._turn.entries:
            if self._turn.n and entry is self._turn.entries[0]:
                yield Block("prompt", entry, None, entry.text)
                yield from self._parts(entry, skip_text=True)
            elif entry.kind == "header":
                if entry.text.strip():
                    yield Block("context", entry, None, entry.text, "system prompt")
            elif entry.kind == "event":
                yield Block("event", entry, None, entry.text or _kinds(entry))
            elif entry.kind == "compaction":
                yield Block("compaction", entry, None, entry.text)
            else:
                yield from self._parts(entry)

    def _parts(self, entry: Entry, *, skip_text: bool = False) -> Iterator[Block]:
        for index, part in enumerate(entry.parts):
            if not (skip_text and isinstance(part, Text)):
                block = self._block(entry, index, part)
                if block is not None:
                    yield block

    def _block(self, entry: Entry, index: int, part: Part) -> Block | None:
        place = entry_id(self._session_id, entry.seq)
        match part:
            case Text(text) if not text.strip():
                return None
            case Text(text) if entry.role == "assistant":
                return Block("text", entry, index, text, self._speaks(entry.author))
            case Text(text):
                return Block("context", entry, index, text, " · ".join(filter(None, [entry.role, entry.author])))
            case Thinking(text):
                return Block("thinking", entry, index, text) if text.strip() else None
            case ToolCall(id, name):
                call = self._calls.get((place, id)) or self._pending(entry, part, place)
                return Block("call", entry, index, "", name, call)
            case ToolResult(call_id, output):
                if (place, call_id) in self._answered:
                    return None
                orphan = self._orphans.get((place, call_id))
                return Block("result", entry, index, readable(output), part.name or call_id, orphan)
            case Attachment(media_type, name):
                return Block("attachment", entry, index, part.uri or name or media_type)
            case Opaque(kind, value):
                return Block("opaque", entry, index, readable(value), kind)
        return None

    def _speaks(self, author: str) -> str:
        """Told when somebody else takes over."""
        label = author if author and author != self._speaker else ""
        self._speaker = author
        return label

    def _pending(self, entry: Entry, part: ToolCall, place: str) -> PairedCall:
        """A call that the store has not paired: two of one id in one entry, say."""
        at = entry.created_at
        return PairedCall(
            0, self._session_id, entry.turn, part.id, part.name, "pending", None, place, None, part.arguments, None, at
        )


def _seq(place: str | None) -> int | None:
    return int(place.rpartition("#")[2]) if place else None


def _kinds(entry: Entry) -> str:
    return " · ".join(
        part.kind if isinstance(part, Opaque) else part.text for part in entry.parts if isinstance(part, Opaque | Text)
    )
