"""These tests check the claude.ai reader: content blocks, branches, and older exports that have neither."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from foreign_databases import stored_entries, stored_texts, sync_paths
from hypothesis import given
from hypothesis import strategies as st
from stored_records import read_stored_records
from transcript_fuzzer import corrupted_export, read_all_sessions

from store.model.entry import Attachment, Opaque, Text, Thinking
from store.sources.claude_ai.source import ClaudeAI
from store.store import Store

claude_ai = ClaudeAI()

SAMPLE = Path(__file__).parents[1] / "data/claude-ai/conversations.json"
TREE, OLD = "d1000000-0000-4000-8000-000000000001", "d2000000-0000-4000-8000-000000000002"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return Path(shutil.copy(SAMPLE, tmp_path / "conversations.json"))


def test_a_conversation_is_read(store: Store, export: Path) -> None:
    report = sync_paths(store, export)
    assert (report.seen, report.problems) == (3, [])
    session = store.sessions.find(TREE)
    assert (session.title, session.turns, session.tool_calls, session.errors) == ("Retry design", 2, 2, 1)
    assert stored_texts(store, TREE) == ["How do I retry?", "Use backoff.", "In Go?", "A module."]
    assert session.created_at == "2026-05-01T10:00:00.000000Z"
    summary = store.summaries.current(session)
    assert summary is not None
    assert summary.text == "**Retries** were designed."


def test_an_archive_is_read(store: Store, export: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.write(export, "conversations.json")
        archive.writestr("users.json", "[]")
    assert claude_ai.detect(str(tmp_path / "data.zip"))
    assert sync_paths(store, tmp_path / "data.zip").seen == 3


def test_an_edit_is_a_fork(store: Store, export: Path) -> None:
    sync_paths(store, export)
    fork = store.sessions.find(f"{TREE}/m3")
    assert (fork.parent_id, fork.relation, fork.forked_at, fork.turns) == (f"claude-ai:{TREE}", "fork", 1, 1)
    assert [entry.inherited for entry in stored_entries(store, f"{TREE}/m3")] == [True, True, False, False]


def test_blocks_and_files_become_parts(store: Store, export: Path) -> None:
    sync_paths(store, export)
    prompt, answer = stored_entries(store, TREE)[:2]
    assert prompt.parts == (Text("How do I retry?"), Attachment("txt", "a.txt", 12), Attachment("file", "shot.png"))
    assert answer.parts[0] == Thinking("exponential")
    assert isinstance(answer.parts[-1], Opaque)
    calls = store.chains.tool_calls(store.sessions.find(TREE).key)
    assert [(call.call_id, call.status) for call in calls] == [("toolu_1", "ok"), ("toolu_2", "error")]


def test_older_exports_have_neither_parents_nor_ids(store: Store, export: Path) -> None:
    sync_paths(store, export)
    session = store.sessions.find(OLD)
    assert (session.title, session.turns) == ("An old question", 1)
    calls = store.chains.tool_calls(session.key)
    assert [(call.arguments, call.result, call.status) for call in calls] == [
        ({"code": "1"}, "one", "ok"),
        ({"code": "2"}, "two", "error"),
    ]
    assert stored_entries(store, OLD)[-1].kind == "unknown"


def test_every_message_has_a_record(store: Store, export: Path) -> None:
    sync_paths(store, export)
    records = [json.loads(data) for data in read_stored_records(store)]
    messages = [message for conversation in json.loads(export.read_text()) for message in conversation["chat_messages"]]
    assert [message for message in messages if message not in records] == []


def test_a_newer_export_appends_the_new_messages(store: Store, export: Path) -> None:
    sync_paths(store, export)
    conversations = json.loads(export.read_text())
    conversations[1]["chat_messages"].append({"uuid": "o4", "sender": "human", "text": "One more"})
    conversations[1] |= {"name": "Named now", "updated_at": "2026-06-01T10:00:00.000000Z"}
    export.write_text(json.dumps(conversations))
    sync_paths(store, export)
    assert stored_texts(store, OLD)[-1] == "One more"
    assert store.sessions.find(OLD).title == "Named now"
    assert store.sessions.children(f"claude-ai:{OLD}") == []


def test_resume_opens_a_browser(store: Store, export: Path) -> None:
    sync_paths(store, export)
    command = claude_ai.resume(store.sessions.find(TREE))
    assert command.argv is None
    assert f"https://claude.ai/chat/{TREE} " in command.hint


@given(data=st.data())
def test_a_corrupt_conversation_does_not_stop_the_next_one(data: st.DataObject, tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_bytes(data.draw(corrupted_export(SAMPLE.read_bytes())))
    assert OLD in read_all_sessions(claude_ai, path)
