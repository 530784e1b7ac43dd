"""This module checks an exported file: whether it is unchanged, and whether it is a true excerpt of its session.

A digest shows that the file was not changed by accident, but a person who forges a file can compute a new one. So the
session is also exported again, with the options and up to the entries that the receipt names, and the two are compared
byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from store.errors import SecretLocked, StoreError, Unreadable
from store.export.options import EXPORT_FORMATS, ExportOptions
from store.export.reader import DocumentReader
from store.export.receipt import FoundReceipt, compute_document_digest, find_receipt, is_unchanged
from store.export.writing import RECEIPT_SUFFIX, format_ending, render_export
from store.leaks.gate import open_gate

if TYPE_CHECKING:
    from store.model.session import Session
    from store.store import Store

StoreComparison = Literal["same", "heading", "text", "records", "redacted", "missing", "unknown"]
"""Says how a file and the session in the store compare:

"same": exporting the session again gives the same bytes. "heading": only the heading differs, which has the title,
tags, notes and summary. "text": the conversation differs. "records": the store has other records of the session.
"redacted": leaked values were removed from its records since, or were restored.
"missing": the store does not have the session. "unknown": the receipt does not say enough.
"""


_SELECT_REDACTED = """
    select 1 from redacted_places join entries on entries.record = redacted_places.record
    where redacted_places.record is not null and entries.session = ? limit 1
"""


class Verification(NamedTuple):
    """Holds what is known about an exported file."""

    path: Path
    receipt: dict[str, Any] | None
    unchanged: bool
    comparison: StoreComparison

    @property
    def is_good(self) -> bool:
        """Return whether the file is unchanged and, if the store has the session, a true excerpt of it."""
        return self.receipt is not None and self.unchanged and self.comparison in ("same", "missing")


def verify_file(store: Store, path: Path) -> Verification:
    """Check a file. Raise Unreadable if it cannot be read. For a receipt beside its file, the file is checked."""
    path = path.with_name(path.name.removesuffix(RECEIPT_SUFFIX) or path.name)
    data = _read(path)
    sidecar = path.with_name(path.name + RECEIPT_SUFFIX)
    if sidecar.exists():
        receipt = find_receipt(_read(sidecar))
        unchanged = receipt is not None and compute_document_digest([data]) == receipt.values["document_sha256"]
    else:
        receipt = find_receipt(data)
        unchanged = receipt is not None and is_unchanged(data, receipt)
    if receipt is None:
        return Verification(path, None, False, "unknown")
    return Verification(path, receipt.values, unchanged, compare_with_store(store, data, receipt))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unreadable(f"Cannot read {path}: {error.strerror}.") from None


def compare_with_store(store: Store, data: bytes, receipt: FoundReceipt) -> StoreComparison:
    options, digests = _parse_options(receipt.values), _parse_sessions(receipt.values)
    if options is None or not digests:
        return "unknown"
    session = _find_session(store, next(iter(digests)))
    if session is None:
        return "missing"
    last_seqs = {name: last_seq for name, (last_seq, _) in digests.items()}
    try:
        gate = open_gate(store, "redact") if options.leaks == "redact" else None
        reader = DocumentReader(store, options, gate=gate, last_seqs=last_seqs)
        with store.snapshot():
            pieces = list(render_export(reader, session))
    except SecretLocked:  # what was masked then is not known now
        raise
    except StoreError:
        return "records"
    if {source.session_id: source.sha256 for source in reader.sources.values()} != {
        name: digest for name, (_, digest) in digests.items()
    }:
        return "redacted" if _is_redacted(store, session) else "records"
    ending = format_ending(options.format, receipt.text)
    return _compare_bytes(data, b"".join(pieces[:1]), b"".join(pieces[1:]) + ending)


def _compare_bytes(data: bytes, heading: bytes, rest: bytes) -> StoreComparison:
    if data == heading + rest:
        return "same"
    return "heading" if data.endswith(rest) else "text"


def _is_redacted(store: Store, session: Session) -> bool:
    """Return whether records of a session were changed by a redaction, or by its undo."""
    return store.row(_SELECT_REDACTED, session.key) is not None


def _find_session(store: Store, session_id: str) -> Session | None:
    try:
        return store.sessions.get(session_id)
    except StoreError:  # it may be no id at all
        return None


def _parse_options(receipt: Mapping[str, Any]) -> ExportOptions | None:
    """Return the options in a receipt, which anyone may have written; None if they are none."""
    options = receipt.get("options")
    if not isinstance(options, Mapping) or options.get("format") not in EXPORT_FORMATS:
        return None
    turns, entry = options.get("turns"), options.get("entry")
    if turns is not None and not (isinstance(turns, list) and len(turns) == 2 and all(map(_is_number, turns))):
        return None
    if entry is not None and not _is_number(entry):
        return None
    return ExportOptions(
        options["format"],
        (turns[0], turns[1]) if turns else None,
        entry,
        tools=options.get("tools") is True,
        thinking=options.get("thinking") is True,
        leaks="redact" if options.get("leaks") == "redact" else "refuse",
    )


def _parse_sessions(receipt: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    """Return the last entry and the digest of the records of each session in a receipt."""
    sessions = receipt.get("sessions")
    found: dict[str, tuple[int, str]] = {}
    for session in sessions if isinstance(sessions, list) else ():
        if not isinstance(session, Mapping) or not isinstance(session.get("id"), str):
            return {}
        if isinstance(last_seq := session.get("last_seq"), int):
            found[session["id"]] = (last_seq, str(session.get("records_sha256")))
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
