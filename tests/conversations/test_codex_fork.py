"""These tests cover forks that are written as new rollouts of Codex."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import sync_paths
from sample_conversations import statuses
from test_native_fork import DATA, NEW, iter_forks, read_lines, write_lines

from store.model.entry import INTERRUPTED_RESULT
from store.store import Store
from store.write_back.fork_transcript import fork_transcript, fork_transcript_path

PAGED = "0a000000-0000-7000-8000-000000000002"


@pytest.fixture
def codex(home: Path) -> Path:
    return Path(shutil.copytree(DATA / "codex", home / ".codex"))


def test_the_fork_of_a_paged_rollout_is_complete_and_numbered(store: Store, codex: Path) -> None:
    sync_paths(store, codex)
    path, child = fork_transcript(store, store.sessions.get(f"codex:{PAGED}"), 1)
    meta, *rest = read_lines(path)
    payload = meta["payload"]
    assert (payload["id"], payload["session_id"], payload["forked_from_id"]) == (
        child.native_id,
        child.native_id,
        PAGED,
    )
    assert "history_base" not in payload
    assert [line["ordinal"] for line in (meta, *rest)] == list(range(1 + len(rest)))
    assert not [line for line in rest if line["payload"].get("thread_id") == PAGED]
    assert path.name.endswith(f"-{child.native_id}.jsonl")
    assert path.relative_to(codex).parts[0] == "sessions"
    assert child.native_id[14] == "7"


@pytest.mark.parametrize("turn", [1, 2])
def test_pending_calls_get_a_result_of_their_kind(store: Store, home: Path, turn: int) -> None:
    thread = "0b000000-0000-7000-8000-000000000001"
    path = home / f".codex/sessions/2026/05/01/rollout-2026-05-01T10-00-00-{thread}.jsonl"
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Do it"}]},
        {"type": "function_call", "name": "exec", "arguments": "{}", "call_id": "f"},
        {"type": "custom_tool_call", "name": "patch", "input": "x", "call_id": "c"},
        {"type": "tool_search_call", "call_id": "t", "arguments": {}, "execution": "client", "status": "completed"},
        {"type": "function_call_output", "call_id": "stray", "output": "?"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And?"}]},
    ]
    meta = {"id": thread, "timestamp": "2026-05-01T10:00:00Z", "cwd": "/w", "source": "exec", "originator": "x"}
    task_started = {"type": "event_msg", "payload": {"type": "task_started", "turn_id": "t1"}}
    timestamp = {"timestamp": "2026-05-01T10:00:01Z"}
    response_items = [timestamp | {"type": "response_item", "payload": item} for item in items]
    write_lines(path, timestamp | {"type": "session_meta", "payload": meta}, timestamp | task_started, *response_items)
    sync_paths(store, home / ".codex")
    fork_path, child = fork_transcript(store, store.sessions.get(f"codex:{thread}"), turn)
    head, *rest = (line["payload"] for line in read_lines(fork_path))
    assert head["source"] == "cli"
    shown = [item["message"] for item in rest if item["type"] == "user_message"]
    assert shown == ["Do it", "And?"][:turn], "each prompt has an event, as Codex writes them"
    rest = [item for item in rest if item["type"] != "user_message"]
    closing = [item["type"] for item in rest if INTERRUPTED_RESULT in json.dumps(item) or item.get("tools") == []]
    assert closing == ["function_call_output", "custom_tool_call_output", "tool_search_output"]
    assert [item["type"] for item in rest[5:8]] == closing
    assert rest[-1] == {"type": "turn_aborted", "turn_id": "t1", "reason": "interrupted"}
    assert set(statuses(store, child).values()) <= {"ok", "error"}


def test_forks_are_registered_in_the_state_database_of_codex(store: Store, codex: Path) -> None:
    database = codex / "state_5.sqlite"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute(
            "create table threads (id text primary key, rollout_path text not null, created_at integer not null,"
            " updated_at integer not null, source text not null, title text not null, first_user_message text,"
            " name text, archived integer not null default 0, unheard_of text)"
        )
        row = (PAGED, "/old", 1, 2, "exec", "First of all", "First of all", "mine", 1, "kept")
        connection.execute("insert into threads values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        connection.commit()
    sync_paths(store, codex)
    session = store.sessions.get(f"codex:{PAGED}")
    first = fork_transcript(store, session, 2)
    other = fork_transcript(store, session, 1, prompt=NEW)
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "select id, rollout_path, source, title, name, archived, unheard_of from threads order by created_at, id"
        ).fetchall()
    assert rows == [
        (PAGED, "/old", "exec", "First of all", "mine", 1, "kept"),
        (first.session.native_id, str(first.path), "cli", "First of all", None, 0, "kept"),
        (other.session.native_id, str(other.path), "cli", NEW, None, 0, "kept"),
    ]


def test_rollbacks_are_not_copied_to_the_fork(store: Store, codex: Path) -> None:
    sync_paths(store, codex)
    rolled_back_paths = [path for path in codex.rglob("*.jsonl") if b"thread_rolled_back" in path.read_bytes()]
    assert rolled_back_paths
    for session, turn, prompt in list(iter_forks(store)):
        path = fork_transcript_path(store, session, turn, prompt=prompt)
        assert b"thread_rolled_back" not in path.read_bytes()
