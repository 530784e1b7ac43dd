"""This module decodes the `parts` column of entries."""

from __future__ import annotations

from store.model.entry import Part, Text, part_from_json
from store.text.validate import decode


def decode_parts(text: str, column: bytes | None) -> tuple[Part, ...]:
    """Return all parts of an entry. The column is null when the entry has one part, its text."""
    if column is None:
        return (Text(text),)
    return tuple(map(part_from_json, decode(column)))


def decode_part(column: bytes | None, index: int | None) -> Part | None:
    """Return one part of an entry that has more than its text, or None if there is no such part."""
    if column is None or index is None:
        return None
    parts = decode(column)
    return part_from_json(parts[index]) if index < len(parts) else None
