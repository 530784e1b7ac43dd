"""These tests read databases of the OpenAI Agents SDK."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from foreign_databases import execute_sql, insert_row, make_openai_agents_database, stored_entries, sync_paths

from store.model.entry import Opaque, Text, Thinking, ToolCall
from store.sources.openai_agents.source import OpenAIAgents
from store.store import Store

ITEMS = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "Why does the total differ?"},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "look at tax"}]},
    {"type": "function_call", "call_id": "c1", "name": "grep", "arguments": '{"word": "total"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "cart.py:7"},
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "The tax is missing.", "annotations": []}],
        "provider_data": {"model": "gpt-5-mini"},
    },
    {"role": "user", "content": [{"type": "input_text", "text": "Add it"}]},
]


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    return make_openai_agents_database(tmp_path / "conversations.db", {"anna": ITEMS, "empty": []})


def test_items_become_a_conversation(owner: Path, store: Store) -> None:
    report = sync_paths(store, owner)
    assert (report.source, report.new, report.problems) == ("openai-agents", 2, [])
    session = store.sessions.find("anna")
    assert (session.title, session.model, session.turns) == ("Why does the total differ?", "gpt-5-mini", 2)
    assert session.created_at == "2026-03-01T10:00:00.000000Z"
    entries = stored_entries(store, "anna")
    assert [entry.role for entry in entries] == ["system", "user", *["assistant"] * 2, "tool", "assistant", "user"]
    assert entries[2].parts == (Thinking("look at tax"),)
    assert entries[3].parts == (ToolCall("c1", "grep", {"word": "total"}),)
    assert entries[5].parts == (Text("The tax is missing."),)
    (call,) = store.chains.tool_calls(session.key)
    assert (call.status, call.result) == ("ok", "cart.py:7")


def test_only_new_items_are_added(owner: Path, store: Store) -> None:
    sync_paths(store, owner)
    insert_row(owner, "agent_messages", session_id="anna", message_data=json.dumps({"role": "user", "content": "And?"}))
    report = sync_paths(store, owner)
    assert (report.new, report.updated, report.unchanged) == (0, 1, 1)
    assert store.sessions.find("anna").turns == 3


def test_a_message_that_is_no_json_is_kept_and_named(owner: Path, store: Store) -> None:
    execute_sql(owner, "update agent_messages set message_data = '{' where id = 1")
    (problem,) = sync_paths(store, owner).problems
    assert problem.where == "agent_messages:1"
    assert stored_entries(store, "anna")[0].parts == (Opaque("", "{"),)


def test_messages_without_a_session_are_named(owner: Path, store: Store) -> None:
    with closing(sqlite3.connect(owner)) as connection, connection:
        connection.execute("insert into agent_messages (session_id, message_data) values ('gone', '{}')")
    (problem,) = sync_paths(store, owner).problems
    assert problem.reason == "There is no session 'gone'."


def test_resume_says_how(owner: Path, store: Store) -> None:
    sync_paths(store, owner)
    command = OpenAIAgents().resume(store.sessions.find("anna"))
    assert command.argv is None
    assert "SQLiteSession('anna')" in command.hint
