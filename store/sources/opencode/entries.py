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
from store.sources.kit.jsonl import as_count, as_dict, as_list, as_str, as_time
from store.sources.opencode.outputs import read_full_output

_FINISHED_STATUSES = ("completed", "error")
_EVENT_TYPES = ("step-start", "step-finish", "snapshot", "patch", "compaction")


class OpencodePart(NamedTuple):
    "A part of a message."

    id: str
    data: Json
    record: NewRecord
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class OpencodeMessage:
    id: str
    data: Mapping[str, Json]
    record: NewRecord
    created_at: str = ""
    parts: tuple[OpencodePart, ...] | None = None
    "Where they stand in the message's own record, which is settled as a whole."

    @property
    def role(self) -> str:
        return as_str(self.data.get("role"))

    @property
    def is_finished(self) -> bool:
        if self.role != "assistant":
            return self.parts is not None
        ended = as_dict(self.data.get("time")).get("completed") or self.data.get("error")
        return bool(ended or (self.parts is not None and self.data.get("finish")))

    @property
    def is_summary(self) -> bool:
        "A person's message may have a summary of another kind."
        return self.role == "assistant" and self.data.get("summary") is True


class OpencodeEntry(NamedTuple):
    entry: NewEntry
    is_settled: bool
    message_id: str
    part_id: str
    "Empty for the message itself."
    sub_agent_id: str = ""
    "The session of a sub-agent that a call began."


class OpencodeEntryReader:
    def __init__(self, parts_of: Callable[[OpencodeMessage], Iterable[OpencodePart]], outputs: Path | None) -> None:
        self._read_parts = parts_of
        self._outputs_folder = outputs

    def read_entries(self, messages: Sequence[OpencodeMessage]) -> Iterator[OpencodeEntry]:
        """What a person asks while an answer is under way does not end it: only the next answer does."""
        answers = [place for place, message in enumerate(messages) if message.role == "assistant"]
        for place, message in enumerate(messages):
            past = place < (answers[-1] if answers else -1)
            yield from self._read_message(message, past or message.is_finished)

    def _read_message(self, message: OpencodeMessage, settled: bool) -> Iterator[OpencodeEntry]:
        whole = message.parts is not None
        pieces = list(message.parts if message.parts is not None else self._read_parts(message))
        opening = _find_prompt_part(pieces) if message.role == "user" else ""
        for piece in pieces:
            entry = _complete_entry(self._parse_part(message, piece, prompt=piece.id == opening), message, piece)
            done = settled or (not whole and _is_settled(piece))
            yield OpencodeEntry(entry, done, message.id, piece.id, _find_sub_agent_id(piece))
        steps = any(as_dict(piece.data).get("type") == "step-finish" for piece in pieces)
        row = _build_message_entry(message)
        row.tokens = None if steps else _parse_tokens(message.data.get("tokens"))
        yield OpencodeEntry(row, settled, message.id, "")

    def _parse_part(self, message: OpencodeMessage, piece: OpencodePart, *, prompt: bool) -> NewEntry:
        data = as_dict(piece.data)
        kind, role, text = as_str(data.get("type")), message.role, data.get("text")
        match kind:
            case "text" if isinstance(text, str):
                return _parse_text(message, data, text, prompt)
            case "reasoning" if isinstance(text, str):
                return NewEntry(role=role, parts=(Thinking(text, _find_signature(data)),), is_prompt=False)
            case "tool" if isinstance(data.get("tool"), str):
                return NewEntry(role=role, parts=tuple(self._parse_tool(data)), is_prompt=False)
            case "file":
                return NewEntry(role=role, parts=(_parse_attachment(data),), is_prompt=prompt)
            case "subtask":
                said = as_str(data.get("prompt")) or as_str(data.get("description"))
                return NewEntry(role=role, parts=(Text(said),), is_prompt=prompt)
            case "retry":
                return NewEntry(
                    kind="event", role=role, text=_format_error(data.get("error")), parts=(Opaque(kind, data),)
                )
            case "agent":
                return NewEntry(kind="event", role=role, text=as_str(data.get("name")))
            case _ if kind in _EVENT_TYPES:
                return NewEntry(kind="event", role=role, tokens=_parse_tokens(data.get("tokens")))
        return NewEntry(kind="unknown", parts=(Opaque(kind, piece.data),))

    def _parse_tool(self, data: Mapping[str, Json]) -> Iterator[Part]:
        """A call and its answer are one part. A command that failed is flagged by its exit code alone."""
        state, call_id = as_dict(data.get("state")), as_str(data.get("callID"))
        yield ToolCall(call_id, data["tool"], state.get("input"))
        if state.get("status") not in _FINISHED_STATUSES:
            return
        failed = state["status"] == "error" or as_dict(state.get("metadata")).get("exit") not in (0, None)
        output = state.get("error") if state["status"] == "error" else read_full_output(state, self._outputs_folder)
        yield ToolResult(call_id, output, failed, data["tool"], _duration_ms(as_dict(state.get("time"))))
        yield from (_parse_attachment(as_dict(one)) for one in as_list(state.get("attachments")))


def _find_prompt_part(pieces: Sequence[OpencodePart]) -> str:
    """The part with which a turn begins: the first words of the person's own, or what was handed over without any."""
    parts = [(piece.id, as_dict(piece.data)) for piece in pieces]
    for wanted in ("text", "subtask", "file"):
        for name, data in parts:
            if data.get("type") == wanted and not _is_injected(data):
                return name
    return ""


def _is_injected(data: Mapping[str, Json]) -> bool:
    return data.get("synthetic") is True or data.get("ignored") is True


def _parse_text(message: OpencodeMessage, data: Mapping[str, Json], text: str, prompt: bool) -> NewEntry:
    if data.get("ignored") is True:
        return NewEntry(kind="event", role=message.role, parts=(Text(text),))
    if message.is_summary:
        return NewEntry(kind="compaction", role="system", parts=(Text(text),))
    hidden = data.get("synthetic") is True
    return NewEntry(role=message.role, parts=(Text(text),), is_prompt=prompt, text="" if hidden else text)


def _is_settled(piece: OpencodePart) -> bool:
    data = as_dict(piece.data)
    match data.get("type"):
        case "tool":
            return as_dict(data.get("state")).get("status") in _FINISHED_STATUSES
        case "reasoning":
            return bool(as_dict(data.get("time")).get("end"))
        case "text":
            return "time" not in data or bool(as_dict(data["time"]).get("end"))
    return True


def _find_sub_agent_id(piece: OpencodePart) -> str:
    metadata = as_dict(as_dict(as_dict(piece.data).get("state")).get("metadata"))
    return as_str(metadata.get("sessionId"))


def _complete_entry(entry: NewEntry, message: OpencodeMessage, piece: OpencodePart) -> NewEntry:
    data = as_dict(piece.data)
    times = as_dict(data.get("time")) or as_dict(as_dict(data.get("state")).get("time"))
    began = "" if message.role == "user" else as_time(times.get("start")) or piece.created_at
    entry.record, entry.message_key = piece.record, message.id
    entry.created_at = began or message.created_at
    entry.model = parse_model(message.data) if entry.role == "assistant" else ""
    return entry


def _build_message_entry(message: OpencodeMessage) -> NewEntry:
    """The message itself: who answered, how it ended, and what it cost."""
    error, kind = message.data.get("error"), as_str(message.data.get("type"))
    ended = as_time(as_dict(message.data.get("time")).get("completed"))
    parts = (Opaque("error", error),) if error else () if message.role else (Opaque(kind, dict(message.data)),)
    return NewEntry(
        kind="event" if message.role or kind else "unknown",
        role=message.role,
        text=_format_error(error),
        parts=parts,
        model=parse_model(message.data) if message.role == "assistant" else "",
        message_key=message.id,
        record=message.record,
        created_at=ended or message.created_at,
    )


def parse_model(data: Mapping[str, Json]) -> str:
    return as_str(data.get("modelID")) or as_str(as_dict(data.get("model")).get("id"))


def _format_error(error: Json) -> str:
    told = as_dict(error)
    said = [as_str(told.get("name")), as_str(as_dict(told.get("data")).get("message")) or as_str(told.get("message"))]
    return ": ".join(filter(None, said))


def _find_signature(data: Mapping[str, Json]) -> str:
    told = (as_str(as_dict(vendor).get("signature")) for vendor in as_dict(data.get("metadata")).values())
    return next(filter(None, told), "")


def _parse_attachment(data: Mapping[str, Json]) -> Attachment:
    """What is given whole, as a data URL, stays in the record."""
    url = as_str(data.get("url"))
    inline = url.startswith("data:")
    size = len(url.partition(",")[2]) * 3 // 4 if inline else None
    return Attachment(as_str(data.get("mime")), as_str(data.get("filename")), size, "" if inline else url)


def _duration_ms(times: Mapping[str, Json]) -> float | None:
    began, ended = as_count(times.get("start")), as_count(times.get("end"))
    return float(ended - began) if began and ended >= began else None


def _parse_tokens(told: Json) -> Tokens | None:
    """What was thought is part of the output in some releases, and beside it in others: the total tells."""
    usage = as_dict(told)
    if not usage:
        return None
    given, made, thought = (as_count(usage.get(name)) for name in ("input", "output", "reasoning"))
    cached, written = (as_count(as_dict(usage.get("cache")).get(name)) for name in ("read", "write"))
    beside = as_count(usage.get("total")) >= given + made + thought + cached + written
    return Tokens(given + written, made + thought * beside, cached)


def take_settled(told: Iterable[OpencodeEntry], include_unsettled: bool) -> Iterator[OpencodeEntry]:
    """As far as nothing of it will change any more; all of it where nobody will change it."""
    for one in told:
        if not (one.is_settled or include_unsettled):
            return
        yield one
