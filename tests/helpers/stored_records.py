"""This module reads every record of a store, for tests of transcripts."""

from __future__ import annotations

from store.store import Store


def read_stored_records(store: Store) -> set[bytes]:
    return {
        store.records.get(entry.record)
        for session in store.sessions.newest(1000)
        for entry in store.chains.entries(session.key)
        if entry.record is not None
    }
