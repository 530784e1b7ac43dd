"""Entries into what an LLM's API takes as input. Pure: entries and their records in, items out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from store.coding import encode
from store.model import (
    Attachment,
    Entry,
    Json,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    readable,
)


def responses_input(entries: Sequence[Entry], records: Mapping[int, Json]) -> list[Json]:
    """Input items of the Responses API. What came from that API is given back item by item, untouched."""
    items: list[Json] = []
    seen: set[int] = set()
    for entry in entries:
        if entry.kind not in ("message", "compaction"):
            continue
        record = records.get(entry.record) if entry.record is not None else None
        native = _native_items(record)
        if native is None:
            items.extend(_items_of_parts(entry))
        elif entry.record not in seen:
            items.extend(native)
        if entry.record is not None:
            seen.add(entry.record)
    return items


def _native_items(record: Json) -> list[Json] | None:
    """The items a record of that API holds: a Response's output, or the input it was given."""
    if not isinstance(record, Mapping):
        return None
    for name in ("output", "input"):
        if isinstance(record.get(name), list):
            return list(record[name])
    return None


def _items_of_parts(entry: Entry) -> Iterable[Json]:
    spoken: list[Part] = []
    for part in entry.parts:
        if isinstance(part, Text | Attachment | Opaque):
            spoken.append(part)
            continue
        if spoken:
            yield _message(entry.role, spoken)
            spoken = []
        if (item := _item_of_part(part)) is not None:
            yield item
    if spoken:
        yield _message(entry.role, spoken)


def _message(role: str, parts: Sequence[Part]) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": _spoken(part)} for part in parts]
    return {"type": "message", "role": role or "user", "content": content}


def _spoken(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case Attachment(media_type, name):
            return f"[{media_type} {name}]".replace(" ]", "]")
        case Opaque(_, value):
            return encode(value).decode()
    return ""


def _item_of_part(part: Part) -> Json | None:
    match part:
        case ToolCall(id, name, arguments):
            spelled = arguments if isinstance(arguments, str) else encode(arguments).decode()
            return {"type": "function_call", "call_id": id, "name": name, "arguments": spelled}
        case ToolResult(call_id, output):
            return {"type": "function_call_output", "call_id": call_id, "output": readable(output)}
        case Thinking():
            # Reasoning of another vendor means nothing to this one, and its signature would be refused.
            return None
    return None
