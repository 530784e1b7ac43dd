"""Tests what agents read back: blocks of imported sessions, limits, one entry, summary and names of secrets."""

from __future__ import annotations

import asyncio
import inspect
import threading
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import RUBICHAN_SCHEMA, add_rubichan_session, make_database, sync_paths
from kiso_database import DOCUMENT_SCHEMA, KisoStore
from typed_client import check_types

from store import AsyncStore, BadValue, ChatHistory, NewEntry, NewRecord, NotFound, Opaque, Store
from store.agent_api.methods import AgentMethods

TEXT_BLOCK = {"type": "text", "text": "hi"}
WORDS = sorted(name for name in vars(AgentMethods) if not name.startswith("_"))


def contents(store: Store, name: str = "s", limit: int | None = None) -> list[list[Any]]:
    return [message.content for message in store.get_messages(store.sessions.find(name).id, limit)]


# ── blocks ────────────────────────────────────────────────────────────────────────────────────────


def test_text_comes_back_as_a_text_block(store: Store) -> None:
    store.create_session("s")
    store.append_message("s", "user", "hi")
    assert contents(store) == [[TEXT_BLOCK]]


@pytest.mark.parametrize("text", ["[1]", "[]", '[{"type": "text", "text": "hi"}]', '["hi"]', "{}", ""])
def test_text_that_looks_like_json_stays_text(store: Store, tmp_path: Path, text: str) -> None:
    store.create_session("s")
    store.append_message("s", "user", text)
    kiso = KisoStore(tmp_path / "kiso.db", DOCUMENT_SCHEMA)
    kiso.add_session("dev")
    kiso.add_message(text)
    kiso.sync(store)
    assert contents(store) == contents(store, "dev") == [[{"type": "text", "text": text}]]


def test_messages_of_kiso(store: Store, tmp_path: Path) -> None:
    kiso = KisoStore(tmp_path / "kiso.db", DOCUMENT_SCHEMA)
    kiso.add_session("dev")
    kiso.add_message("hi", user="anna")
    kiso.add_message("yes", role="assistant")
    kiso.sync(store)
    question, answer = store.get_messages(store.sessions.find("dev").id)
    assert (question.role, question.content, question.author) == ("user", [TEXT_BLOCK], "anna")
    assert (answer.role, answer.content, answer.author) == ("assistant", [{"type": "text", "text": "yes"}], "")


def test_messages_of_rubichan(store: Store, tmp_path: Path) -> None:
    blocks: list[list[dict[str, Any]]] = [
        [TEXT_BLOCK],
        [
            {"type": "thinking", "text": "plan"},
            {"type": "tool_use", "id": "t1", "name": "shell", "input": {"command": "ls"}},
        ],
        [{"type": "tool_result", "text": "a.go", "tool_use_id": "t1", "is_error": True}],
        [{"type": "from_the_future", "anything": {"goes": [1, 2.5, None]}}],
    ]
    path = make_database(tmp_path / "rubichan.db", RUBICHAN_SCHEMA)
    add_rubichan_session(path, "s", *zip(["user", "assistant", "user", "assistant"], blocks, strict=True))
    sync_paths(store, path)
    assert contents(store) == blocks


def test_a_list_is_returned_as_it_was_given(store: Store) -> None:
    store.create_session("s")
    store.append_message("s", "user", ["hi", TEXT_BLOCK, 1])
    store.append_message("s", "user", [])
    assert contents(store) == [["hi", TEXT_BLOCK, 1], []]


# ── names of the documents ────────────────────────────────────────────────────────────────────────


def test_the_author_of_a_message(store: Store) -> None:
    store.create_session("s")
    store.append_message("s", "user", "hi", author="anna")
    assert store.get_messages("s")[0].author == "anna"


def test_a_session_has_the_names_of_the_fourth_document(store: Store) -> None:
    session = store.create_session("s", working_dir="/src", token_count=42)
    assert (session.working_dir, session.token_count) == (session.cwd, session.tokens_total) == ("/src", 42)


# ── reading one thing ─────────────────────────────────────────────────────────────────────────────


def test_the_current_summary(store: Store) -> None:
    store.create_session("s")
    assert store.get_summary("s") is None
    store.set_summary("s", "One.")
    store.set_summary("s", "Two.", up_to_turn=0)
    summary = store.get_summary("s")
    assert summary is not None
    assert (summary.text, summary.up_to_turn) == ("Two.", 0)


def test_names_of_secrets(store: Store) -> None:
    store.create_session("s")
    store.create_session("other")
    for key in ("b", "a"):
        store.set_secret("s", key, "value")
    store.secrets.lock()
    assert (store.list_secret_names("s"), store.list_secret_names("other")) == (["a", "b"], [])


def test_one_entry_of_any_kind(store: Store) -> None:
    session = store.create_session("a#1", system_prompt="Be brief.")
    store.append_message("a#1", "user", "hi")
    event = NewEntry(kind="event", text="stopped", parts=(Opaque("stop", {}),), record=NewRecord(b"{}"))
    store.chains.append(session.key, [event, NewEntry(kind="compaction", text="so far")])
    kinds = [store.get_entry(f"a#1#{seq}").kind for seq in range(-1, 3)]
    assert kinds == ["header", "message", "event", "compaction"]
    assert store.get_entry("a#1#1").text == "stopped"


@pytest.mark.parametrize("entry", ["", "s", "#", "s#", "s#x", "s#9", "other#0", "s#-2", "s#٣", "s#" + "9" * 30])
def test_an_entry_that_does_not_exist(store: Store, entry: str) -> None:
    store.create_session("s")
    store.append_message("s", "user", "hi")
    with pytest.raises(NotFound):
        store.get_entry(entry)


# ── items ─────────────────────────────────────────────────────────────────────────────────────────


def test_items_without_a_response(store: Store) -> None:
    store.create_session("s")
    call = {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "README.md"}
    store.save_turn("s", "List the files.", {"output": [call]})
    assert len(store.add_items("s", [output])) == 1
    assert store.load_input_history("s") == [{"role": "user", "content": "List the files."}, call, output]
    (paired,) = store.chains.tool_calls(store.get_session("s").key)
    assert (paired.status, paired.result) == ("ok", "README.md")


def test_text_is_no_list_of_items(store: Store) -> None:
    store.create_session("s")
    with pytest.raises(BadValue, match="must be a list, not text"):
        store.add_items("s", "hi")
    assert store.load_input_history("s") == []


# ── limits ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def turns(store: Store) -> Store:
    store.create_session("s", system_prompt="Be brief.")
    for n in range(1, 4):
        call = {"type": "function_call", "call_id": f"c{n}", "name": "ls", "arguments": "{}"}
        store.save_turn("s", f"question {n}", {"output": [call]})
        store.add_items("s", [{"type": "function_call_output", "call_id": f"c{n}", "output": "x"}])
    return store


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (1, 3), (2, 6), (3, 9), (99, 9), (None, 9)])
def test_a_limit_of_turns_never_separates_a_call_from_its_output(
    turns: Store, limit: int | None, expected: int
) -> None:
    history = turns.load_input_history("s")
    assert turns.load_input_history("s", limit=limit) == history[len(history) - expected :]


@pytest.mark.parametrize("limit", [0, 1, 4, 9, 99])
def test_a_limit_of_messages(turns: Store, limit: int) -> None:
    messages = turns.get_messages("s")
    assert turns.get_messages("s", limit=limit) == messages[max(len(messages) - limit, 0) :]


def test_a_limit_of_a_chat(store: Store) -> None:
    chat = ChatHistory(store)
    prompts: list[str] = []
    for text in ("one", "two", "three"):
        chat.run(text, lambda prompt: prompts.append(prompt) or "yes", "Be brief.", limit=2)
    assert prompts[-1] == "Be brief.\n\nUser: two\n\nAssistant: yes\n\nUser: three"
    assert [message["content"] for message in chat.messages(limit=1)] == ["yes"]
    assert ChatHistory(store, "unknown").messages(limit=1) == []


def test_a_negative_limit_is_refused(turns: Store) -> None:
    for load in (turns.load_input_history, turns.get_messages):
        with pytest.raises(BadValue, match="must not be negative: -1"):
            load("s", -1)


# ── asynchronous agents ───────────────────────────────────────────────────────────────────────────


def test_every_word_can_be_awaited_with_the_same_parameters() -> None:
    assert sorted(name for name in vars(AsyncStore) if not name.startswith("_")) == WORDS
    for word in WORDS:
        assert inspect.iscoroutinefunction(getattr(AsyncStore, word))
        assert inspect.signature(getattr(AsyncStore, word)) == inspect.signature(getattr(AgentMethods, word))


def test_a_conversation_is_written_without_stopping_the_event_loop(store: Store, monkeypatch: Any) -> None:
    threads: list[int] = []
    monkeypatch.setattr(store.chains, "append", _note_thread(store.chains.append, threads))

    async def converse() -> list[Any]:
        aio = store.aio
        await asyncio.gather(*(aio.create_session(f"s{n}", title="A title") for n in range(5)))
        await asyncio.gather(*(aio.append_message(f"s{n}", "user", "hi") for n in range(5)))
        with pytest.raises(NotFound):
            await aio.get_session("s9")
        return [(await aio.get_messages(f"s{n}"))[0].content for n in range(5)]

    assert asyncio.run(converse()) == [[TEXT_BLOCK]] * 5
    assert threads
    assert threading.get_ident() not in threads
    assert len(store.list_sessions()) == 5


def _note_thread(append: Any, threads: list[int]) -> Any:
    def append_and_note(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.get_ident())
        return append(*args, **kwargs)

    return append_and_note


CLIENT = """
from store import AsyncStore, Entry, Json, Session, Store, StoredMessage, Summary

async def converse(store: Store) -> None:
    aio: AsyncStore = store.aio
    session: Session = await aio.ensure_session("s", channel="telegram", title="A title")
    entry: str = await aio.append_message("s", "user", "hi", author="anna")
    messages: list[StoredMessage] = await aio.get_messages("s", limit=3)
    items: list[Json] = await aio.load_input_history(session.id, limit=3)
    summary: Summary | None = await aio.get_summary("s")
    one: Entry = await aio.get_entry(entry)
    names: list[str] = await aio.list_secret_names("s")
"""
WRONG_CLIENT = """
from store import Store

async def converse(store: Store) -> None:
    await store.aio.ensure_session("s", chanel="telegram")
    number: int = await store.aio.append_message("s", "user", "hi")
    await store.aio.get_sesion("s")
"""


def test_a_typed_client_sees_the_types(tmp_path: Path) -> None:
    assert check_types(CLIENT, tmp_path) == ""
    found = check_types(WRONG_CLIENT, tmp_path)
    assert 'Unexpected keyword argument "chanel"' in found
    assert 'expression has type "str", variable has type "int"' in found
    assert 'has no attribute "get_sesion"' in found
