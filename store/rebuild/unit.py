"""This module defines units, from which the input of every API is built, and the report of a rebuild."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from store.model.entry import Json, Part, Thinking, ToolCall, ToolResult
from store.text.validate import encode_derived

ApiFormat = Literal["responses", "chat", "anthropic"]
CarriedOutcome = Literal["kept", "mapped", "added", "dropped"]
UnitRole = Literal["user", "assistant", "system", "tool"]

VENDORS: dict[ApiFormat, str] = {
    "responses": "OpenAI Responses",
    "chat": "OpenAI Chat",
    "anthropic": "Anthropic Messages",
}


@dataclass(frozen=True, slots=True)
class CarriedField:
    "Counts what became of one kind of field."

    field: str
    how: CarriedOutcome
    count: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class RebuildResult:
    "Holds the input of an API and a report of what was changed."

    body: dict[str, Json]
    "The input that the API accepts."
    carried: tuple[CarriedField, ...]
    mended: tuple[str, ...]
    "A sentence for each fault of the conversation, which says what was done about it."


class RebuildLog:
    """Counts what is kept, mapped, added and dropped, and lists the repairs."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, CarriedOutcome, str]] = Counter()
        self.repairs: list[str] = []

    def add(self, field: str, how: CarriedOutcome, why: str = "", count: int = 1) -> None:
        self._counts[field, how, why] += count

    def list_carried(self) -> tuple[CarriedField, ...]:
        fields = (CarriedField(field, how, count, why) for (field, how, why), count in self._counts.items() if count)
        return tuple(sorted(fields, key=lambda field: (_ORDER[field.how], field.field, field.why)))


_ORDER: dict[CarriedOutcome, int] = {"kept": 0, "mapped": 1, "added": 2, "dropped": 3}


class Payload(NamedTuple):
    """Holds the content of an attachment: bytes, a web address, or text."""

    media_type: str
    data: str = ""
    "Base64, as every vendor wants it."
    url: str = ""
    text: str | None = None
    name: str = ""

    @property
    def size(self) -> int:
        if self.text is not None:
            return len(self.text.encode("utf-8", "replace"))
        return len(self.data.rstrip("=")) * 3 // 4

    @property
    def data_url(self) -> str:
        return self.url or f"data:{self.media_type};base64,{self.data}"

    @property
    def is_image(self) -> bool:
        """Return whether every vendor accepts it as an image."""
        return self.media_type in ("image/png", "image/jpeg", "image/gif", "image/webp") or (
            bool(self.url) and self.media_type.startswith("image")
        )

    @property
    def is_pdf(self) -> bool:
        return self.media_type == "application/pdf" and bool(self.data)


ABSENT: Any = object()
"""Marks a missing value, because None may be a value that an API returned."""


@dataclass(slots=True)
class Unit:
    """The smallest thing that can be kept, moved or left out: an item, a block, or one part of a message."""

    role: UnitRole
    part: Part
    native: Json = ABSENT
    "The value in the format of the API, if the record has it. Otherwise it is built from the part."
    message_key: str = ""
    "Is shared by the units of one message of an API."
    payloads: tuple[Payload, ...] = ()
    "Everything in the record that could be the content of an attachment."
    is_server_side: bool = False
    "Is true for a call that the vendor itself answers, and for its result."
    is_synthetic: bool = False
    "Is true for a unit that was added so that the vendor accepts the rest."
    pair: int = -1
    "A number that a call and its result share; -1 for all other units."
    call_id: str = ""
    "The id that both get in the result."

    @property
    def is_native(self) -> bool:
        return self.native is not ABSENT

    @property
    def original_call_id(self) -> str:
        """Return the id of a call, or of the call of a result, as it was recorded."""
        match self.part:
            case ToolCall(name) | ToolResult(name):
                return name
        return ""

    @property
    def is_call(self) -> bool:
        return isinstance(self.part, ToolCall)

    @property
    def is_result(self) -> bool:
        return isinstance(self.part, ToolResult)

    @property
    def is_thinking(self) -> bool:
        return isinstance(self.part, Thinking)


@dataclass(slots=True)
class NativeRecord:
    """Holds a record in the format of an API: the units of its first entry, of its second, and so on."""

    api_format: ApiFormat
    units_by_entry: list[list[Unit]]
    metadata_fields: list[str] = field(default_factory=list)
    "Names fields that describe the message and are not part of it."


def as_dict(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def as_str(value: Json) -> str:
    return value if isinstance(value, str) else ""


def json_text(value: Json) -> str:
    return encode_derived(value).decode("utf-8", "replace")


def is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})
