"""Tests chat history: users with the same session id are separate, and a failed question stores nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.agent_api.chat import ChatHistory
from store.errors import BadValue
from store.store import Store

HELLO = [
    {"role": "User", "content": "Hello, how are you?"},
    {"role": "Assistant", "content": "I am doing well, thank you. How can I help you today?"},
]
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


@pytest.fixture(scope="module")
def shared() -> Iterator[Store]:
    with Store.memory() as opened:
        yield opened


def test_a_conversation_that_has_not_begun_is_empty_and_leaves_no_session(store: Store) -> None:
    assert ChatHistory(store).messages() == []
    assert store.list_sessions() == []


def test_messages_come_back_as_role_and_content(store: Store) -> None:
    chat = ChatHistory(store)
    chat.append("User", "Hello, how are you?")
    chat.append("Assistant", "I am doing well, thank you. How can I help you today?")
    assert chat.messages() == HELLO


def test_ids_default_to_the_debug_ones(store: Store) -> None:
    chat = ChatHistory(store)
    assert (chat.user_id, chat.session_id) == ("debug_user", "debug_session")


def test_a_username_has_one_session_of_its_own(store: Store) -> None:
    chat = ChatHistory.for_username(store, "admin")
    assert (chat.user_id, chat.session_id) == ("admin", "session_admin")


def test_the_session_knows_its_user_and_answers_to_its_own_id(store: Store) -> None:
    chat = ChatHistory(store, "google_12345", "session_google_12345")
    chat.append("User", "Which project is due first?")
    session = store.sessions.find("session_google_12345")
    assert (session.id, session.user, session.turns) == (chat.id, "google_12345", 1)
    assert store.chains.entry(session.key, 0).author == "google_12345"


def test_two_users_with_the_same_session_id_never_mix(store: Store) -> None:
    anna, marco = ChatHistory(store, "anna", "work"), ChatHistory(store, "marco", "work")
    anna.append("User", "my salary is 1")
    marco.append("User", "my salary is 2")
    assert [message["content"] for message in anna.messages()] == ["my salary is 1"]
    assert [message["content"] for message in marco.messages()] == ["my salary is 2"]


def test_slashes_in_ids_never_make_two_conversations_one(store: Store) -> None:
    pairs = [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("a/b/c", "c"), ("a", "b%2Fc")]
    for user, session in pairs:
        ChatHistory(store, user, session).append("User", f"{user} in {session}")
    for user, session in pairs:
        assert [m["content"] for m in ChatHistory(store, user, session).messages()] == [f"{user} in {session}"]


@given(NAMES, NAMES)
def test_an_id_tells_user_and_session_apart_whatever_they_hold(shared: Store, user: str, session: str) -> None:
    assert [unquote(part) for part in ChatHistory(shared, user, session).id.split("/")] == ["chat", user, session]


def test_an_id_that_looks_like_a_delegate_is_no_delegate(store: Store) -> None:
    ChatHistory(store, "a:delegate:b", "c:delegate:d").append("User", "hi")
    assert store.list_sessions()[0].parent_id is None


def test_the_prompt_is_the_system_prompt_then_the_history_then_the_input(store: Store) -> None:
    chat = ChatHistory(store)
    chat.append("User", "What is the capital of France?")
    chat.append("Assistant", "Paris.")
    assert chat.construct_prompt("Answer in one word.", "And of Italy?") == (
        "Answer in one word.\n\nUser: What is the capital of France?\n\nAssistant: Paris.\n\nUser: And of Italy?"
    )
    assert chat.construct_prompt("", "And of Italy?").startswith("User: What is the capital of France?")


def test_run_asks_with_the_whole_conversation_and_remembers_both_sides(store: Store) -> None:
    asked: list[str] = []

    def generate(prompt: str) -> str:
        asked.append(prompt)
        return f"answer {len(asked)}"

    chat = ChatHistory(store)
    assert chat.run("first", generate, "Be brief.") == "answer 1"
    assert chat.run("second", generate, "Be brief.") == "answer 2"
    assert asked == [
        "Be brief.\n\nUser: first",
        "Be brief.\n\nUser: first\n\nAssistant: answer 1\n\nUser: second",
    ]
    assert [message["content"] for message in chat.messages()] == ["first", "answer 1", "second", "answer 2"]
    session = store.sessions.get(chat.id)
    assert (session.turns, session.system_prompt) == (2, "Be brief.")


def test_nothing_is_remembered_when_the_model_fails(store: Store) -> None:
    chat = ChatHistory(store)
    chat.run("hello", lambda prompt: "hi")

    def fails(prompt: str) -> str:
        raise TimeoutError("the model did not answer")

    with pytest.raises(TimeoutError):
        chat.run("are you there?", fails)
    assert len(chat.messages()) == 2


def test_nothing_is_remembered_of_an_answer_that_is_not_text(store: Store) -> None:
    chat = ChatHistory(store)
    none: Any = None
    with pytest.raises(BadValue, match="must be text, not NoneType"):
        chat.run("hello", lambda prompt: none)
    assert chat.messages() == []


def test_only_the_user_and_the_assistant_speak(store: Store) -> None:
    with pytest.raises(BadValue, match="'system'"):
        ChatHistory(store).append("system", "obey")
    assert store.list_sessions() == []


@given(st.text(st.characters()))
def test_any_text_comes_back_as_it_was_said(shared: Store, content: str) -> None:
    chat = ChatHistory(shared, "someone", "anything")
    chat.append("User", content)
    assert chat.messages()[-1] == {"role": "User", "content": content}


def test_what_was_said_is_there_when_the_store_is_opened_again(store: Store) -> None:
    ChatHistory(store).append("User", "remember me")
    store.close()
    with Store.open(store.path) as again:
        assert ChatHistory(again).messages() == [{"role": "User", "content": "remember me"}]


def test_in_memory_it_is_lost_on_restart() -> None:
    with Store.memory() as first:
        ChatHistory(first).append("User", "remember me")
        assert len(ChatHistory(first).messages()) == 1
    with Store.memory() as second:
        assert ChatHistory(second).messages() == []
    assert not first.path.exists()
