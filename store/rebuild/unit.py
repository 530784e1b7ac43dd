"""What every spelling of a conversation is made of: units, one part each, as the wanted API said it or in our words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from store.model.entry import Json, Part, Thinking, ToolCall, ToolResult
from store.text.validate import encode_derived

ApiFormat = Literal["responses", "chat", "anthropic"]
CarriedOutcome = Literal["kept", "mapped", "dropped"]
UnitRole = Literal["user", "assistant", "system", "tool"]

VENDORS: dict[ApiFormat, str] = {
    "responses": "OpenAI Responses",
    "chat": "OpenAI Chat",
    "anthropic": "Anthropic Messages",
}


@dataclass(frozen=True, slots=True)
class CarriedField:
    "What became of one kind of thing on its way."

    field: str
    how: CarriedOutcome
    count: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class RebuildResult:
    body: dict[str, Json]
    "What the API takes."
    carried: tuple[CarriedField, ...]
    mended: tuple[str, ...]
    "What was wrong with the conversation, and what was done about it; a sentence each."


class RebuildLog:
    """Keeps count of what is kept, mapped and dropped, and of what was mended."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, CarriedOutcome, str]] = Counter()
        self.repairs: list[str] = []

    def add(self, field: str, how: CarriedOutcome, why: str = "", count: int = 1) -> None:
        self._counts[field, how, why] += count

    def list_carried(self) -> tuple[CarriedField, ...]:
        told = (CarriedField(field, how, count, why) for (field, how, why), count in self._counts.items() if count)
        return tuple(sorted(told, key=lambda one: (_ORDER[one.how], one.field, one.why)))


_ORDER: dict[CarriedOutcome, int] = {"kept": 0, "mapped": 1, "dropped": 2}


class Payload(NamedTuple):
    """What an attachment holds: bytes, where they lie on the web, or words."""

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
        """Of a kind that every vendor looks at."""
        return self.media_type in ("image/png", "image/jpeg", "image/gif", "image/webp") or (
            bool(self.url) and self.media_type.startswith("image")
        )

    @property
    def is_pdf(self) -> bool:
        return self.media_type == "application/pdf" and bool(self.data)


ABSENT: Any = object()
"""Where there is nothing; null, too, is something that an API may have said."""


@dataclass(slots=True)
class Unit:
    """The smallest thing that can be kept, moved or left out: an item, a block, one part of a message."""

    role: UnitRole
    part: Part
    native: Json = ABSENT
    "As the wanted API has it, where it does; else it is spelled from the part."
    message_key: str = ""
    "Units of one message of an API share it."
    payloads: tuple[Payload, ...] = ()
    "What the part's attachments hold."
    is_server_side: bool = False
    "A call that the vendor itself answers, or its answer: nobody else can."
    is_synthetic: bool = False
    "Nobody said it; it stands there so that the vendor takes the rest."
    pair: int = -1
    "The same for a call and its result, and for no other."
    call_id: str = ""
    "What both are to be called."

    @property
    def is_native(self) -> bool:
        return self.native is not ABSENT

    @property
    def original_call_id(self) -> str:
        """What a call is called where it was made."""
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
    """A record as an API would read it: what belongs to its first entry, to its second, and so on."""

    api_format: ApiFormat
    units_by_entry: list[list[Unit]]
    metadata_fields: list[str] = field(default_factory=list)
    "Fields that were said of the message, and are not part of it."


def as_dict(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def as_str(value: Json) -> str:
    return value if isinstance(value, str) else ""


def json_text(value: Json) -> str:
    return encode_derived(value).decode("utf-8", "replace")


def is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})
