"""This module defines entries, their parts, tool calls and turns. Readers create them, the store keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from store.model.status import Activity
from store.model.usage import Usage

Json = Any
"""Is any JSON value that another program wrote."""

Status = Literal["ok", "error", "pending", "orphan"]


# ── parts ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    text: str
    signature: str = ""
    "Is opaque to us. The provider requires it when the conversation continues."


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class ToolResult:
    call_id: str
    output: Json
    is_error: bool = False
    name: str = ""
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    media_type: str
    name: str = ""
    size: int | None = None
    uri: str = ""


@dataclass(frozen=True, slots=True)
class Opaque:
    "Holds a value that a reader did not understand. It is kept and shown as JSON."

    kind: str
    value: Json


Part = Text | Thinking | ToolCall | ToolResult | Attachment | Opaque

_PART_TYPES: dict[str, type[Part]] = {
    "text": Text,
    "thinking": Thinking,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "attachment": Attachment,
    "opaque": Opaque,
}
_PART_NAMES = {kind: name for name, kind in _PART_TYPES.items()}
_PART_FIELDS = {kind: tuple(kind.__dataclass_fields__) for kind in _PART_NAMES}


def part_to_json(part: Part) -> dict[str, Json]:
    kind = type(part)
    value: dict[str, Json] = {"type": _PART_NAMES[kind]}
    for name in _PART_FIELDS[kind]:
        value[name] = getattr(part, name)
    return value


def part_from_json(value: Mapping[str, Json]) -> Part:
    kind = _PART_TYPES.get(value.get("type", ""))
    if kind is None:
        return Opaque(str(value.get("type", "")), dict(value))
    return kind(**{name: value[name] for name in _PART_FIELDS[kind] if name in value})


def readable_text(value: Json, levels: int = 200) -> str:
    """Return the text of a tool's output for a person to read. Values deeper than `levels` are left out."""
    if isinstance(value, str):
        return value
    if value is None or not levels:
        return ""
    if isinstance(value, Mapping):
        for name in ("text", "output", "content", "stdout"):
            if isinstance(value.get(name), str | list):
                return readable_text(value[name], levels - 1)
        return "\n".join([f"{name}: {readable_text(item, levels - 1)}" for name, item in value.items()])
    if isinstance(value, Iterable):
        return "\n".join(filter(None, [readable_text(item, levels - 1) for item in value]))
    return str(value)


# ── new entries ───────────────────────────────────────────────────────────────────────────────────


class Tokens(NamedTuple):
    """Counts the tokens of a model call. They add up: no token is counted twice."""

    input: int = 0
    "Does not include tokens that were read from a cache or written to one."
    output: int = 0
    cache_read: int = 0
    "Also holds the written ones in entries that version 0.1.0 stored, because it did not keep them apart."
    cache_write: int = 0

    @property
    def cached(self) -> int:
        return self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        return self.input + self.output + self.cached


class NewRecord(NamedTuple):
    """Holds a record as the foreign program wrote it, and its address."""

    data: bytes
    place: str = ""
    "Is a path or the name of a table."
    position: str = ""
    "Is an offset in the file or the key of the row."


@dataclass(slots=True)
class NewEntry:
    "Describes an entry that is to be appended. The store assigns its key, parent, seq and turn."

    kind: str = "message"
    role: str = ""
    parts: tuple[Part, ...] = ()
    author: str = ""
    model: str = ""
    text: str | None = None
    "Holds the text for a person to read. When it is None, the text parts are joined."
    is_prompt: bool | None = None
    "Says whether a person wrote this and a turn begins. When it is None, role and parts decide."
    message_key: str = ""
    "Is the same for all entries of one API message."
    record: NewRecord | None = None
    "Is the same object for all entries of one record."
    inherited: bool = False
    "Is true for a copy of an entry of the parent session. It is shown, but only the original is counted and indexed."
    tokens: Tokens | None = None
    created_at: str = ""
    activity: Activity | None = None
    "Says what the agent does after this entry, if its record tells. When it is None, role and parts decide."
    usage: Usage | None = None
    "Holds the usage of the API response that its record reports. Records of one response may repeat it."

    def begins_turn(self) -> bool:
        if self.is_prompt is not None:
            return self.is_prompt
        if self.role != "user" or self.kind != "message":
            return False
        return any(type(part) is not ToolResult for part in self.parts)

    def get_text(self) -> str:
        if self.text is not None or not self.parts:
            return self.text or ""
        return "\n\n".join([part.text for part in self.parts if type(part) is Text])


# ── stored entries ────────────────────────────────────────────────────────────────────────────────


class Entry(NamedTuple):
    """Describes a stored entry of a session."""

    key: int
    session: int
    parent: int | None
    seq: int
    record: int | None
    turn: int
    kind: str
    role: str
    author: str
    model: str
    message_key: str
    text: str
    parts: tuple[Part, ...]
    inherited: bool
    tokens: Tokens | None
    created_at: str


class PairedCall(NamedTuple):
    """Describes a tool call together with its result."""

    key: int
    session_id: str
    turn: int
    call_id: str
    name: str
    status: Status
    duration_ms: float | None
    entry: str | None
    "Is the public id of the entry with the call, or None for a result without a call."
    result_entry: str | None
    arguments: Json
    result: Json
    at: str
    exit_code: int | None = None
    "Is filled in for the failed calls of a timeline, if the agent recorded it elsewhere than in the result."
    recorded_diff: Json = None
    "Is filled in for the edits of a timeline, if the agent recorded a diff with the result."


@dataclass(frozen=True, slots=True)
class Turn:
    n: int
    prompt: str
    started_at: str
    ended_at: str
    entries: tuple[Entry, ...]
    tool_calls: tuple[PairedCall, ...]


class StoredMessage(NamedTuple):
    """Describes a message as `Store.get_messages` returns it: its role, and its content as a list of content blocks."""

    id: str
    session_id: str
    seq: int
    role: str
    content: list[Json]
    created_at: str
    author: str = ""
    "Is who said it, if the conversation has several people."


INTERRUPTED_RESULT = "Interrupted: the conversation was forked before this call had ended."
"""Is the result that a fork adds to a pending call. No vendor continues a conversation with a pending call."""
