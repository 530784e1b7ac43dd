"""This module reads the values of leaks from the texts in which they were found.

The store keeps only where a value is. So a value is read when it must be hidden, and checked by its fingerprint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.errors import Damaged, NotFound, StoreError
from store.leaks.escapes import decode_escapes
from store.leaks.fingerprint import compute_fingerprint, unescape_value
from store.leaks.leak_key import read_leak_key
from store.leaks.scanner import MIN_VALUE_CHARS, OWN_SECRET
from store.leaks.store_scan import list_field_texts
from store.model.entry import Entry
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

_SELECT_PLACES = """
    select leaks.fingerprint, leaks.rule, leak_places.entry_seq, leak_places.field, leak_places.start,
        leak_places.length
    from leak_places join leaks on leaks.fingerprint = leak_places.fingerprint
    where leak_places.session = ? order by leak_places.entry_seq
"""
_SELECT_FACT_SPANS = "select distinct start, length from leak_places where fingerprint = ? and field = 'fact'"
_SELECT_OTHER_TEXTS = """
    select 'title', own_title || ' ' || agent_title from sessions where key = ?1
    union all select 'system prompt', system_prompt from sessions where key = ?1
    union all select 'summary', text from summaries where session = ?1
    union all select 'note', text from notes where session = ?1
    union all select 'fact', text from facts where session = ?1
"""


def read_own_values(store: Store) -> dict[str, str]:
    """Return the values of the store's own secrets, as they may be shown. While they are locked, none is known."""
    try:
        values = [value for value in store.secrets.all_values() if len(value) >= MIN_VALUE_CHARS]
    except StoreError:
        return {}
    return {form: OWN_SECRET for value in values for form in _list_forms(value)}


def read_found_values(store: Store, session: int) -> dict[str, str]:
    """Return every value that was found in a session, in each form in which it may be shown, with its rule."""
    places = store.rows(_SELECT_PLACES, session)
    if not places:
        return {}
    key = read_leak_key(store)
    other_texts = [(field, text) for field, text in store.rows(_SELECT_OTHER_TEXTS, session) if text]
    values: dict[str, str] = {}
    known: set[str] = set()
    texts: list[tuple[str, str]] = []
    last_seq = None
    for fingerprint, rule, seq, field, start, length in places:
        if seq is not None and seq != last_seq:
            last_seq, texts = seq, list(_list_entry_texts(store, session, seq))
        if fingerprint in known:
            continue
        for name, text in (*texts, *other_texts) if seq is not None else other_texts:
            value = text[start : start + length]
            if name == field and compute_fingerprint(key, value) == fingerprint:
                values |= dict.fromkeys(_list_forms(value), rule)
                known.add(fingerprint)
                break
    return values


def find_fact_with(store: Store, fingerprint: str, session: int | None) -> int | None:
    """Return the number of the newest fact of a session that has a value, or None."""
    key = read_leak_key(store)
    spans = store.rows(_SELECT_FACT_SPANS, fingerprint)
    for number, text in store.rows("select id, text from facts where session is ? order by id desc", session):
        values = (text[start : start + length] for start, length in spans)
        if any(value and compute_fingerprint(key, value) == fingerprint for value in values):
            return int(number)
    return None


def _list_forms(value: str) -> list[str]:
    """Return a value as it may be in a text: plain, in a JSON string inside of the text, and in a title on one line."""
    forms = unescape_value(value)
    return [*forms, *(encode(form).decode()[1:-1] for form in forms), *(" ".join(form.split()) for form in forms)]


def _list_entry_texts(store: Store, session: int, seq: int) -> Iterator[tuple[str, str]]:
    try:
        entry = store.chains.entry(session, seq)
    except NotFound:
        return
    yield from list_field_texts(entry)
    yield "record", _read_record_text(store, entry)


def _read_record_text(store: Store, entry: Entry) -> str:
    """Return a record as it was scanned. Each byte becomes one character, because a place in it counts bytes."""
    if entry.record is None:
        return ""
    try:
        return decode_escapes(store.records.get(entry.record)).decode("latin-1")
    except Damaged:
        return ""
