"""This module converts messages and Responses into entries, and entries back into messages. It is pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from store.errors import BadValue
from store.formats.content_blocks import parse_blocks, parse_item, parse_response_tokens, part_to_block
from store.model.entry import Entry, Json, NewEntry, NewRecord, StoredMessage, Text
from store.model.session import entry_id
from store.rebuild import decode_or_none
from store.text.validate import check_depth, decode, encode

# ── messages of blocks ────────────────────────────────────────────────────────────────────────────


def build_message_entry(role: str, blocks: str | Sequence[Json], author: str, model: str) -> NewEntry:
    data = encode({"role": role, "content": blocks})
    # The parts come from the encoded form, because a later purge derives them from it again, and must find in the
    # search index exactly the words that were added.
    content = blocks if isinstance(blocks, str) else decode(data)["content"]
    return NewEntry(role=role, parts=parse_blocks(content), author=author, model=model, record=NewRecord(data))


def build_stored_messages(
    session_id: str, entries: Iterable[Entry], records: Mapping[int, bytes]
) -> list[StoredMessage]:
    return [
        StoredMessage(
            entry_id(session_id, entry.seq),
            session_id,
            entry.seq,
            entry.role,
            _read_original_blocks(entry, records.get(entry.record or 0)),
            entry.created_at,
            entry.author,
        )
        for entry in entries
        if entry.kind == "message"
    ]


def _read_original_blocks(entry: Entry, data: bytes | None) -> list[Json]:
    """Return the blocks of a message as its record has them, else as its parts say. Text becomes a text block."""
    record = decode_or_none(data) if data is not None else None
    content = record.get("content") if isinstance(record, Mapping) else None
    if isinstance(record, Mapping) and record.keys() == {"role", "content"}:
        blocks = [part_to_block(Text(content))] if isinstance(content, str) else content
        return list(blocks) if isinstance(blocks, list) else []
    blocks = decode_or_none(content) if isinstance(content, str) and content.startswith("[") else content
    # A row of a database may have blocks as JSON, and another one text that looks like JSON.
    if isinstance(blocks, list) and parse_blocks(blocks) == entry.parts:
        return blocks
    return [part_to_block(part) for part in entry.parts]


# ── Responses into entries ────────────────────────────────────────────────────────────────────────


def parse_prompt(prompt: str | Sequence[Json]) -> list[NewEntry]:
    if isinstance(prompt, str):
        items: Sequence[Json] = [{"role": "user", "content": prompt}]
    else:
        items = prompt
    record = NewRecord(encode({"input": list(items)}))
    items = decode(record.data)["input"]
    return [NewEntry(role=item_role(item, "user"), parts=parse_item(item), record=record) for item in items]


def parse_response(response: Json) -> list[NewEntry]:
    """Return an entry for each output item. They all share one record, the Response as it came."""
    data, value = _encode_response(response)
    record = NewRecord(data)
    output = value.get("output")
    items = output if isinstance(output, list) else []
    model = value.get("model") if isinstance(value.get("model"), str) else ""
    key = str(value.get("id") or "")
    entries = [
        NewEntry(
            role=item_role(item, "assistant"),
            parts=parse_item(item),
            model=model or "",
            message_key=key,
            record=record,
        )
        for item in items
    ] or [NewEntry(role="assistant", model=model or "", message_key=key, record=record)]
    entries[-1].tokens = parse_response_tokens(value)
    return entries


def item_role(item: Json, default: str) -> str:
    if not isinstance(item, Mapping):
        return default
    kind = str(item.get("type") or "message")
    if kind == "message":
        return str(item.get("role") or default)
    return "tool" if kind.endswith("_output") else "assistant"


def _encode_response(response: Json) -> tuple[bytes, Mapping[str, Json]]:
    if isinstance(response, bytes | str):
        value = decode(response)
        data = response if isinstance(response, bytes) else _encode_text(response, value)
        check_depth(data)
    else:
        dump: Any = getattr(response, "model_dump", None)
        value = dump(mode="json", exclude_unset=True) if dump else response
        data = encode(value)
        value = decode(data)
    if not isinstance(value, Mapping):
        raise BadValue("A response must be a JSON object.")
    return data, value


def _encode_text(text: str, value: Json) -> bytes:
    """Return the bytes of the text. A text with lone surrogates has none, so its value is encoded instead."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return encode(value)
