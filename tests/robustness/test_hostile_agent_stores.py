"""These tests corrupt agents' stores: no error escapes, and the sessions next to the corrupted one are read."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agent_databases import AGENTS, Agent
from corruptible_stores import (
    ANSWER_TEXT,
    CORRUPTED,
    NEIGHBOUR,
    PROMPT_TEXT,
    corrupt_column,
    drop_constraints,
    sample_wrong_values,
)
from goose_database import text_content
from hypothesis import given
from hypothesis import strategies as st
from opencode_store import OpencodeFiles, assistant_message, finished_text_part, text_part, tool_part, user_message
from transcript_fuzzer import INVALID_LINES, corrupted_json, corrupted_lines, read_all_sessions

from store.sources.contract import Source
from store.sources.goose.source import Goose
from store.sources.kit import sqlite
from store.sources.opencode.source import Opencode

goose = Goose()
opencode = Opencode()

SHARED_IDS = [agent for agent in AGENTS if not agent.source.has_local_ids]


def read_neighbour(source: Source, path: Path, name: str = NEIGHBOUR) -> list[str]:
    with source.open(str(path)) as opened:
        batches = [batch for ref in list(opened.scan()) if ref.native_id == name for batch in opened.read(ref)]
    return [entry.get_text() for batch in batches for entry in batch.entries if entry.kind == "message"]


# ── columns ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("agent", SHARED_IDS, ids=str)
def test_a_wrong_value_in_any_column(tmp_path: Path, agent: Agent) -> None:
    original, path = tmp_path / "built.db", tmp_path / "spoiled.db"
    agent.build(original)
    for number, (table, column) in enumerate(drop_constraints(original)):
        for value in sample_wrong_values(number):
            shutil.copy(original, path)
            corrupt_column(path, table, f'"{column}"', value)
            read_all_sessions(agent.source, path)
            assert read_neighbour(agent.source, path) == [PROMPT_TEXT, ANSWER_TEXT], (table, column, value)


@pytest.mark.parametrize("agent", AGENTS, ids=str)
def test_a_value_too_large_to_hold(tmp_path: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "MAX_VALUE_BYTES", 100_000)
    original, path = tmp_path / "built.db", tmp_path / "spoiled.db"
    agent.build(original)
    drop_constraints(original)
    for place in agent.json_columns + agent.text_columns:
        shutil.copy(original, path)
        table, column = place.split(".")
        corrupt_column(path, table, column, "x" * 200_000)
        read_all_sessions(agent.source, path)
        assert read_neighbour(agent.source, path) == [PROMPT_TEXT, ANSWER_TEXT], place


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def agent_databases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build one database per agent for all examples."""
    folder = tmp_path_factory.mktemp("agents")
    for agent in AGENTS:
        agent.build(folder / f"{agent}.db")
        drop_constraints(folder / f"{agent}.db")
    return folder


def read_json_rows(path: Path, place: str) -> list[tuple[int, str]]:
    """Return the rows of a JSON column, except those of the neighbour."""
    table, column = place.split(".")
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"select rowid, {column}, {table}.* from {table} where {column} != ''").fetchall()
    ours = (PROMPT_TEXT, ANSWER_TEXT, NEIGHBOUR)
    return [(number, value) for number, value, *row in rows if not any(word in str(row) for word in ours)]


@pytest.mark.parametrize("agent", AGENTS, ids=str)
@given(data=st.data())
def test_corrupted_json_in_a_column(agent_databases: Path, agent: Agent, data: st.DataObject) -> None:
    original, path = agent_databases / f"{agent}.db", agent_databases / f"{agent}.spoiled.db"
    place = data.draw(st.sampled_from(agent.json_columns))
    number, value = data.draw(st.sampled_from(read_json_rows(original, place)))
    table, column = place.split(".")
    shutil.copy(original, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("pragma synchronous = off")
        corrupted = data.draw(corrupted_json(value.encode())).decode("utf-8", "replace")
        connection.execute(f"update {table} set {column} = ? where rowid = ?", (corrupted, number))
    read_all_sessions(agent.source, path)
    assert read_neighbour(agent.source, path) == [PROMPT_TEXT, ANSWER_TEXT]


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module", params=["", "srv-app"], ids=["second", "first"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    store_files = OpencodeFiles(folder, request.param)
    turns = [
        (user_message(), [text_part("Fix it")]),
        (assistant_message(), [finished_text_part("Reading."), tool_part(), {"type": "step-finish"}]),
    ]
    store_files.add_session(f"ses_{CORRUPTED}", *turns, revert={"messageID": "msg_003"}, parentID="ses_x")
    store_files.add_session(
        f"ses_{NEIGHBOUR}",
        (user_message(), [text_part(PROMPT_TEXT)]),
        (assistant_message(), [finished_text_part(ANSWER_TEXT)]),
    )
    return folder


@given(data=st.data())
def test_corrupted_json_in_a_file(files: Path, data: st.DataObject) -> None:
    ours = [path for path in sorted(files.rglob("*.json")) if PROMPT_TEXT not in path.read_text()]
    path = data.draw(st.sampled_from([file for file in ours if NEIGHBOUR not in file.read_text()]))
    before = path.read_bytes()
    try:
        path.write_bytes(data.draw(corrupted_json(before) | st.sampled_from(INVALID_LINES) | st.binary(max_size=40)))
        read_all_sessions(opencode, files)
        assert read_neighbour(opencode, files, f"ses_{NEIGHBOUR}") == [PROMPT_TEXT, ANSWER_TEXT]
    finally:
        path.write_bytes(before)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lines")
    head = {"working_dir": "/srv", "description": "Old", "total_tokens": 9}
    for name, prompt, answer in (
        ("20250801_101010", "Fix it", "Fixed."),
        ("20250802_101010", PROMPT_TEXT, ANSWER_TEXT),
    ):
        records: list[dict[str, Any]] = [head]
        records += [
            {"role": role, "created": 1, "content": text_content(words)}
            for role, words in (("user", prompt), ("assistant", answer))
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in records))
    return folder


@given(data=st.data())
def test_corrupted_lines_in_a_file(lines: Path, data: st.DataObject) -> None:
    path = lines / "20250801_101010.jsonl"
    before = path.read_bytes()
    try:
        path.write_bytes(data.draw(corrupted_lines(before)))
        read_all_sessions(goose, lines)
        assert read_neighbour(goose, lines, "20250802_101010") == [PROMPT_TEXT, ANSWER_TEXT]
    finally:
        path.write_bytes(before)


def test_folders_that_are_unreadable_or_link_to_themselves(tmp_path: Path) -> None:
    OpencodeFiles(tmp_path).add_session("ses_1", (user_message(), [text_part(PROMPT_TEXT)]))
    (tmp_path / "storage/message/ses_1/loop").symlink_to(tmp_path / "storage/message")
    (tmp_path / "project").symlink_to(tmp_path)
    (tmp_path / "storage/part/closed").mkdir(mode=0)
    assert read_all_sessions(opencode, tmp_path) == {"ses_1"}
    assert read_neighbour(opencode, tmp_path, "ses_1") == [PROMPT_TEXT]
