"""This module turns opencode's messages into entries: one for each part, and a last one for the message itself.

opencode rewrites a part in place while it grows. Every entry therefore says whether it is settled, that is, whether
it will not change any more.
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
    ToolCall,
    ToolResult,
)
from store.sources.kit.jsonl import as_count, as_dict, as_list, as_str, as_time
from store.sources.kit.usage import tokens_from_usage
from store.sources.opencode.outputs import read_full_output
from store.sources.opencode.usage import read_usage

_FINISHED_STATUSES = ("completed", "error")
_EVENT_TYPES = ("step-start", "step-finish", "snapshot", "patch", "compaction")


class OpencodePart(NamedTuple):
    """Holds a part of a message."""

    id: str
    data: Json
    record: NewRecord
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class OpencodeMessage:
    """Holds a message as opencode stores it."""

    id: str
    data: Mapping[str, Json]
    record: NewRecord
    created_at: str = ""
    parts: tuple[OpencodePart, ...] | None = None
    "Is given when the parts are in the message's own record, which is settled as a whole; else None."

    @property
    def role(self) -> str:
        return as_str(self.data.get("role"))

    @property
    def is_finished(self) -> bool:
        if self.role != "assistant":
            return self.parts is not None
        end = as_dict(self.data.get("time")).get("completed") or self.data.get("error")
        return bool(end or (self.parts is not None and self.data.get("finish")))

    @property
    def is_summary(self) -> bool:
        """Return whether this is a compaction. In a user's message, `summary` means something else."""
        return self.role == "assistant" and self.data.get("summary") is True


class OpencodeEntry(NamedTuple):
    """Pairs an entry with the message and the part that it came from."""

    entry: NewEntry
    is_settled: bool
    message_id: str
    part_id: str
    "Is empty for the message itself."
    sub_agent_id: str = ""
    "Names the session of a sub-agent that a tool call started."


class OpencodeEntryReader:
    """Turns the messages of a session into entries."""

    def __init__(
        self, read_parts: Callable[[OpencodeMessage], Iterable[OpencodePart]], outputs_folder: Path | None
    ) -> None:
        self._read_parts = read_parts
        self._outputs_folder = outputs_folder

    def read_entries(self, messages: Sequence[OpencodeMessage]) -> Iterator[OpencodeEntry]:
        """Yield the entries of the messages in order.

        An answer is settled when the next answer begins. A message of the user in between does not end it.
        """
        answers = [index for index, message in enumerate(messages) if message.role == "assistant"]
        for index, message in enumerate(messages):
            is_past = index < (answers[-1] if answers else -1)
            yield from self._read_message(message, is_past or message.is_finished)

    def _read_message(self, message: OpencodeMessage, settled: bool) -> Iterator[OpencodeEntry]:
        is_one_record = message.parts is not None
        parts = list(message.parts if message.parts is not None else self._read_parts(message))
        prompt_id = _find_prompt_part(parts) if message.role == "user" else ""
        for part in parts:
            entry = _complete_entry(self._parse_part(message, part, prompt=part.id == prompt_id), message, part)
            part_settled = settled or (not is_one_record and _is_settled(part))
            yield OpencodeEntry(entry, part_settled, message.id, part.id, _find_sub_agent_id(part))
        has_step_tokens = any(as_dict(part.data).get("type") == "step-finish" for part in parts)
        message_entry = _build_message_entry(message)
        if not has_step_tokens:
            message_entry.usage = read_usage(message.data, message.data)
            message_entry.tokens = tokens_from_usage(message_entry.usage)
        yield OpencodeEntry(message_entry, settled, message.id, "")

    def _parse_part(self, message: OpencodeMessage, part: OpencodePart, *, prompt: bool) -> NewEntry:
        data = as_dict(part.data)
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
                text = as_str(data.get("prompt")) or as_str(data.get("description"))
                return NewEntry(role=role, parts=(Text(text),), is_prompt=prompt)
            case "retry":
                return NewEntry(
                    kind="event", role=role, text=_format_error(data.get("error")), parts=(Opaque(kind, data),)
                )
            case "agent":
                return NewEntry(kind="event", role=role, text=as_str(data.get("name")))
            case _ if kind in _EVENT_TYPES:
                usage = read_usage(data, message.data)
                return NewEntry(kind="event", role=role, tokens=tokens_from_usage(usage), usage=usage)
        return NewEntry(kind="unknown", parts=(Opaque(kind, part.data),))

    def _parse_tool(self, data: Mapping[str, Json]) -> Iterator[Part]:
        """Yield a call and its result, which are one part. Only the exit code says that a command failed."""
        state, call_id = as_dict(data.get("state")), as_str(data.get("callID"))
        yield ToolCall(call_id, data["tool"], state.get("input"))
        if state.get("status") not in _FINISHED_STATUSES:
            return
        failed = state["status"] == "error" or as_dict(state.get("metadata")).get("exit") not in (0, None)
        output = state.get("error") if state["status"] == "error" else read_full_output(state, self._outputs_folder)
        yield ToolResult(call_id, output, failed, data["tool"], _duration_ms(as_dict(state.get("time"))))
        yield from (_parse_attachment(as_dict(attachment)) for attachment in as_list(state.get("attachments")))


def _find_prompt_part(parts: Sequence[OpencodePart]) -> str:
    """Return the id of the part that begins a turn: the user's first text, or else a subtask or a file."""
    parts_data = [(part.id, as_dict(part.data)) for part in parts]
    for kind in ("text", "subtask", "file"):
        for part_id, data in parts_data:
            if data.get("type") == kind and not _is_injected(data):
                return part_id
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


def _is_settled(part: OpencodePart) -> bool:
    data = as_dict(part.data)
    match data.get("type"):
        case "tool":
            return as_dict(data.get("state")).get("status") in _FINISHED_STATUSES
        case "reasoning":
            return bool(as_dict(data.get("time")).get("end"))
        case "text":
            return "time" not in data or bool(as_dict(data["time"]).get("end"))
    return True


def _find_sub_agent_id(part: OpencodePart) -> str:
    metadata = as_dict(as_dict(as_dict(part.data).get("state")).get("metadata"))
    return as_str(metadata.get("sessionId"))


def _complete_entry(entry: NewEntry, message: OpencodeMessage, part: OpencodePart) -> NewEntry:
    data = as_dict(part.data)
    times = as_dict(data.get("time")) or as_dict(as_dict(data.get("state")).get("time"))
    started_at = "" if message.role == "user" else as_time(times.get("start")) or part.created_at
    entry.record, entry.message_key = part.record, message.id
    entry.created_at = started_at or message.created_at
    entry.model = parse_model(message.data) if entry.role == "assistant" else ""
    return entry


def _build_message_entry(message: OpencodeMessage) -> NewEntry:
    """Build the entry for the message itself: the model, the error if any, and the time when it ended."""
    error, kind = message.data.get("error"), as_str(message.data.get("type"))
    ended_at = as_time(as_dict(message.data.get("time")).get("completed"))
    parts = (Opaque("error", error),) if error else () if message.role else (Opaque(kind, dict(message.data)),)
    return NewEntry(
        kind="event" if message.role or kind else "unknown",
        role=message.role,
        text=_format_error(error),
        parts=parts,
        model=parse_model(message.data) if message.role == "assistant" else "",
        message_key=message.id,
        record=message.record,
        created_at=ended_at or message.created_at,
    )


def parse_model(data: Mapping[str, Json]) -> str:
    return as_str(data.get("modelID")) or as_str(as_dict(data.get("model")).get("id"))


def _format_error(error: Json) -> str:
    data = as_dict(error)
    texts = [as_str(data.get("name")), as_str(as_dict(data.get("data")).get("message")) or as_str(data.get("message"))]
    return ": ".join(filter(None, texts))


def _find_signature(data: Mapping[str, Json]) -> str:
    signatures = (as_str(as_dict(vendor).get("signature")) for vendor in as_dict(data.get("metadata")).values())
    return next(filter(None, signatures), "")


def _parse_attachment(data: Mapping[str, Json]) -> Attachment:
    """Return an attachment. Data that is given inline, as a data URL, stays in the record."""
    url = as_str(data.get("url"))
    inline = url.startswith("data:")
    size = len(url.partition(",")[2]) * 3 // 4 if inline else None
    return Attachment(as_str(data.get("mime")), as_str(data.get("filename")), size, "" if inline else url)


def _duration_ms(times: Mapping[str, Json]) -> float | None:
    start, end = as_count(times.get("start")), as_count(times.get("end"))
    return float(end - start) if start and end >= start else None


def take_settled(entries: Iterable[OpencodeEntry], include_unsettled: bool) -> Iterator[OpencodeEntry]:
    """Yield entries up to the first that may still change, or all of them with `include_unsettled`."""
    for entry in entries:
        if not (entry.is_settled or include_unsettled):
            return
        yield entry
