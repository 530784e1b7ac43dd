"""The types that everybody shares. No SQL, no I/O: readers make them, the store keeps them, screens show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Json = Any
"""A value that JSON can spell: what a foreign program wrote, before anybody understood it."""

Status = Literal["ok", "error", "pending", "orphan"]

UNKNOWN_USER = "unknown_user"
"""Who spoke when nobody says."""


# ── parts ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    text: str
    signature: str = ""
    "Opaque to us; the provider wants it back."


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
    "Anything a reader did not understand: kept, shown raw, never dropped."

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
    shown: dict[str, Json] = {"type": _PART_NAMES[kind]}
    for name in _PART_FIELDS[kind]:
        shown[name] = getattr(part, name)
    return shown


def part_from_json(value: Mapping[str, Json]) -> Part:
    kind = _PART_TYPES.get(value.get("type", ""))
    if kind is None:
        return Opaque(str(value.get("type", "")), dict(value))
    known = _PART_FIELDS[kind]
    return kind(**{name: value[name] for name in known if name in value})


def readable_text(value: Json, levels: int = 200) -> str:
    """What a person would read of a tool's output, whichever of the usual shapes it has; nothing from too deep down."""
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


# ── what is appended ──────────────────────────────────────────────────────────────────────────────


class Tokens(NamedTuple):
    input: int = 0
    "Without what came from a cache."
    output: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cached


@dataclass(frozen=True, slots=True)
class NewRecord:
    "A record as the foreign program wrote it, and where it stood."

    data: bytes
    place: str = ""
    "A path or a table."
    position: str = ""
    "An offset or a row's key."


@dataclass(slots=True)
class NewEntry:
    "An entry on its way into a chain. The store gives it its id, parent, seq and turn."

    kind: str = "message"
    role: str = ""
    parts: tuple[Part, ...] = ()
    author: str = ""
    model: str = ""
    text: str | None = None
    "What a person would read; taken from the parts when not given."
    is_prompt: bool | None = None
    "Whether a person said this and a turn begins; told by role and parts when not given."
    message_key: str = ""
    "Shared by the entries of one API message."
    record: NewRecord | None = None
    "Entries of one record carry the same object."
    inherited: bool = False
    "A copy of what the parent holds already: shown, but counted and indexed only there."
    tokens: Tokens | None = None
    created_at: str = ""

    def begins_turn(self) -> bool:
        if self.is_prompt is not None:
            return self.is_prompt
        if self.role != "user" or self.kind != "message":
            return False
        return any(type(part) is not ToolResult for part in self.parts)

    def get_text(self) -> str:
        if self.text is not None:
            return self.text
        return "\n\n".join([part.text for part in self.parts if type(part) is Text])


# ── what is read back ─────────────────────────────────────────────────────────────────────────────


class Entry(NamedTuple):
    """One link of a chain, as it is kept."""

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
    """A tool call together with its result."""

    key: int
    session_id: str
    turn: int
    call_id: str
    name: str
    status: Status
    duration_ms: float | None
    entry: str | None
    "The public id of the entry that called; None for a result nobody asked for."
    result_entry: str | None
    arguments: Json
    result: Json
    at: str


@dataclass(frozen=True, slots=True)
class Turn:
    n: int
    prompt: str
    started_at: str
    ended_at: str
    entries: tuple[Entry, ...]
    tool_calls: tuple[PairedCall, ...]


class StoredMessage(NamedTuple):
    """A message in the fourth document's words: role, and content as the blocks it was given."""

    id: str
    session_id: str
    seq: int
    role: str
    content: list[Json]
    created_at: str


# ── identity ──────────────────────────────────────────────────────────────────────────────────────


INTERRUPTED_RESULT = "Interrupted: the conversation was forked before this call had ended."
"""What a fork answers a call with that had no answer yet: no vendor goes on with an open one."""
