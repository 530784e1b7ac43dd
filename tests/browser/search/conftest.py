"""Fixtures of the tests that search in the browser."""

from __future__ import annotations

import pytest
from browser_driver import add_session, answer_entry, fill_store, prompt_entry, time_ago

from store.model.entry import NewEntry, Text, ToolCall, ToolResult
from store.store import Store


def add_call_session(store: Store, session_id: str, at: str, *, command: str, result: str) -> None:
    """Add a session of two turns. The first one has two calls in one message, and the second call has this result."""
    calls = (Text("I look."), ToolCall("c1", "Bash", {"command": "ls"}), ToolCall("c2", "Bash", {"command": command}))
    add_session(
        store,
        session_id,
        at,
        prompt_entry(f"Look around in {session_id}", at),
        NewEntry(role="assistant", parts=calls, created_at=at),
        NewEntry(role="tool", parts=(ToolResult("c1", "notes.txt", False, duration_ms=10.0),), created_at=at),
        NewEntry(role="tool", parts=(ToolResult("c2", result, False, duration_ms=20.0),), created_at=at),
        answer_entry("That is all.", at),
        prompt_entry("Thanks", at),
        answer_entry("You are welcome.", at),
        source="claude",
    )


@pytest.fixture
def tool_store(store: Store) -> Store:
    """A store in which two sessions have the word "dolphin" only in tool calls, and one says it."""
    fill_store(store)
    add_call_session(
        store, "harbour", time_ago(hours=1), command="cat log", result="ok\n" * 50 + "a dolphin\n" + "ok\n" * 9
    )
    add_call_session(store, "aquarium", time_ago(hours=3), command="grep dolphin *", result="nothing")
    at = time_ago(hours=5)
    add_session(store, "talk", at, prompt_entry("Tell me of the dolphin", at), answer_entry("It swims.", at))
    return store
