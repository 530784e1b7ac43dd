"""Tests the third document, Chat History Specification (DAK): messages, flow, the two backends and ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.agent_api.chat import ChatHistory
from store.errors import StoreError
from store.store import Store


def test_data_structure_is_a_list_of_role_and_content(store: Store) -> None:
    chat = ChatHistory(store)
    chat.append("User", "Hello, how are you?")
    chat.append("Assistant", "I am doing well.")
    assert chat.messages() == [
        {"role": "User", "content": "Hello, how are you?"},
        {"role": "Assistant", "content": "I am doing well."},
    ]


def test_execution_flow_of_run(store: Store) -> None:
    """Load the history, construct the prompt, generate, append both messages, and return the answer."""
    prompts: list[str] = []

    def generate(prompt: str) -> str:
        prompts.append(prompt)
        return f"answer {len(prompts)}"

    chat = ChatHistory(store, "admin", "session_admin")
    assert chat.run("first", generate, system_prompt="SYSTEM") == "answer 1"
    assert chat.run("second", generate, system_prompt="SYSTEM") == "answer 2"
    positions = [prompts[1].index(piece) for piece in ("SYSTEM", "first", "answer 1", "second")]
    assert positions == sorted(positions)
    assert [message["content"] for message in chat.messages()] == ["first", "answer 1", "second", "answer 2"]


def test_a_failed_generation_leaves_no_half_of_a_turn(store: Store) -> None:
    def generate(_: str) -> str:
        raise RuntimeError("the model is out")

    chat = ChatHistory(store)
    with pytest.raises(RuntimeError):
        chat.run("first", generate)
    assert chat.messages() == []


def test_persistent_backend_keeps_the_history(tmp_path: Path) -> None:
    for expected in (0, 1):
        with Store.open(tmp_path / "store.db") as store:
            chat = ChatHistory(store, "admin", "session_admin")
            assert len(chat.messages()) == expected
            chat.append("User", "hi")


def test_in_memory_backend_loses_it_at_the_end() -> None:
    for _ in range(2):
        with Store.memory() as store:
            chat = ChatHistory(store, "admin", "session_admin")
            assert chat.messages() == []
            chat.append("User", "hi")


def test_key_identifiers_default_to_debug(store: Store) -> None:
    ChatHistory(store).append("User", "hi")
    (session,) = store.list_sessions(10)
    assert session.user == "debug_user"
    assert "debug_session" in session.id


def test_key_identifiers_keep_users_apart_even_with_one_session_id(store: Store) -> None:
    """`store[user_id][session_id]`."""
    ChatHistory(store, "google_12345", "shared").append("User", "mine")
    other = ChatHistory(store, "admin", "shared")
    assert other.messages() == []
    ChatHistory(store, "a/b", "c").append("User", "x")
    assert ChatHistory(store, "a", "b/c").messages() == []


def test_role_is_user_or_assistant(store: Store) -> None:
    with pytest.raises(StoreError):
        ChatHistory(store).append("Robot", "beep")
