"""Tests the second document, SQLite Persistence Schema (WuhuCore): fields, invariants and entry payloads."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from store.errors import Refused
from store.model.entry import NewEntry, NewRecord, Opaque, Text, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store


@pytest.fixture
def session(store: Store) -> Session:
    return store.create_session("3f2a", provider="openai", model="m", system_prompt="Be brief.")


@pytest.mark.parametrize(
    ("field", "ours", "value"),
    [
        ("provider", "provider", "openai-codex"),
        ("model", "model", "gpt-x"),
        ("environmentName", "environment_name", "alpha"),
        ("environmentType", "environment_type", "local"),
        ("environmentPath", "environment_path", "/srv/alpha"),
        ("cwd", "cwd", "/srv/alpha/src"),
        ("parentSessionID", "parent_id", "other"),
    ],
)
def test_sessions_field(store: Store, field: str, ours: str, value: str) -> None:
    store.create_session("id", **{ours: value})  # type: ignore[arg-type]
    assert getattr(store.get_session("id"), ours) == value


def test_sessions_head_is_immutable_and_tail_moves(store: Store, session: Session) -> None:
    store.append_message(session.id, "user", "hi")
    after = store.get_session(session.id)
    assert after.head == session.head
    assert after.tail != session.tail
    with pytest.raises(sqlite3.IntegrityError, match="head of a session never changes"):
        store.connection.execute("update sessions set head = ? where key = ?", (after.tail, session.key))


def test_session_entries_fields(store: Store, session: Session) -> None:
    """id, sessionID, parentEntryID, type, payload, createdAt."""
    store.chains.append(session.key, [NewEntry(role="user", parts=(Text("hi"),), record=NewRecord(b'{"a": 1}'))])
    header, entry = store.chains.entries(session.key)
    assert (entry.session, entry.parent, entry.kind) == (session.key, header.key, "message")
    assert entry.record is not None
    assert store.records.get(entry.record) == b'{"a": 1}'
    assert entry.created_at.endswith("Z")


def test_an_append_hangs_on_the_tail_and_becomes_it(store: Store, session: Session) -> None:
    for number in range(3):
        before = store.get_session(session.id).tail
        store.append_message(session.id, "user", f"{number}")
        after = store.get_session(session.id).tail
        assert after is not None
        assert store.chains.entry_by_key(after)[1].parent == before


def test_the_header_is_the_entry_without_a_parent_and_holds_the_system_prompt(store: Store, session: Session) -> None:
    (header,) = store.chains.entries(session.key)
    assert (header.parent, header.seq, header.kind, header.text) == (None, -1, "header", "Be brief.")


INSERT = "insert into entries (session, parent, seq, turn, kind, created_at) values (?, ?, ?, 0, ?, 'x')"


def test_invariant_1_exactly_one_header_per_session(store: Store, session: Session) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        store.connection.execute(INSERT, (session.key, None, -1, "header"))
    with pytest.raises(Refused, match="begin with a header and can have only one"):
        store.chains.append(session.key, [NewEntry(kind="header")])


def test_invariant_1_only_the_header_has_no_parent(store: Store, session: Session) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        store.connection.execute(INSERT, (session.key, None, 7, "message"))


def test_invariant_2_no_forks_within_a_session(store: Store, session: Session) -> None:
    store.append_message(session.id, "user", "hi")
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        store.connection.execute(INSERT, (session.key, session.head, 5, "message"))


def test_no_entry_hangs_on_another_session_s(store: Store, session: Session) -> None:
    other = store.create_session("other")
    with pytest.raises(Refused, match="FOREIGN KEY"), store.transaction() as connection:
        connection.execute(INSERT, (other.key, session.head, 0, "message"))


@pytest.mark.parametrize("column", ["key", "session", "parent", "seq", "record"])
def test_append_only_an_entry_keeps_what_makes_it_a_link(store: Store, session: Session, column: str) -> None:
    store.append_message(session.id, "user", "hi")
    with pytest.raises(sqlite3.IntegrityError, match="keeps its id"):
        store.connection.execute(f"update entries set {column} = 99 where seq = 0")


def test_append_only_no_delete_and_no_replace(store: Store, session: Session) -> None:
    store.append_message(session.id, "user", "hi")
    with pytest.raises(sqlite3.IntegrityError, match="only ever appended"):
        store.connection.execute("delete from entries where seq = 0")
    row = store.row("select * from entries where seq = 0")
    marks = ", ".join("?" * len(row))
    with pytest.raises(sqlite3.IntegrityError, match="only ever appended"):
        store.connection.execute(f"insert or replace into entries values ({marks})", row)
    assert store.chains.entries(session.key)[1].text == "hi"


PAYLOADS: dict[str, NewEntry] = {
    "message user": NewEntry(role="user", parts=(Text("hi"),), author="ana@box"),
    "message assistant": NewEntry(role="assistant", parts=(Text("ok"), ToolCall("t1", "bash", {"command": "ls"}))),
    "message tool_result": NewEntry(role="tool", parts=(ToolResult("t1", "a", is_error=False),)),
    "message custom_message": NewEntry(role="user", parts=(Text("injected"),), is_prompt=False, author="wuhu"),
    "message unknown": NewEntry(role="oracle", parts=(Opaque("riddle", {"a": [1, None]}),)),
    "tool_execution": NewEntry(kind="event", parts=(Opaque("tool_execution", {"phase": "start"}),)),
    "custom": NewEntry(kind="event", parts=(Opaque("custom", {"customType": "x", "data": 1}),)),
    "compaction": NewEntry(kind="compaction", role="system", parts=(Text("so far"),)),
    "unknown": NewEntry(kind="unknown", parts=(Opaque("from the future", {"deep": {"er": True}}),)),
    "a kind nobody has heard of": NewEntry(kind="hologram", parts=(Opaque("hologram", "…"),)),
}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_entry_payload_is_kept_and_given_back_unharmed(store: Store, session: Session, payload: str) -> None:
    given = PAYLOADS[payload]
    store.chains.append(session.key, [given])
    entry = store.chains.entries(session.key)[-1]
    assert (entry.kind, entry.role, entry.parts) == (given.kind, given.role, given.parts)


def test_a_user_message_keeps_who_spoke_and_unknown_user_when_nobody_says(store: Store, session: Session) -> None:
    store.append_message(session.id, "user", "hi", author="ana@box")
    store.append_message(session.id, "user", "hello")
    assert [entry.author for entry in store.chains.entries(session.key)[1:]] == ["ana@box", "unknown_user"]


def test_a_custom_message_is_in_the_context_but_begins_no_turn(store: Store, session: Session) -> None:
    store.chains.append(session.key, [PAYLOADS["message custom_message"]])
    assert store.get_session(session.id).turns == 0
    context: list[Any] = store.load_input_history(session.id)
    assert context[0]["content"][0]["text"] == "injected"


def test_custom_and_tool_execution_are_not_in_the_context(store: Store, session: Session) -> None:
    store.chains.append(session.key, [PAYLOADS["custom"], PAYLOADS["tool_execution"]])
    assert store.load_input_history(session.id) == []
