"""This module derives the usage of stored sessions again: those that were stored before usage was kept, and all of them
when sources understand more.

It needs the records and nothing of the agent. It works session by session, each in a transaction with its version, so
that it can stop at any time and continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from store.errors import BadValue, Damaged
from store.model.entry import Json, Tokens
from store.model.usage import USAGE_VERSION, Usage
from store.sources import load_source
from store.text.validate import decode, parse
from store.usage.rows import (
    UsageRows,
    delete_usage,
    recount_usage,
    usage_from_tokens,
    write_usage,
)
from store.usage.session_totals import write_session_totals
from store.usage.stale import count_without_usage

if TYPE_CHECKING:
    from store.sources.contract import UsageReader
    from store.store import Store

_SELECT_STALE = """
    select key, source from sessions where usage_version < ? and head is not null order by updated_at desc limit 1
"""
_SELECT_ENTRIES = """
    select key, seq, record, role, model, inherited, tokens, created_at from entries where session = ? order by seq
"""


class _EntryRow(NamedTuple):
    """Holds what usage needs of an entry."""

    key: int
    seq: int
    record: int | None
    role: str
    model: str
    inherited: int
    tokens: str | None
    created_at: str


class DerivedSessions(NamedTuple):
    """Says how many sessions are derived, and how many there are to derive."""

    done: int
    total: int


def rederive_usage(store: Store) -> Iterator[DerivedSessions]:
    """Derive the usage of all sessions that need it, the newest first, and yield the progress after each."""
    total = count_without_usage(store)
    done = 0
    while row := store.row(_SELECT_STALE, USAGE_VERSION):
        session, source = row
        known_source = load_source(source)
        _rederive_session(store, session, known_source.usage_reader() if known_source else None)
        done += 1
        yield DerivedSessions(done, max(total, done))


def _rederive_session(store: Store, session: int, reader: UsageReader | None) -> None:
    with store.transaction(durable=False) as connection:
        rows = _derive_rows(store, session, reader)
        delete_usage(connection, session)
        # The rows are numbered by the keys of entries here, so the first entry has the number 0.
        write_usage(connection, session, 0, rows.rows())
        write_session_totals(connection, session)
        recount_usage(connection, session)
        connection.execute("update sessions set usage_version = ? where key = ?", (USAGE_VERSION, session))


def _derive_rows(store: Store, session: int, reader: UsageReader | None) -> UsageRows:
    entries = [_EntryRow._make(row) for row in store.rows(_SELECT_ENTRIES, session)]
    found: dict[int | None, Usage] = dict(reader(_read_records(store, session))) if reader else {}
    answers = {entry.record: entry.key for entry in entries if entry.record in found and entry.role == "assistant"}
    owners = {entry.record: entry.key for entry in entries if entry.record in found} | answers
    rows = UsageRows()
    for entry in entries:
        if entry.inherited:
            continue
        usage = found.get(entry.record) if owners.get(entry.record) == entry.key else None
        if usage is None and entry.tokens and entry.record not in found:
            usage = usage_from_tokens(Tokens(*decode(entry.tokens)))
        if usage is not None:
            rows.add(entry.key, usage, entry.model, entry.created_at)
    return rows


def _read_records(store: Store, session: int) -> Iterator[tuple[int, Json]]:
    """Yield the records of a session. One that cannot be read is left out."""
    records = store.records.iter_session(session)
    while True:
        try:
            key, data = next(records)
        except (StopIteration, Damaged):
            return
        try:
            value = parse(data.decode("utf-8", "replace"))
        except BadValue:
            continue
        yield key, value
