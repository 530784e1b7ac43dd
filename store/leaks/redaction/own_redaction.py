"""This module redacts and restores the texts of our own store, within one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from store.conversations.derive import compute_digest
from store.leaks.redaction.own_texts import FoundTexts, NewRecordData, StoredText, TextWriter, find_owners, read_text
from store.leaks.redaction.replacer import (
    LeakedValue,
    Replacer,
    Spellings,
    Substitution,
    ValueRedactor,
    ValueRestorer,
)
from store.search.quick_index import clear_index
from store.text.json import decode

if TYPE_CHECKING:
    from store.leaks.redaction.rows import RedactedPlace, RedactionRows
    from store.store import Store

BATCH_BYTES = 16 * 1024 * 1024
"""Is how much of the records and texts is rewritten at once. A value may be in any number of them."""

K = TypeVar("K")
V = TypeVar("V")

RewriteText = Callable[[StoredText, bytes], bytes]
RewriteRecord = Callable[[int, bytes, int], "NewRecordData | None"]
"""Gets a record with the parts behind it, and the length of the record. Returns None if nothing changes."""


def redact_own_texts(
    store: Store, rows: RedactionRows, found: FoundTexts, replacer: Replacer, spellings: Spellings
) -> None:
    """Replace the values where they were found, and note each place."""

    def redact_text(text: StoredText, data: bytes) -> bytes:
        redactor = ValueRedactor(replacer, spellings)
        redacted, _ = redactor.redact(data, is_derived=text in found.derived)
        rows.add_text(text, redactor.times, redactor.spans)
        return redacted

    def redact_record(record: int, data: bytes, length: int) -> NewRecordData:
        redactor = ValueRedactor(replacer, spellings)
        new, edits = redactor.redact(data[:length])
        behind, edits_behind = redactor.redact(data[length:], is_derived=True)
        digests = compute_digest(data[:length]), compute_digest(new)
        rows.add_record(record, redactor.times, redactor.spans, *digests)
        return NewRecordData(new + behind, len(new), length, [*edits, *_shift(edits_behind, length)])

    _rewrite(store, found.texts, found.records, found.derived, redact_text, redact_record)
    if store.row("select 1 from skims_fts_docsize limit 1"):
        clear_index(store)  # its texts are not stored, so single words cannot be deleted


def restore_own_texts(store: Store, rows: RedactionRows, values: Sequence[LeakedValue], spellings: Spellings) -> None:
    """Restore the values wherever their replacements still are. A text may have been edited or deleted since."""
    texts: dict[StoredText, list[RedactedPlace]] = {}
    records: dict[int, RedactedPlace] = {}
    for place in reversed(rows.places()):
        if place.kind == "text":
            texts.setdefault(place.text, []).append(place)
        elif place.record is not None:
            records.setdefault(place.record, place)

    def restore_text(text: StoredText, data: bytes) -> bytes:
        for place in texts[text]:
            data, _ = ValueRestorer(decode(place.spans), values, spellings).restore(data)
        return data

    def restore_record(record: int, data: bytes, length: int) -> NewRecordData | None:
        restorer = ValueRestorer(decode(records[record].spans), values, spellings)
        new, edits = restorer.restore(data[:length])
        behind, edits_behind = restorer.restore(data[length:])
        if not (edits or edits_behind):
            return None
        return NewRecordData(new + behind, len(new), length, [*edits, *_shift(edits_behind, length)])

    _rewrite(store, texts, records, find_owners(store, texts), restore_text, restore_record)


def _rewrite(
    store: Store,
    texts: Iterable[StoredText],
    records: Iterable[int],
    owners: Mapping[StoredText, int],
    rewrite_text: RewriteText,
    rewrite_record: RewriteRecord,
) -> None:
    """Rewrite texts and records in batches. `owners` holds the record from which a text was derived."""
    records = dict.fromkeys(records)
    writer = TextWriter(store, records, texts)
    owned: dict[int, list[StoredText]] = {}
    others: list[StoredText] = []
    for text in texts:
        is_owned = owners.get(text) in records
        owned.setdefault(owners[text], []).append(text) if is_owned else others.append(text)

    def read_texts(chosen: Iterable[StoredText]) -> Iterator[tuple[StoredText, bytes]]:
        return ((text, data) for text in chosen if (data := read_text(store, text)) is not None)

    def rewrite_texts(found: Iterable[tuple[StoredText, bytes]]) -> dict[StoredText, bytes]:
        return {text: rewrite_text(text, data) for text, data in found}

    for text_batch in _iter_batches(read_texts(others), len):
        writer.write(rewrite_texts(text_batch.items()), {})
    whole = ((record, data) for record in records if (data := store.records.read_whole(record)) is not None)
    for batch in _iter_batches(whole, lambda data: len(data[0])):
        new = {record: rewrite_record(record, *data) for record, data in batch.items()}
        derived = rewrite_texts(read_texts(text for record in batch for text in owned.get(record, ())))
        writer.write(derived, {record: data for record, data in new.items() if data is not None})
    writer.finish()


def _iter_batches(found: Iterable[tuple[K, V]], measure: Callable[[V], int]) -> Iterator[dict[K, V]]:
    """Yield what was found in batches of a limited size."""
    batch: dict[K, V] = {}
    size = 0
    for key, value in found:
        batch[key] = value
        size += measure(value)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = {}, 0
    if batch:
        yield batch


def _shift(edits: Sequence[Substitution], by: int) -> list[Substitution]:
    return [Substitution(edit.start + by, edit.end + by, edit.new) for edit in edits]
