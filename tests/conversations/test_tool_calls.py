"""These tests cover the tool calls of one session: the list without results, and single calls."""

from __future__ import annotations

import pytest

from store.conversations import tool_calls
from store.errors import NotFound
from store.model.entry import NewEntry, Text, ToolCall, ToolResult
from store.search import all_tool_calls
from store.search.query import Query
from store.store import Store


def create_session_with_calls(store: Store) -> int:
    session = store.sessions.create("s")
    parts = (Text("Let me see."), ToolCall("1", "Read", {"path": "a"}), ToolCall("2", "Bash", {"command": "ls"}))
    store.chains.append(
        session.key,
        [
            NewEntry(role="user", parts=(Text("Look"),)),
            NewEntry(role="assistant", parts=parts),
            NewEntry(role="tool", parts=(ToolResult("2", "no such file", is_error=True, duration_ms=7.0),)),
            NewEntry(role="tool", parts=(ToolResult("1", {"text": "hello"}),)),
            NewEntry(role="tool", parts=(ToolResult("unknown", "x"),)),
            NewEntry(role="assistant", parts=(ToolCall("3", "Bash", {"command": "cat"}),)),
        ],
    )
    return session.key


def test_calls_of_a_session_are_listed_in_order_without_results(store: Store) -> None:
    calls = list(tool_calls.iter_session_calls(store, create_session_with_calls(store)))
    assert [(call.name, call.arguments, call.status) for call in calls] == [
        ("Read", {"path": "a"}, "ok"),
        ("Bash", {"command": "ls"}, "error"),
        ("", None, "orphan"),
        ("Bash", {"command": "cat"}, "pending"),
    ]
    assert {call.result for call in calls} == {None}


CALLED_AT, ANSWERED_AT = "2026-05-01T10:00:01.250000Z", "2026-05-01T10:00:03.750000Z"


@pytest.mark.parametrize(
    ("called_at", "answered_at", "stated_ms", "expected"),
    [
        (CALLED_AT, ANSWERED_AT, None, 2500.0),
        (CALLED_AT, ANSWERED_AT, 7.0, 7.0),
        (CALLED_AT, ANSWERED_AT, 0.0, 0.0),
        (CALLED_AT, CALLED_AT, None, None),
        (ANSWERED_AT, CALLED_AT, None, None),
        (CALLED_AT, "later", None, None),
        (CALLED_AT, "", None, None),
    ],
)
@pytest.mark.parametrize("batches", [1, 2])
def test_a_duration_is_stated_or_the_time_from_the_call_to_its_result(
    store: Store, called_at: str, answered_at: str, stated_ms: float | None, expected: float | None, batches: int
) -> None:
    session = store.sessions.create("s")
    call = NewEntry(role="assistant", parts=(ToolCall("1", "Read", {}),), created_at=called_at)
    result = NewEntry(role="tool", parts=(ToolResult("1", "", duration_ms=stated_ms),), created_at=answered_at)
    for entries in [[call, result]] if batches == 1 else [[call], [result]]:
        store.chains.append(session.key, entries)
    (paired,) = store.chains.tool_calls(session.key)
    assert (paired.status, paired.duration_ms) == ("ok", expected)


def test_entries_that_are_stored_together_without_times_have_no_duration(store: Store) -> None:
    create_session_with_calls(store)
    durations = {call.call_id: call.duration_ms for call in store.chains.tool_calls(store.sessions.get("s").key)}
    assert durations == {"1": None, "2": 7.0, "3": None, "unknown": None}


def test_a_single_call_equals_the_call_in_its_turn(store: Store) -> None:
    session = create_session_with_calls(store)
    full_calls = store.chains.tool_calls(session)
    assert len(full_calls) == 4
    assert [tool_calls.get_call(store, call.key) for call in full_calls] == full_calls
    listed = {call.key: call for call in tool_calls.iter_session_calls(store, session)}
    assert listed == {call.key: call._replace(result=None) for call in full_calls}


def test_calls_of_other_sessions_are_not_listed(store: Store) -> None:
    create_session_with_calls(store)
    assert list(tool_calls.iter_session_calls(store, store.sessions.create("other").key)) == []


def test_a_fork_has_the_calls_it_inherited(store: Store) -> None:
    parent = create_session_with_calls(store)
    child = store.sessions.create("child", parent_id="s", relation="fork")
    store.chains.copy_to_fork(parent, child.key, last_seq=1)
    (read, bash) = tool_calls.iter_session_calls(store, child.key)
    assert (read.status, bash.arguments) == ("pending", {"command": "ls"})
    assert tool_calls.get_call(store, bash.key) == bash


def test_an_unknown_call_raises_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        tool_calls.get_call(store, 77)


def test_find_calls_returns_up_to_the_limit_when_calls_share_messages(store: Store) -> None:
    """Only one call of each message contains the word, and the index contains only messages."""
    store.sessions.create("old", updated_at="2020-01-01T00:00:00.000000Z")
    session = store.sessions.create("s")
    for n in range(6):
        parts = (ToolCall(f"a{n}", "Bash", {"command": "seal"}), ToolCall(f"b{n}", "Bash", {"command": "ls"}))
        store.chains.append(session.key, [NewEntry(role="assistant", parts=parts)])
    for order in ("newest", "slowest"):
        calls = all_tool_calls.find_calls(store, Query.parse("seal"), order=order, limit=4)
        assert [call.arguments for call in calls] == [{"command": "seal"}] * 4
    assert all_tool_calls.count_calls(store, Query.parse("seal")) == 6
