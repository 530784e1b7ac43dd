"""This module redacts and restores the texts of our own store, within one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from store.conversations.derive import compute_digest
from store.leaks.redaction.own_texts import FoundTexts, NewRecordData, StoredText, read_text, write_texts
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


def redact_own_texts(
    store: Store, rows: RedactionRows, found: FoundTexts, replacer: Replacer, spellings: Spellings
) -> None:
    """Replace the values where they were found, and note each place."""
    texts: dict[StoredText, bytes] = {}
    records: dict[int, NewRecordData] = {}
    for text in found.texts:
        if (data := read_text(store, text)) is not None:
            redactor = ValueRedactor(replacer, spellings)
            texts[text] = redactor.redact(data, is_derived=text in found.derived)[0]
            rows.add_text(text, redactor.times, redactor.spans)
    for record in found.records:
        whole = store.records.read_whole(record)
        if whole is None:
            continue
        data, length = whole
        redactor = ValueRedactor(replacer, spellings)
        new, edits = redactor.redact(data[:length])
        behind, edits_behind = redactor.redact(data[length:], is_derived=True)
        records[record] = NewRecordData(new + behind, len(new), length, [*edits, *_shift(edits_behind, length)])
        digests = compute_digest(data[:length]), compute_digest(new)
        rows.add_record(record, redactor.times, redactor.spans, *digests)
    write_texts(store, texts, records)
    if store.row("select 1 from skims_fts_docsize limit 1"):
        clear_index(store)  # its texts are not stored, so single words cannot be deleted


def restore_own_texts(store: Store, rows: RedactionRows, values: Sequence[LeakedValue], spellings: Spellings) -> None:
    """Restore the values wherever their replacements still are. A text may have been edited or deleted since."""
    texts: dict[StoredText, bytes] = {}
    records: dict[int, NewRecordData] = {}
    for place in reversed([place for place in rows.places() if place.kind in ("text", "record")]):
        restorer = ValueRestorer(decode(place.spans), values, spellings)
        if place.kind == "text":
            data = texts.get(place.text) or read_text(store, place.text)
            if data is not None:
                texts[place.text] = restorer.restore(data)[0]
        elif place.record is not None and place.record not in records:
            _restore_record(store, place, restorer, records)
    write_texts(store, texts, records)


def _restore_record(
    store: Store, place: RedactedPlace, restorer: ValueRestorer, records: dict[int, NewRecordData]
) -> None:
    whole = store.records.read_whole(place.record or 0)
    if whole is None:
        return
    data, length = whole
    new, edits = restorer.restore(data[:length])
    behind, edits_behind = restorer.restore(data[length:])
    if edits or edits_behind:
        records[place.record or 0] = NewRecordData(
            new + behind, len(new), length, [*edits, *_shift(edits_behind, length)]
        )


def _shift(edits: Sequence[Substitution], by: int) -> list[Substitution]:
    return [Substitution(edit.start + by, edit.end + by, edit.new) for edit in edits]
