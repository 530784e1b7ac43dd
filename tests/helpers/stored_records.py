"""This module reads every record of a store, and every line of the transcripts that it comes from."""

from __future__ import annotations

from pathlib import Path

from store.store import Store


def read_stored_records(store: Store) -> set[bytes]:
    return {
        store.records.get(entry.record)
        for session in store.sessions.newest(1000)
        for entry in store.chains.entries(session.key)
        if entry.record is not None
    }


def read_transcript_lines(folder: Path) -> set[bytes]:
    return {line for path in folder.rglob("*.jsonl") for line in path.read_bytes().splitlines()}
