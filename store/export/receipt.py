"""This module defines the receipt of an export: what it was made from, what was left out, and a digest of the file.

A receipt is one line of JSON in ASCII, without a character that Markdown or HTML gives a meaning to, so that it is the
same text in every format. It is the last thing in a file. The digest covers the whole file, with zeros in its own
place.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple

from store.export.options import ExportOptions

if TYPE_CHECKING:
    from store.export.reader import DocumentReader

RECEIPT_SCHEMA = 1
NO_DIGEST = "0" * 64
_START = b'{"receipt":"backscroll",'
_DIGEST = re.compile(rb'"document_sha256":"([0-9a-f]{64})"')
_MARKUP = re.compile(r"[<>&`'\u007f-\uffff]")


class FoundReceipt(NamedTuple):
    """Holds the receipt of a file, and where in the file its digest is."""

    values: dict[str, Any]
    text: str
    "Is the line as it is in the file."
    digest_start: int


def build_receipt(reader: DocumentReader, options: ExportOptions, exported_at: str) -> str:
    """Return the receipt of what the reader has read, with zeros for the digest of the document."""
    values = {
        "receipt": "backscroll",
        "schema": RECEIPT_SCHEMA,
        "version": get_version(),
        "exported_at": exported_at,
        "options": asdict(options),
        "sessions": [
            {
                "id": source.session_id,
                "first_seq": source.first_seq,
                "last_seq": source.last_seq,
                "records": source.records,
                "bytes": source.size,
                "records_sha256": source.sha256,
            }
            for source in reader.sources.values()
        ],
        "counts": {name: count for name, count in sorted(reader.counts.items()) if count},
        "left_out": [
            {"what": what, "count": count, "why": why}
            for (what, why), count in sorted(reader.left_out.items())
            if count
        ],
        "leaks": reader.gate.to_json() if reader.gate else {},
        "document_sha256": NO_DIGEST,
    }
    text = json.dumps(values, separators=(",", ":"))
    return _MARKUP.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def get_version() -> str:
    try:
        return version("backscroll")
    except PackageNotFoundError:
        return ""


def find_receipt(data: bytes) -> FoundReceipt | None:
    """Return the last receipt in a file. Whatever looks like one before it is text of the conversation."""
    start = data.rfind(_START)
    digest = _DIGEST.search(data, start) if start >= 0 else None
    if digest is None:
        return None
    try:
        rest = data[start:].decode("ascii", "replace")
        values, length = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        return None
    is_known = values.get("schema") == RECEIPT_SCHEMA
    return FoundReceipt(values, rest[:length], digest.start(1)) if is_known else None


def compute_document_digest(pieces: Sequence[bytes]) -> str:
    """Return the digest of a file whose receipt still has zeros."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def is_unchanged(data: bytes, receipt: FoundReceipt) -> bool:
    """Return whether a file has the digest that its receipt names."""
    start, end = receipt.digest_start, receipt.digest_start + len(NO_DIGEST)
    return compute_document_digest((data[:start], NO_DIGEST.encode(), data[end:])) == data[start:end].decode()
