"""The tool calls of one session: all of them without their results, or a single one whole."""

from __future__ import annotations

import pytest

from store.conversations import tool_calls
from store.errors import NotFound
from store.model.entry import NewEntry, Text, ToolCall, ToolResult
from store.search import all_tool_calls
from store.search.query import Query
from store.store import Store


def filled(store: Store) -> int:
    session = store.sessions.create("s")
    both = (Text("Let me see."), ToolCall("1", "Read", {"path": "a"}), ToolCall("2", "Bash", {"command": "ls"}))
    store.chains.append(
        session.key,
        [
            NewEntry(role="user", parts=(Text("Look"),)),
            NewEntry(role="assistant", parts=both),
            NewEntry(role="tool", parts=(ToolResult("2", "no such file", is_error=True, duration_ms=7.0),)),
            NewEntry(role="tool", parts=(ToolResult("1", {"text": "hello"}),)),
            NewEntry(role="tool", parts=(ToolResult("nobody asked", "x"),)),
            NewEntry(role="assistant", parts=(ToolCall("3", "Bash", {"command": "cat"}),)),
        ],
    )
    return session.key


def test_all_calls_come_in_order_without_their_results(store: Store) -> None:
    found = list(tool_calls.iter_session_calls(store, filled(store)))
    assert [(call.name, call.arguments, call.status) for call in found] == [
        ("Read", {"path": "a"}, "ok"),
        ("Bash", {"command": "ls"}, "error"),
        ("", None, "orphan"),
        ("Bash", {"command": "cat"}, "pending"),
    ]
    assert {call.result for call in found} == {None}


def test_one_call_is_the_same_as_in_its_turn(store: Store) -> None:
    session = filled(store)
    whole = store.chains.tool_calls(session)
    assert len(whole) == 4
    assert [tool_calls.get_call(store, call.key) for call in whole] == whole
    listed = {call.key: call for call in tool_calls.iter_session_calls(store, session)}
    assert listed == {call.key: call._replace(result=None) for call in whole}


def test_other_sessions_have_calls_of_their_own(store: Store) -> None:
    filled(store)
    assert list(tool_calls.iter_session_calls(store, store.sessions.create("other").key)) == []


def test_a_fork_has_the_calls_it_inherited(store: Store) -> None:
    parent = filled(store)
    child = store.sessions.create("child", parent_id="s", relation="fork")
    store.chains.copy_to_fork(parent, child.key, last_seq=1)
    (read, bash) = tool_calls.iter_session_calls(store, child.key)
    assert (read.status, bash.arguments) == ("pending", {"command": "ls"})
    assert tool_calls.get_call(store, bash.key) == bash


def test_no_such_call(store: Store) -> None:
    with pytest.raises(NotFound):
        tool_calls.get_call(store, 77)


def test_as_many_are_found_as_are_asked_for_though_calls_share_messages(store: Store) -> None:
    """Of each message only one call holds the word, and the index knows messages alone."""
    store.sessions.create("old", updated_at="2020-01-01T00:00:00.000000Z")
    session = store.sessions.create("s")
    for n in range(6):
        both = (ToolCall(f"a{n}", "Bash", {"command": "seal"}), ToolCall(f"b{n}", "Bash", {"command": "ls"}))
        store.chains.append(session.key, [NewEntry(role="assistant", parts=both)])
    for by in ("newest", "slowest"):
        found = all_tool_calls.find_calls(store, Query.parse("seal"), order=by, limit=4)
        assert [call.arguments for call in found] == [{"command": "seal"}] * 4
    assert all_tool_calls.count_calls(store, Query.parse("seal")) == 6
