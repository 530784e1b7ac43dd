"""This module decodes the `parts` column of entries."""

from __future__ import annotations

from store.model.entry import Part, Text, Thinking, part_from_json
from store.text.validate import decode


def decode_parts(text: str, column: bytes | None) -> tuple[Part, ...]:
    """Return all parts of an entry. The column is null when the entry has one part, its text."""
    if column is None:
        return (Text(text),)
    return tuple(map(part_from_json, decode(column)))


def is_reference(column: bytes) -> bool:
    """Return whether a column only says where the parts are stored. See `Records.load_parts`."""
    return column[1:2] == b"[" or column[1:2].isdigit()


def decode_thoughts(column: bytes | None) -> list[Thinking]:
    """Return the thinking in a column, without loading the parts that it may refer to."""
    values = decode(column) if column is not None else []
    thoughts = (value for value in values if isinstance(value, dict) and value.get("type") == "thinking")
    return [Thinking(str(thought.get("text", ""))) for thought in thoughts]


def decode_part(column: bytes | None, index: int | None) -> Part | None:
    """Return one part of an entry that has more than its text, or None if there is no such part."""
    if column is None or index is None:
        return None
    parts = decode(column)
    return part_from_json(parts[index]) if index < len(parts) else None
