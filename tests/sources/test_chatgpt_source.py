"""These tests check the ChatGPT reader: archives, folders and files, branches, and tool calls without ids."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import stored_entries, stored_texts, sync_paths
from hypothesis import given
from hypothesis import strategies as st
from stored_records import read_stored_records
from transcript_fuzzer import corrupted_export, read_all_sessions

from store.model.entry import Attachment, Json, Opaque, Text, Thinking
from store.sources.chatgpt.reader import ChatGPTReader
from store.sources.chatgpt.source import ChatGPT
from store.sources.claude_ai.source import ClaudeAI
from store.sources.kit.exports import ExportConversation
from store.store import Store

chatgpt = ChatGPT()
claude_ai = ClaudeAI()

SAMPLE = Path(__file__).parents[1] / "data/chatgpt/conversations.json"
TREE, PLAIN = "c1000000-0000-4000-8000-000000000001", "c2000000-0000-4000-8000-000000000002"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return Path(shutil.copy(SAMPLE, tmp_path / "conversations.json"))


def change(export: Path, **changes: Any) -> dict[str, Any]:
    """Change fields of the first conversation and return it."""
    conversations = json.loads(export.read_text())
    conversations[0] |= changes
    export.write_text(json.dumps(conversations))
    first: dict[str, Any] = conversations[0]
    return first


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


def test_an_archive_a_folder_and_a_file_are_the_same_export(store: Store, export: Path, tmp_path: Path) -> None:
    values = json.loads(export.read_text())
    with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("export/conversations-000.json", json.dumps(values[:1]))
        archive.writestr("export/conversations-001.json", json.dumps(values[1:]))
        archive.writestr("export/user.json", "{}")
    assert chatgpt.detect(str(export))
    assert chatgpt.detect(str(tmp_path))
    assert sync_paths(store, tmp_path / "export.zip").problems == []
    assert stored_texts(store, PLAIN) == ["Hello", "Hello yourself."]
    assert stored_texts(store, TREE)[-2] == "Second try."


def test_an_export_of_claude_ai_is_not_recognized(export: Path) -> None:
    other = Path(__file__).parents[1] / "data/claude-ai/conversations.json"
    assert not chatgpt.detect(str(other))
    assert not claude_ai.detect(str(export))
    assert list(chatgpt.roots()) == []


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def test_the_branch_that_was_shown_last_is_the_session(store: Store, export: Path) -> None:
    report = sync_paths(store, export)
    assert (report.seen, report.problems) == (4, [])
    session = store.sessions.find(TREE)
    assert (session.title, session.turns, session.tool_calls, session.errors) == ("Retry design", 2, 2, 1)
    assert [turn.prompt for turn in store.chains.turns(session.key)][1:] == ["How do I retry?", "In Go?"]
    assert (session.created_at, session.updated_at) == ("2025-12-29T09:20:00.500000Z", "2025-12-29T09:35:00.250000Z")
    plain = store.sessions.find(PLAIN)
    assert (plain.title, plain.model, plain.archived) == ("Hello", "gpt-5", 1)


def test_edits_and_regenerations_are_forks(store: Store, export: Path) -> None:
    sync_paths(store, export)
    edited, regenerated = store.sessions.find(f"{TREE}/a1"), store.sessions.find(f"{TREE}/b2")
    assert (edited.parent_id, edited.relation, edited.turns) == (f"chatgpt:{TREE}", "fork", 1)
    assert [entry.text for entry in stored_entries(store, f"{TREE}/a1") if not entry.inherited] == [
        "In Rust?",
        "Use the retry crate.",
    ]
    assert edited.forked_at is not None
    assert stored_entries(store, TREE)[edited.forked_at].text == "Use backoff."
    assert [entry.text for entry in stored_entries(store, f"{TREE}/b2") if not entry.inherited] == ["First try."]
    assert (regenerated.turns, regenerated.updated_at) == (0, "2025-12-29T09:20:21.000000Z")


def test_the_next_message_of_a_tool_is_the_result_of_its_call(store: Store, export: Path) -> None:
    sync_paths(store, export)
    calls = store.chains.tool_calls(store.sessions.find(TREE).key)
    assert [(call.name, call.arguments, call.result, call.status) for call in calls] == [
        ("python", {"code": "print(1)"}, "1", "ok"),
        ("web.run", {"q": "retry"}, "No answer", "error"),
    ]
    assert "Retries\nhttps://example.org\nWait longer." in stored_texts(store, TREE)


def test_every_kind_of_content_is_understood(store: Store, export: Path) -> None:
    sync_paths(store, export)
    entries = stored_entries(store, TREE)
    assert [(entry.kind, entry.turn) for entry in entries[:2]] == [("event", 0), ("event", 0)]
    assert entries[1].text == "I write Python.\n\nBe brief."
    assert entries[2].parts == (
        Attachment("image", "file-abc", 321, "file-service://file-abc"),
        Text("How do I retry?"),
        Attachment("text/csv", "a.csv", 12),
    )
    assert entries[3].parts == (Thinking("Backoff\nexponential"),)
    assert entries[10].text == "Use backoff."
    assert entries[10].model == "gpt-5-thinking"
    assert entries[6].created_at == entries[5].created_at
    assert isinstance(entries[-1].parts[0], Opaque)


def test_every_message_has_a_record(store: Store, export: Path) -> None:
    sync_paths(store, export)
    records = [json.loads(data) for data in read_stored_records(store)]
    for conversation in json.loads(export.read_text())[:2]:
        for node in conversation["mapping"].values():
            assert node["message"] is None or {key: node[key] for key in ("id", "message", "parent")} in records


def test_without_a_current_node_the_newest_leaf_ends_the_session(store: Store, export: Path) -> None:
    change(export, current_node=None)
    sync_paths(store, export)
    assert stored_texts(store, TREE)[-2] == "Second try."


# ── a newer export ────────────────────────────────────────────────────────────────────────────────


def test_a_newer_export_appends_the_new_messages(store: Store, export: Path) -> None:
    sync_paths(store, export)
    keys_before = [entry.key for entry in stored_entries(store, TREE)]
    mapping = json.loads(export.read_text())[0]["mapping"]
    content = {"content_type": "text", "parts": ["Thanks"]}
    message = {"id": "z", "author": {"role": "user"}, "create_time": 1767000950.0, "content": content}
    mapping["b4"]["children"] = ["z"]
    mapping["z"] = {"id": "z", "message": message, "parent": "b4", "children": []}
    change(export, mapping=mapping, current_node="z", update_time=1767000950.0)
    report = sync_paths(store, export)
    assert (report.new, report.unchanged) == (0, 1)
    assert [entry.key for entry in stored_entries(store, TREE)][:-1] == keys_before
    assert stored_texts(store, TREE)[-1] == "Thanks"
    second_report = sync_paths(store, export)
    assert (second_report.updated, second_report.unchanged) == (0, 4)


def test_resume_opens_a_browser(store: Store, export: Path) -> None:
    sync_paths(store, export)
    command = chatgpt.resume(store.sessions.find(f"{TREE}/a1"))
    assert command.argv is None
    assert f"https://chatgpt.com/c/{TREE} " in command.hint


# ── bad input ─────────────────────────────────────────────────────────────────────────────────────


def test_a_circle_a_lost_parent_and_an_incomplete_file(store: Store, export: Path) -> None:
    mapping = json.loads(export.read_text())[0]["mapping"]
    mapping["n1"]["parent"] = "b4"
    mapping["a1"]["parent"] = "nobody"
    change(export, mapping=mapping)
    data = export.read_bytes()
    export.write_bytes(data[: data.rindex(b'"Empty"')])
    report = sync_paths(store, export)
    assert [problem.reason for problem in report.problems] == ["The file is incomplete."]
    assert store.sessions.find(PLAIN).turns == 1
    assert "Second try." in stored_texts(store, TREE)


@given(data=st.data())
def test_a_corrupt_conversation_does_not_stop_the_next_one(data: st.DataObject, tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_bytes(data.draw(corrupted_export(SAMPLE.read_bytes())))
    assert PLAIN in read_all_sessions(chatgpt, path)


def test_a_conversation_is_parsed_once_for_all_its_branches(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[object] = []
    parse = ChatGPTReader.parse_conversation

    def count_and_parse(reader: ChatGPTReader, value: Mapping[str, Json]) -> ExportConversation | None:
        parsed.append(value)
        return parse(reader, value)

    monkeypatch.setattr(ChatGPTReader, "parse_conversation", count_and_parse)

    def write_node(name: str, parent: str | None, role: str) -> dict[str, Any]:
        content = {"content_type": "text", "parts": [f"{name} says"]}
        message = {"id": name, "author": {"role": role}, "create_time": 1.7e9, "content": content}
        return {"id": name, "parent": parent, "children": [], "message": message}

    mapping = {"n0": write_node("n0", None, "user")} | {
        name: write_node(name, "n0", "assistant") for name in (f"n{number}" for number in range(1, 31))
    }
    conversation = {"title": "A star", "conversation_id": "s", "create_time": 1.7e9, "mapping": mapping}
    (tmp_path / "conversations.json").write_text(json.dumps([conversation | {"current_node": "n1"}]))
    assert sync_paths(store, tmp_path / "conversations.json").new == 30
    assert len(parsed) <= 3
    assert {text for session in store.list_sessions() for text in stored_texts(store, session.native_id)} >= {
        f"n{number} says" for number in range(31)
    }
