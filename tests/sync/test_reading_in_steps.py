"""These tests check that a history that is read in steps, as it grows, is the same as one that is read at once."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from foreign_databases import sync_paths
from random_transcripts import TRANSCRIPT_PATHS, write_transcript
from source_samples import CONVERSATION_TABLES, DATA, JSONL_SOURCES, SAMPLES

from store.model.entry import PairedCall
from store.store import Store
from store.sync import engine
from store.sync.appended import ScanResult, scan_incrementally

STEPS = 4
GROWING_SAMPLES = (*JSONL_SOURCES, "goose-lines")
SESSION_COLUMNS = """
    native_id parent_id relation forked_at channel channel_id user agent_title first_prompt provider model cwd
    environment_name environment_type environment_path system_prompt webhook turns entries tool_calls errors
    tokens_input tokens_output tokens_cached tokens_total cost created_at updated_at archived gone
""".split()
SELECT_USAGE = """
    select entries.seq, provider, usage_models.model, at, input, cache_read, cache_write_5m, cache_write_1h, output,
        reasoning, known, reported_cost, counted
    from usage join usage_models on usage_models.key = usage.model join entries on entries.key = usage.entry
    where usage.session = ? order by 1
"""
ENTRY_COLUMNS = "seq, turn, kind, role, author, model, message_key, text, inherited, tokens, created_at"
COPILOT_EVENTS = [
    ("session.start", {"sessionId": "s1", "startTime": "2026-05-01T10:00:00.000Z", "context": {"cwd": "/w/app"}}),
    ("user.message", {"content": "Count the files"}),
    ("assistant.message", {"messageId": "m1", "content": "Three.", "model": "gpt-5-mini"}),
    ("system.message", {"content": "You are the GitHub Copilot CLI."}),
    ("session.shutdown", {"shutdownType": "routine"}),
]


def describe_sessions(store: Store) -> dict[str, dict[str, Any]]:
    """Return everything that a person sees of each session, by native id."""
    rows = store.rows(f"select key, {', '.join(SESSION_COLUMNS)} from sessions where relation is not 'superseded'")
    return {
        str(columns[0]): dict(zip(SESSION_COLUMNS, columns, strict=True))
        | {
            "chain": store.rows(f"select {ENTRY_COLUMNS} from entries where session = ? order by seq", key),
            "usage": store.rows(SELECT_USAGE, key),
            "calls": [_without_ids(call) for call in store.chains.tool_calls(key)],
        }
        for key, *columns in rows
    }


def _without_ids(call: PairedCall) -> PairedCall:
    """Return a call without our ids, in which the place of the file may be a part."""
    seqs = [(entry or "").rpartition("#")[2] for entry in (call.entry, call.result_entry)]
    return call._replace(key=0, session_id="", entry=seqs[0], result_entry=seqs[1])


def describe_at_once(tmp_path: Path, *paths: Path) -> dict[str, dict[str, Any]]:
    with Store.open(tmp_path / "at-once.db") as store:
        sync_paths(store, *paths)
        return describe_sessions(store)


def grow_files(sample: Path, folder: Path, random: Random, *, steps: int | None = STEPS) -> Iterator[Path]:
    """Write the lines of a sample in steps, and yield the folder after each step. Without a number, each line is one.

    The files follow each other, because an agent starts a fork or a sub-agent only when the file of its parent has
    everything that it refers to.
    """
    files = sorted(sample.rglob("*.jsonl"), key=lambda path: (len(path.parts), path))
    lines = [(path, line) for path in files for line in path.read_bytes().splitlines(keepends=True)]
    # The first cut leaves enough to recognize the agent.
    places = range(min(8, len(lines) // 2), len(lines))
    cuts = [0, *(sorted(random.sample(places, steps - 1)) if steps else places), len(lines)]
    shutil.copytree(sample, folder, ignore=shutil.ignore_patterns("*.jsonl"))
    for start, end in pairwise(cuts):
        for path, line in lines[start:end]:
            grown = folder / path.relative_to(sample)
            with grown.open("ab") as file:
                file.write(line)
            # Goose's old files say nowhere else when they were written.
            shutil.copystat(path, grown)
        yield folder


def grow_database(sample: Path, path: Path, random: Random) -> Iterator[Path]:
    """Write the rows of a sample in steps, and yield the database after each step."""
    for share in [*sorted(random.random() for _ in range(STEPS - 1)), 1.0]:
        shutil.copy(sample, path)
        with closing(sqlite3.connect(path)) as connection, connection:
            for table in CONVERSATION_TABLES[sample.stem].split():
                keys = [key for (key,) in connection.execute(f"select rowid from {table} order by rowid")]
                left_out = keys[round(len(keys) * share) :]
                connection.executemany(f"delete from {table} where rowid = ?", [(key,) for key in left_out])
        yield path


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", GROWING_SAMPLES)
def test_files_read_in_steps_give_the_same_as_files_read_at_once(
    name: str, seed: int, tmp_path: Path, store: Store
) -> None:
    sample = copy_sample(name, tmp_path / "sample")
    expected = describe_at_once(tmp_path, sample)
    for folder in grow_files(sample, tmp_path / name, Random(seed)):
        sync_paths(store, folder)
    assert_same_sessions(describe_sessions(store), expected)


@pytest.mark.parametrize("name", GROWING_SAMPLES)
def test_files_that_are_continued_after_every_line_give_the_same_as_files_read_at_once(
    name: str, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    continued: list[str] = []

    def scan_and_remember(*arguments: Any) -> ScanResult:
        result = scan_incrementally(*arguments)
        continued.extend(native_id for native_id, batches in result.appended.items() if batches[0].entries)
        return result

    monkeypatch.setattr(engine, "scan_incrementally", scan_and_remember)
    sample = copy_sample(name, tmp_path / "sample")
    expected = describe_at_once(tmp_path, sample)
    for folder in grow_files(sample, tmp_path / name, Random(), steps=None):
        sync_paths(store, folder)
    assert_same_sessions(describe_sessions(store), expected)
    # Some lines require a full read: the first ones of a file, rewinds, sub-agents and new titles.
    lines = sum(len(path.read_bytes().splitlines()) for path in sample.rglob("*.jsonl"))
    assert len(continued) > lines / 4


def copy_sample(name: str, folder: Path) -> Path:
    return SAMPLES[name](folder) if name in SAMPLES else Path(shutil.copytree(DATA / name, folder / name))


def assert_same_sessions(found: dict[str, dict[str, Any]], expected: dict[str, dict[str, Any]]) -> None:
    assert found.keys() == expected.keys()
    for native_id, session in expected.items():
        assert found[native_id] == session


@pytest.mark.parametrize("seed", [0, 1, 2, 15, 58])
@pytest.mark.parametrize("agent", TRANSCRIPT_PATHS)
def test_a_random_transcript_that_is_continued_gives_the_same_as_one_that_is_read_again(
    agent: str, seed: int, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    lines = write_transcript(agent, random)
    cuts = sorted({len(lines), *random.sample(range(4, len(lines)), (len(lines) - 4) // 2)})
    path = tmp_path / "agent" / TRANSCRIPT_PATHS[agent]
    path.parent.mkdir(parents=True)
    with Store.open(tmp_path / "read-again.db") as other_store:
        for cut in cuts:
            path.write_bytes(b"".join(lines[:cut]))
            os.utime(path, (1_770_000_000 + cut,) * 2)  # some agents write no times into the file
            sync_paths(store, tmp_path / "agent")
            with monkeypatch.context() as patch:
                patch.setattr(engine._TargetImport, "_load_mark", lambda *_: "")
                sync_paths(other_store, tmp_path / "agent")
        assert_same_sessions(describe_sessions(store), describe_sessions(other_store))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", CONVERSATION_TABLES)
def test_what_is_known_of_a_session_in_a_growing_database_stays_known(
    name: str, seed: int, tmp_path: Path, store: Store
) -> None:
    known: dict[str, set[str]] = {}
    sample = SAMPLES[name](tmp_path)
    for path in grow_database(sample, tmp_path / f"growing-{name}.db", Random(seed)):
        sync_paths(store, path)
        for native_id, session in describe_sessions(store).items():
            now_known = {column for column in SESSION_COLUMNS if session[column] not in ("", None, 0)} - {"gone"}
            assert known.get(native_id, set()) <= now_known
            known[native_id] = now_known


def write_copilot_events(path: Path, count: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for n, (kind, data) in enumerate(COPILOT_EVENTS[:count]):
            time = f"2026-05-01T10:00:0{n}.000Z"
            file.write(
                json.dumps({"type": kind, "id": f"e{n}", "parentId": None, "timestamp": time, "data": data}) + "\n"
            )


def test_the_last_events_of_copilot_neither_erase_the_model_nor_lose_the_system_prompt(
    tmp_path: Path, store: Store
) -> None:
    path = tmp_path / ".copilot/session-state/s1/events.jsonl"
    for count in range(3, len(COPILOT_EVENTS) + 1):
        write_copilot_events(path, count)
        sync_paths(store, tmp_path / ".copilot")
        (session,) = store.sessions.newest()
        assert session.model == "gpt-5-mini"
    assert session.system_prompt == "You are the GitHub Copilot CLI."
    assert store.chains.entry(session.key, -1).text == "You are the GitHub Copilot CLI."
