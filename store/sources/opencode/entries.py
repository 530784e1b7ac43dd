"""opencode's messages and the parts they are made of, as entries: every part one, and the message itself the last.

A part is rewritten in place while it grows. So everything told says whether it is settled: whether it will change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from store.model.entry import (
    Attachment,
    Json,
    NewEntry,
    NewRecord,
    Opaque,
    Part,
    Text,
    Thinking,
    Tokens,
    ToolCall,
    ToolResult,
)
from store.sources.kit.jsonl import count, items, mapping, moment, words
from store.sources.opencode.outputs import whole_output

_DONE = ("completed", "error")
_MARKS = ("step-start", "step-finish", "snapshot", "patch", "compaction")


class Piece(NamedTuple):
    "A part of a message."

    id: str
    data: Json
    record: NewRecord
    at: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    id: str
    data: Mapping[str, Json]
    record: NewRecord
    at: str = ""
    pieces: tuple[Piece, ...] | None = None
    "Where they stand in the message's own record, which is settled as a whole."

    @property
    def role(self) -> str:
        return words(self.data.get("role"))

    @property
    def is_over(self) -> bool:
        if self.role != "assistant":
            return self.pieces is not None
        ended = mapping(self.data.get("time")).get("completed") or self.data.get("error")
        return bool(ended or (self.pieces is not None and self.data.get("finish")))

    @property
    def is_summary(self) -> bool:
        "A person's message may have a summary of another kind."
        return self.role == "assistant" and self.data.get("summary") is True


class Told(NamedTuple):
    entry: NewEntry
    settled: bool
    message: str
    part: str
    "Empty for the message itself."
    started: str = ""
    "The session of a sub-agent that a call began."


class Telling:
    def __init__(self, parts_of: Callable[[Message], Iterable[Piece]], outputs: Path | None) -> None:
        self._parts_of = parts_of
        self._outputs = outputs

    def told(self, messages: Sequence[Message]) -> Iterator[Told]:
        """What a person asks while an answer is under way does not end it: only the next answer does."""
        answers = [place for place, message in enumerate(messages) if message.role == "assistant"]
        for place, message in enumerate(messages):
            past = place < (answers[-1] if answers else -1)
            yield from self._message(message, past or message.is_over)

    def _message(self, message: Message, settled: bool) -> Iterator[Told]:
        whole = message.pieces is not None
        pieces = list(message.pieces if message.pieces is not None else self._parts_of(message))
        opening = _opening(pieces) if message.role == "user" else ""
        for piece in pieces:
            entry = _finished(self._entry(message, piece, prompt=piece.id == opening), message, piece)
            done = settled or (not whole and _is_settled(piece))
            yield Told(entry, done, message.id, piece.id, _started(piece))
        steps = any(mapping(piece.data).get("type") == "step-finish" for piece in pieces)
        row = _row(message)
        row.tokens = None if steps else _tokens(message.data.get("tokens"))
        yield Told(row, settled, message.id, "")

    def _entry(self, message: Message, piece: Piece, *, prompt: bool) -> NewEntry:
        data = mapping(piece.data)
        kind, role, text = words(data.get("type")), message.role, data.get("text")
        match kind:
            case "text" if isinstance(text, str):
                return _text(message, data, text, prompt)
            case "reasoning" if isinstance(text, str):
                return NewEntry(role=role, parts=(Thinking(text, _signature(data)),), prompt=False)
            case "tool" if isinstance(data.get("tool"), str):
                return NewEntry(role=role, parts=tuple(self._tool(data)), prompt=False)
            case "file":
                return NewEntry(role=role, parts=(_file(data),), prompt=prompt)
            case "subtask":
                said = words(data.get("prompt")) or words(data.get("description"))
                return NewEntry(role=role, parts=(Text(said),), prompt=prompt)
            case "retry":
                return NewEntry(kind="event", role=role, text=_failure(data.get("error")), parts=(Opaque(kind, data),))
            case "agent":
                return NewEntry(kind="event", role=role, text=words(data.get("name")))
            case _ if kind in _MARKS:
                return NewEntry(kind="event", role=role, tokens=_tokens(data.get("tokens")))
        return NewEntry(kind="unknown", parts=(Opaque(kind, piece.data),))

    def _tool(self, data: Mapping[str, Json]) -> Iterator[Part]:
        """A call and its answer are one part. A command that failed is flagged by its exit code alone."""
        state, call_id = mapping(data.get("state")), words(data.get("callID"))
        yield ToolCall(call_id, data["tool"], state.get("input"))
        if state.get("status") not in _DONE:
            return
        failed = state["status"] == "error" or mapping(state.get("metadata")).get("exit") not in (0, None)
        output = state.get("error") if state["status"] == "error" else whole_output(state, self._outputs)
        yield ToolResult(call_id, output, failed, data["tool"], _took(mapping(state.get("time"))))
        yield from (_file(mapping(one)) for one in items(state.get("attachments")))


def _opening(pieces: Sequence[Piece]) -> str:
    """The part with which a turn begins: the first words of the person's own, or what was handed over without any."""
    parts = [(piece.id, mapping(piece.data)) for piece in pieces]
    for wanted in ("text", "subtask", "file"):
        for name, data in parts:
            if data.get("type") == wanted and not _is_injected(data):
                return name
    return ""


def _is_injected(data: Mapping[str, Json]) -> bool:
    return data.get("synthetic") is True or data.get("ignored") is True


def _text(message: Message, data: Mapping[str, Json], text: str, prompt: bool) -> NewEntry:
    if data.get("ignored") is True:
        return NewEntry(kind="event", role=message.role, parts=(Text(text),))
    if message.is_summary:
        return NewEntry(kind="compaction", role="system", parts=(Text(text),))
    hidden = data.get("synthetic") is True
    return NewEntry(role=message.role, parts=(Text(text),), prompt=prompt, text="" if hidden else text)


def _is_settled(piece: Piece) -> bool:
    data = mapping(piece.data)
    match data.get("type"):
        case "tool":
            return mapping(data.get("state")).get("status") in _DONE
        case "reasoning":
            return bool(mapping(data.get("time")).get("end"))
        case "text":
            return "time" not in data or bool(mapping(data["time"]).get("end"))
    return True


def _started(piece: Piece) -> str:
    metadata = mapping(mapping(mapping(piece.data).get("state")).get("metadata"))
    return words(metadata.get("sessionId"))


def _finished(entry: NewEntry, message: Message, piece: Piece) -> NewEntry:
    data = mapping(piece.data)
    times = mapping(data.get("time")) or mapping(mapping(data.get("state")).get("time"))
    began = "" if message.role == "user" else moment(times.get("start")) or piece.at
    entry.record, entry.message_key = piece.record, message.id
    entry.created_at = began or message.at
    entry.model = model_of(message.data) if entry.role == "assistant" else ""
    return entry


def _row(message: Message) -> NewEntry:
    """The message itself: who answered, how it ended, and what it cost."""
    error, kind = message.data.get("error"), words(message.data.get("type"))
    ended = moment(mapping(message.data.get("time")).get("completed"))
    parts = (Opaque("error", error),) if error else () if message.role else (Opaque(kind, dict(message.data)),)
    return NewEntry(
        kind="event" if message.role or kind else "unknown",
        role=message.role,
        text=_failure(error),
        parts=parts,
        model=model_of(message.data) if message.role == "assistant" else "",
        message_key=message.id,
        record=message.record,
        created_at=ended or message.at,
    )


def model_of(data: Mapping[str, Json]) -> str:
    return words(data.get("modelID")) or words(mapping(data.get("model")).get("id"))


def _failure(error: Json) -> str:
    told = mapping(error)
    said = [words(told.get("name")), words(mapping(told.get("data")).get("message")) or words(told.get("message"))]
    return ": ".join(filter(None, said))


def _signature(data: Mapping[str, Json]) -> str:
    told = (words(mapping(vendor).get("signature")) for vendor in mapping(data.get("metadata")).values())
    return next(filter(None, told), "")


def _file(data: Mapping[str, Json]) -> Attachment:
    """What is given whole, as a data URL, stays in the record."""
    url = words(data.get("url"))
    inline = url.startswith("data:")
    size = len(url.partition(",")[2]) * 3 // 4 if inline else None
    return Attachment(words(data.get("mime")), words(data.get("filename")), size, "" if inline else url)


def _took(times: Mapping[str, Json]) -> float | None:
    began, ended = count(times.get("start")), count(times.get("end"))
    return float(ended - began) if began and ended >= began else None


def _tokens(told: Json) -> Tokens | None:
    """What was thought is part of the output in some releases, and beside it in others: the total tells."""
    usage = mapping(told)
    if not usage:
        return None
    given, made, thought = (count(usage.get(name)) for name in ("input", "output", "reasoning"))
    cached, written = (count(mapping(usage.get("cache")).get(name)) for name in ("read", "write"))
    beside = count(usage.get("total")) >= given + made + thought + cached + written
    return Tokens(given + written, made + thought * beside, cached)


def settled(told: Iterable[Told], everything: bool) -> Iterator[Told]:
    """As far as nothing of it will change any more; all of it where nobody will change it."""
    for one in told:
        if not (one.settled or everything):
            return
        yield one
