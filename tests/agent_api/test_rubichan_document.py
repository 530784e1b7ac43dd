"""Tests the fourth document, SQLite Conversation Persistence (Rubichan): columns, methods and its test cases."""

from __future__ import annotations

import sqlite3
from typing import Any
from uuid import UUID

import pytest

from store.errors import AlreadyExists, NotFound
from store.store import Store

BLOCKS: list[list[dict[str, Any]]] = [
    [{"type": "text", "text": "List the files."}],
    [
        {"type": "thinking", "text": "plan"},
        {"type": "text", "text": "ok"},
        {"type": "tool_use", "id": "t1", "name": "shell", "input": {"command": "ls"}},
    ],
    [{"type": "tool_result", "text": "a.go", "tool_use_id": "t1", "is_error": True}],
    [{"type": "tool_use", "id": "t2", "name": "shell", "input": '{"cut in half'}],
    [{"type": "tool_result", "tool_use_id": "t2"}],
    [{"type": "from_the_future", "anything": {"goes": [1, 2.5, None]}}],
]


@pytest.mark.parametrize(
    ("column", "ours", "value"),
    [
        ("title", "agent_title", "Fix the build"),
        ("model", "model", "claude-x"),
        ("working_dir", "cwd", "/src/rubichan"),
        ("system_prompt", "system_prompt", "You are a builder."),
        ("token_count", "tokens_total", 4321),
    ],
)
def test_sessions_column(store: Store, column: str, ours: str, value: object) -> None:
    store.create_session("id", **{column: value})  # type: ignore[arg-type]
    assert getattr(store.get_session("id"), ours) == value


def test_sessions_columns_default_to_empty_text_and_zero(store: Store) -> None:
    session = store.create_session("id")
    assert (session.title, session.cwd, session.system_prompt, session.tokens_total) == ("", "", "", 0)


def test_messages_columns(store: Store) -> None:
    """id, session_id, seq, role, content, created_at."""
    store.create_session("id")
    store.append_message("id", "user", BLOCKS[0])
    (message,) = store.get_messages("id")
    assert (message.id, message.session_id, message.seq, message.role) == ("id#0", "id", 0, "user")
    assert message.content == BLOCKS[0]
    assert message.created_at.endswith("Z")


def test_session_id_is_a_uuid_unless_one_is_given(store: Store) -> None:
    assert UUID(store.create_session().id).version == 4


def test_session_crud(store: Store) -> None:
    """Create, get, update, delete, list."""
    store.create_session("id", model="m")
    assert store.get_session("id").model == "m"
    before = store.get_session("id").updated_at
    updated = store.update_session("id", title="New", token_count=7)
    assert (updated.title, updated.tokens_total) == ("New", 7)
    assert updated.updated_at > before
    assert [session.id for session in store.list_sessions(10)] == ["id"]
    store.delete_session("id")
    assert store.list_sessions(10) == []
    with pytest.raises(NotFound):
        store.get_session("id")


def test_create_session_refuses_an_id_that_is_taken(store: Store) -> None:
    store.create_session("id", title="first")
    with pytest.raises(AlreadyExists):
        store.create_session("id", title="second")
    assert store.get_session("id").title == "first"


def test_list_sessions_is_most_recent_first_and_limited(store: Store) -> None:
    for name in ("a", "b", "c"):
        store.create_session(name)
    store.append_message("a", "user", "I am the newest now")
    assert [session.id for session in store.list_sessions(2)] == ["a", "c"]


def test_message_append_and_retrieval_ordering(store: Store) -> None:
    store.create_session("id")
    for number in range(25):
        store.append_message("id", "user", [{"type": "text", "text": str(number)}])
    messages = store.get_messages("id")
    assert [message.seq for message in messages] == list(range(25))
    assert [message.content[0]["text"] for message in messages] == [str(number) for number in range(25)]


def test_append_message_numbers_each_session_by_itself(store: Store) -> None:
    store.create_session("a")
    store.create_session("b")
    store.append_message("a", "user", "one")
    store.append_message("b", "user", "two")
    assert store.append_message("a", "user", "three") == "a#1"


def test_cascade_delete(store: Store) -> None:
    """Deleting a session removes its messages and keeps those of other sessions."""
    for name in ("id", "neighbour"):
        store.create_session(name)
        for blocks in BLOCKS:
            store.append_message(name, "user", blocks)
    store.delete_session("id")
    (left,) = store.row("select count(*) from entries")
    assert left == 1 + len(BLOCKS)
    assert len(store.get_messages("neighbour")) == len(BLOCKS)
    assert store.row("select count(*) from records")[0] == 1 + len(BLOCKS)


@pytest.mark.parametrize("blocks", BLOCKS)
def test_json_round_trip_for_content_blocks(store: Store, blocks: list[dict[str, Any]]) -> None:
    store.create_session("id")
    store.append_message("id", "assistant", blocks)
    assert store.get_messages("id")[0].content == blocks


def test_tool_results_are_no_human_turns_and_pair_with_their_calls(store: Store) -> None:
    store.create_session("id")
    for role, blocks in zip(("user", "assistant", "user", "assistant", "user"), BLOCKS, strict=False):
        store.append_message("id", role, blocks)
    session = store.get_session("id")
    assert (session.turns, session.tool_calls, session.errors) == (1, 2, 1)
    calls = store.chains.tool_calls(session.key)
    assert [(call.status, call.result) for call in calls] == [("error", "a.go"), ("ok", None)]
    assert calls[1].arguments == '{"cut in half'


def test_edge_case_empty_sessions(store: Store) -> None:
    store.create_session("id")
    assert store.get_messages("id") == []
    assert store.load_input_history("id") == []


def test_edge_case_duplicate_seq_prevention(store: Store) -> None:
    session = store.create_session("id")
    store.append_message("id", "user", "first")
    tail = store.get_session("id").tail
    with pytest.raises(sqlite3.IntegrityError, match=r"entries\.session, entries\.seq"):
        store.connection.execute(
            "insert into entries (session, parent, seq, turn, kind, created_at) values (?, ?, 0, 1, 'message', 'x')",
            (session.key, tail),
        )


def test_edge_case_missing_session_on_append(store: Store) -> None:
    with pytest.raises(NotFound, match="nobody"):
        store.append_message("nobody", "user", "hi")


def test_resume_flow_hydrates_the_conversation(store: Store) -> None:
    store.create_session("id", system_prompt="You are a builder.")
    given = [("user", BLOCKS[0]), ("assistant", BLOCKS[1]), ("user", BLOCKS[2])]
    for role, blocks in given:
        store.append_message("id", role, blocks)
    assert [(message.role, message.content) for message in store.get_messages("id")] == given
    assert store.get_session("id").system_prompt == "You are a builder."


def test_the_same_tests_on_an_ephemeral_store() -> None:
    """The document tests with `:memory:`. `Store.memory()` is deleted when it is closed."""
    with Store.memory() as store:
        path = store.path
        test_session_crud(store)
        assert path.exists()
    assert not path.parent.exists()
