"""This module writes the records of a session, byte for byte, each followed by a line feed.

A receipt inside would be a line that no agent wrote. So it is a file of its own beside this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.errors import BadValue
from store.text.validate import decode, serialize

if TYPE_CHECKING:
    from store.export.reader import DocumentReader
    from store.model.session import Session


def write_raw(reader: DocumentReader, session: Session) -> Iterator[bytes]:
    """Yield every record once, in the order of the chain. Sub-agents have files of their own."""
    seen: set[int] = set()
    for turn in reader.iter_turns(session):
        for entry in turn.entries:
            if entry.record is not None and entry.record not in seen:
                seen.add(entry.record)
                yield mask_record(reader, reader.store.records.get(entry.record)) + b"\n"


def mask_record(reader: DocumentReader, data: bytes) -> bytes:
    """Return a record with its texts masked. A record without anything to mask is returned unchanged, byte for byte."""
    if reader.mask is str:
        return data
    try:
        value = decode(data)
    except BadValue:
        text = data.decode("utf-8", "surrogateescape")
        masked = reader.mask(text)
        return data if masked == text else masked.encode("utf-8", "surrogateescape")
    masked_value = reader.mask_json(value)
    return data if masked_value == value else serialize(masked_value)
