"""These tests read sessions of Claude Code on the web: one object with the records in `loglines`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import stored_entries, sync_paths
from source_samples import DATA
from stored_records import read_stored_records

from store.store import Store

TODAY = "c1000000-0000-4000-8000-000000000001"


def write_loglines(path: Path, records: list[dict[str, Any]], **fields: Any) -> None:
    path.write_text(json.dumps({**fields, "loglines": records}, indent=1))


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def describe(store: Store) -> list[Any]:
    session = store.sessions.find(TODAY)
    return [
        (session.title, session.model, session.cwd, session.turns, session.tool_calls, session.errors),
        [(entry.role, entry.kind, entry.text, entry.parts) for entry in stored_entries(store, TODAY)],
    ]


@pytest.fixture
def transcript() -> Path:
    return DATA / f"claude/projects/-w-app/{TODAY}.jsonl"


def test_loglines_are_read_as_the_lines_of_a_transcript(tmp_path: Path, store: Store, transcript: Path) -> None:
    records = read_lines(transcript)
    write_loglines(tmp_path / "session.json", records)
    with Store.open(tmp_path / "lines.db") as lines:
        copy = tmp_path / transcript.name
        copy.write_bytes(transcript.read_bytes())
        sync_paths(lines, copy)
        expected = describe(lines)
    report = sync_paths(store, tmp_path / "session.json")
    assert (report.source, report.problems) == ("claude", [])
    assert describe(store) == expected
    assert [record for record in records if record not in map(json.loads, read_stored_records(store))] == []


def test_records_without_ids_follow_each_other(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "fix-the-tax.json"
    records: list[dict[str, Any]] = [
        {"type": "user", "timestamp": "2026-05-01T10:00:00Z", "message": {"role": "user", "content": "Fix the tax"}},
        {
            "type": "assistant",
            "timestamp": "2026-05-01T10:00:05Z",
            "message": {"role": "assistant", "model": "opus", "content": [{"type": "text", "text": "Done."}]},
        },
    ]
    write_loglines(path, records, title="A task")
    sync_paths(store, path)
    (session,) = store.sessions.newest()
    assert (session.native_id, session.title, session.turns, session.model) == ("fix-the-tax", "Fix the tax", 1, "opus")
    second = {"type": "user", "timestamp": "2026-05-01T11:00:00Z", "message": {"role": "user", "content": "Thanks"}}
    write_loglines(path, [*records, second], title="A task")
    sync_paths(store, path)
    (session,) = store.sessions.newest()
    assert [turn.prompt for turn in store.chains.turns(session.key)][-2:] == ["Fix the tax", "Thanks"]
    assert not store.row("select 1 from sessions where relation = 'superseded'")
