"""These tests read llm's logs: threads with branches and forks, older conversations, and one that is in both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import execute_sql, insert_row, stored_entries, stored_texts, sync_paths
from llm_database import OLDEST_SCHEMA, SCHEMA_BEFORE_0_32, SCHEMA_SINCE_0_32, LlmStore, part, text_part, timestamp

from store.model.entry import Attachment, Opaque, PairedCall, Text, Thinking, Tokens, ToolCall
from store.sources.llm.source import Llm
from store.store import Store
from store.sync import refresh
from store.sync.targets import find_targets

llm = Llm()


@pytest.fixture
def owner(tmp_path: Path) -> LlmStore:
    return LlmStore(tmp_path / "any name")


def calls(store: Store, session_id: str = "t") -> list[PairedCall]:
    return store.chains.tool_calls(store.sessions.find(session_id).key)


def call(name: str = "add", call_id: str | None = "call_1") -> dict[str, Any]:
    return part("tool_call", name=name, arguments={"a": 2}, tool_call_id=call_id)


def result(output: str, name: str = "add", call_id: str | None = "call_1", **fields: Any) -> dict[str, Any]:
    return part("tool_result", name=name, output=output, tool_call_id=call_id, **fields)


# ── roots ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("elsewhere", [True, False])
def test_the_default_folders_are_found(
    home: Path, tmp_path: Path, store: Store, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path if elsewhere else home / ".config/io.datasette.llm"
    folder.mkdir(parents=True, exist_ok=True)
    if elsewhere:
        monkeypatch.setenv("LLM_USER_PATH", str(folder))
    owner = LlmStore(folder / "logs.db")
    owner.add_thread()
    owner.add_turn("hello", "Hi.")
    (target,) = find_targets(source_name="llm")
    list(refresh.sync_targets(store, [target]))
    session = store.sessions.find("t")
    assert (session.id, stored_texts(store, "t")) == ("llm:t", ["hello", "Hi."])
    assert llm.resume(session).argv == ("llm", "chat", "--cid", "t")


def test_a_copy_is_resumed_from_its_own_path(owner: LlmStore, store: Store) -> None:
    owner.add_thread()
    sync_paths(store, owner.path)
    assert llm.resume(store.sessions.find("t")).argv == ("llm", "chat", "--cid", "t", "-d", str(owner.path))


@pytest.mark.parametrize("layout", [SCHEMA_BEFORE_0_32, SCHEMA_SINCE_0_32], ids=["before", "since"])
def test_every_layout_opens(tmp_path: Path, store: Store, layout: str) -> None:
    owner = LlmStore(tmp_path / "l.db", layout)
    owner.add_conversation()
    owner.add_response("hello", "Hi.")
    report = sync_paths(store, owner.path)
    assert (report.source, report.new, report.problems) == ("llm", 1, [])
    assert stored_texts(store, "c") == ["hello", "Hi."]
    assert sync_paths(store, owner.path).unchanged == 1


# ── threads ───────────────────────────────────────────────────────────────────────────────────────


def test_a_thread(owner: LlmStore, store: Store) -> None:
    owner.add_thread(name="Greetings")
    tip = owner.add_turn("hello", "Hi.", owner.add_message("system", "Be kind."))
    owner.add_turn("again", "Hi.", tip, resolved_model="sonnet-5")
    assert sync_paths(store, owner.path).problems == []
    session = store.sessions.find("t")
    assert (session.title, session.turns, session.model) == ("Greetings", 2, "sonnet-5")
    assert (session.tokens_input, session.tokens_output, session.system_prompt) == (198, 42, "Be kind.")
    assert (session.created_at, session.updated_at) == ("2026-03-01T10:00:02.000000Z", "2026-03-01T10:00:04.500000Z")
    assert [(entry.role, entry.text, entry.model, entry.created_at[17:21]) for entry in stored_entries(store, "t")] == [
        ("system", "Be kind.", "", "02.0"),
        ("user", "hello", "", "02.0"),
        ("assistant", "Hi.", "sonnet", "02.5"),
        ("user", "again", "", "04.0"),
        ("assistant", "Hi.", "sonnet-5", "04.5"),
    ]


def test_the_same_beginning_in_two_threads(owner: LlmStore, store: Store) -> None:
    """The threads share the messages, but not the times or the models."""
    owner.add_thread("t")
    owner.add_thread("u")
    owner.add_turn("hello", "Hi.", thread="t")
    owner.add_turn("hello", "Hi.", thread="u", model="opus")
    sync_paths(store, owner.path)
    assert [entry.created_at[17:21] for entry in stored_entries(store, "u")] == ["04.0", "04.5"]
    assert (stored_entries(store, "t")[1].model, stored_entries(store, "u")[1].model) == ("sonnet", "opus")
    assert store.sessions.find("t").parent_id is store.sessions.find("u").parent_id is None


def test_parts(owner: LlmStore, store: Store) -> None:
    picture = ("sha", "image/png", "/tmp/a.png", None, b"\x89PNG")
    execute_sql(owner.path, "insert into attachments values (?, ?, ?, ?, ?)", [picture])
    insert_row(owner.path, "fragments", id=7, hash="h", content="Call me Ishmael.", source="moby.txt")
    references = part("text", text_ref=[{"fragment": 7}, {"literal": "Who?"}, {"fragment": 8}])
    owner.add_thread()
    owner.add_turn(
        [references, part("attachment", attachment={"id": "sha"}), part("attachment", attachment={"id": "lost"})],
        [{"type": "reasoning", "text": "hm"}, text_part("Ishmael."), call(), part("hologram", beam=1)],
    )
    assert sync_paths(store, owner.path).problems == []
    prompt, reply = stored_entries(store, "t")
    assert prompt.parts == (
        Attachment("text/plain", "moby.txt", 16),
        Text("Who?"),
        Opaque("text_ref", {"fragment": 8}),
        Attachment("image/png", "a.png", 4, "/tmp/a.png"),
        Attachment("attachment", "lost", uri="lost"),
    )
    assert prompt.text == "Who?"
    assert reply.parts == (
        Thinking("hm"),
        Text("Ishmael."),
        ToolCall("call_1", "add", {"a": 2}),
        Opaque("hologram", {"text": None, "payload": '{"beam": 1}'}),
    )
    assert prompt.record is not None
    record = json.loads(store.records.get(prompt.record))
    assert record["fragments"][0]["content"] == "Call me Ishmael."
    assert record["attachments"][0]["content"] == {"$base64": "iVBORw=="}


def test_calls_are_paired_and_failures_flagged(owner: LlmStore, store: Store) -> None:
    owner.add_thread()
    tip = owner.add_turn("go", [call(call_id="a"), call(call_id="b"), call("sub", None), call("sub", None)])
    answers = [result("5", call_id="b"), result("", call_id="a", exception="Boom"), result("1", "sub", None)]
    owner.add_turn([*answers, result("2", "sub", None)], "Done.", tip)
    sync_paths(store, owner.path)
    session = store.sessions.find("t")
    assert (session.turns, session.tool_calls, session.errors) == (1, 4, 1)
    assert [(call.name, call.status, call.result) for call in calls(store)] == [
        ("add", "error", "Boom"),
        ("add", "ok", "5"),
        ("sub", "ok", "1"),
        ("sub", "ok", "2"),
    ]


@pytest.mark.parametrize(
    ("details", "tokens"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 40}}, Tokens(59, 21, 40)),
        ({"input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 50}}, Tokens(9, 21, 40, 50)),
        ({"cache_read_input_tokens": 40, "cache_creation_input_tokens": 5}, Tokens(99, 21, 40, 5)),
        ({"cachedContentTokenCount": 40}, Tokens(59, 21, 40)),
        ({"cached": "many"}, Tokens(99, 21, 0)),
    ],
    ids=["openai", "openai writes", "anthropic", "google", "nonsense"],
)
def test_tokens_have_each_vendor_s_meaning(
    owner: LlmStore, store: Store, details: dict[str, Any], tokens: Tokens
) -> None:
    owner.add_thread()
    owner.add_turn("hello", "Hi.", token_details=json.dumps(details))
    sync_paths(store, owner.path)
    assert stored_entries(store, "t")[1].tokens == tokens


def test_an_abandoned_branch_is_a_fork(owner: LlmStore, store: Store) -> None:
    owner.add_thread()
    tip = owner.add_turn("one", "first")
    owner.add_turn("two", "second", tip)
    owner.add_turn("other", "another", tip)
    sync_paths(store, owner.path)
    session = store.sessions.find("llm:t")
    assert stored_texts(store, session.id) == ["one", "first", "other", "another"]
    (fork,) = store.sessions.children(session.id)
    assert (fork.relation, fork.forked_at, fork.turns) == ("fork", 1, 1)
    assert [(entry.text, entry.inherited) for entry in stored_entries(store, fork.id)] == [
        ("one", True),
        ("first", True),
        ("two", False),
        ("second", False),
    ]
    assert llm.resume(fork).argv is None
    assert llm.resume(fork).hint
    assert sync_paths(store, owner.path).unchanged == 2


def test_a_thread_forked_from_another(owner: LlmStore, store: Store) -> None:
    owner.add_thread("t")
    tip = owner.add_turn("one", "first")
    owner.add_turn("two", "second", tip)
    owner.add_thread("u", forked_from="t", tip_message_hash=tip)
    owner.add_turn("other", "another", tip, thread="u")
    owner.add_thread("v", forked_from="gone", tip_message_hash=tip)
    sync_paths(store, owner.path)
    fork = store.sessions.find("u")
    assert (fork.parent_id, fork.relation, fork.forked_at, fork.turns) == ("llm:t", "fork", 1, 1)
    assert [(entry.text, entry.inherited, entry.created_at[17:21]) for entry in stored_entries(store, "u")] == [
        ("one", True, "02.0"),
        ("first", True, "02.5"),
        ("other", False, "06.0"),
        ("another", False, "06.5"),
    ]
    orphan = store.sessions.find("v")
    assert (orphan.parent_id, orphan.forked_at, orphan.turns) == ("llm:gone", None, 1)
    assert llm.resume(fork).argv == ("llm", "chat", "--cid", "u", "-d", str(owner.path))


def test_cyclic_and_missing_hashes(owner: LlmStore, store: Store) -> None:
    owner.add_thread()
    tip = owner.add_turn("one", "first")
    execute_sql(owner.path, "update messages set parent_hash = ? where parent_hash is null", [(tip,)])
    owner.add_thread("lost", tip_message_hash="b2:nowhere")
    owner.add_turn("hello?", "Yes.", thread="gone")
    problems = sync_paths(store, owner.path).problems
    assert [problem.where for problem in problems] == ["threads:lost", "turns:2"]
    assert stored_texts(store, "t") == ["one", "first"]
    assert stored_texts(store, "lost") == []


# ── before 0.32 ───────────────────────────────────────────────────────────────────────────────────


def test_a_conversation_before_0_32(owner: LlmStore, store: Store) -> None:
    owner.add_conversation(name="Sums")
    insert_row(owner.path, "fragments", id=7, hash="h", content="Call me Ishmael.")
    insert_row(owner.path, "attachments", id="sha", type="image/png", url="https://example.org/a.png")
    first = owner.add_response("2+3?", "", system="Add.", input_tokens=9, output_tokens=3)
    execute_sql(owner.path, "insert into prompt_fragments values (?, 7, 0)", [(first,)])
    execute_sql(owner.path, "insert into prompt_attachments values (?, 'sha', 0)", [(first,)])
    for name, call_id in (("add", "c1"), ("sub", None)):
        insert_row(owner.path, "tool_calls", response_id=first, name=name, arguments='{"a": 2}', tool_call_id=call_id)
    second = owner.add_response("", "5", system="Add.", reasoning="easy", resolved_model="gpt-5")
    insert_row(owner.path, "tool_results", response_id=second, name="add", output="5", tool_call_id="c1")
    insert_row(owner.path, "tool_results", response_id=second, name="sub", output="", exception="Boom")
    owner.add_response("thanks", "You are welcome.", system="Add.")
    assert sync_paths(store, owner.path).problems == []
    session = store.sessions.find("c")
    assert (session.title, session.turns, session.tool_calls, session.errors) == ("Sums", 2, 2, 1)
    assert (session.tokens_input, session.tokens_output, session.system_prompt) == (9, 3, "Add.")
    assert [(entry.role, entry.text) for entry in stored_entries(store, "c")] == [
        ("system", "Add."),
        ("user", "2+3?"),
        ("assistant", ""),
        ("tool", ""),
        ("tool", ""),
        ("assistant", "5"),
        ("user", "thanks"),
        ("assistant", "You are welcome."),
    ]
    assert stored_entries(store, "c")[1].parts == (
        Attachment("text/plain", "h", 16),
        Attachment("image/png", "a.png", uri="https://example.org/a.png"),
        Text("2+3?"),
    )
    assert (stored_entries(store, "c")[5].model, stored_entries(store, "c")[5].parts[0]) == ("gpt-5", Thinking("easy"))
    assert [(call.name, call.status, call.result) for call in calls(store, "c")] == [
        ("add", "ok", "5"),
        ("sub", "error", "Boom"),
    ]


def test_a_response_without_a_conversation(owner: LlmStore, store: Store) -> None:
    name = owner.add_response("hello", "Hi.", conversation=None)
    sync_paths(store, owner.path)
    assert stored_texts(store, name) == ["hello", "Hi."]


def test_a_call_in_both_kinds_of_tables_is_read_once(owner: LlmStore, store: Store) -> None:
    owner.add_thread("c")
    owner.add_conversation("c")
    owner.add_turn("hello", "Hi.", thread="c")
    owner.add_response("hello", "Hi.", id=f"01{owner.clock:04}")
    report = sync_paths(store, owner.path)
    assert (report.seen, stored_texts(store, "c")) == (1, ["hello", "Hi."])


def test_a_conversation_that_continues_as_a_thread(owner: LlmStore, store: Store) -> None:
    owner.add_conversation("c")
    owner.add_response("one", "first", system="Be kind.")
    sync_paths(store, owner.path)
    owner.add_thread("c")
    past = owner.add_message(
        "assistant", "first", owner.add_message("user", "one", owner.add_message("system", "Be kind."))
    )
    tip = owner.add_turn("two", "second", past, thread="c")
    owner.add_turn("three", "third", tip, thread="c")
    owner.add_turn("other", "another", tip, thread="c")
    assert sync_paths(store, owner.path).updated == 1
    session = store.sessions.find("llm:c")
    assert stored_texts(store, session.id) == ["Be kind.", "one", "first", "two", "second", "other", "another"]
    (fork,) = store.sessions.children(session.id)
    assert (fork.relation, fork.forked_at) == ("fork", 4)
    assert [entry.text for entry in stored_entries(store, fork.id) if not entry.inherited] == ["three", "third"]


@pytest.mark.parametrize("table", ["logs", "log"])
def test_logs_of_2023(tmp_path: Path, store: Store, table: str) -> None:
    owner = LlmStore(tmp_path / "l.db", OLDEST_SCHEMA.replace("create table logs", f"create table {table}"))
    row = {"model": "gpt-3.5", "system": "", "timestamp": "2023-06-01 10:00:00.5"}
    insert_row(owner.path, table, prompt="one", response="first", **row)
    insert_row(owner.path, table, prompt="two", response="second", chat_id=1, **row)
    insert_row(owner.path, table, prompt="else", response="other", **row)
    assert (sync_paths(store, owner.path).new, sync_paths(store, owner.path).unchanged) == (2, 2)
    session = store.sessions.find("logs:1")
    assert (stored_texts(store, "logs:1"), session.model) == (["one", "first", "two", "second"], "gpt-3.5")
    assert session.created_at == "2023-06-01T10:00:00.500000Z"
    assert llm.resume(session).argv is None


# ── updates ───────────────────────────────────────────────────────────────────────────────────────


def test_new_turns_and_titles_are_read(owner: LlmStore, store: Store) -> None:
    owner.add_thread()
    tip = owner.add_turn("one", "first")
    sync_paths(store, owner.path)
    owner.add_turn("two", "second", tip)
    assert sync_paths(store, owner.path).updated == 1
    assert stored_texts(store, "t") == ["one", "first", "two", "second"]
    assert store.sessions.find("t").tokens_input == 198
    execute_sql(owner.path, "update threads set name = 'Another'")
    sync_paths(store, owner.path)
    assert store.sessions.find("t").title == "Another"
    assert len(store.sessions.newest()) == 1


def test_a_deleted_response_stays_reachable(owner: LlmStore, store: Store) -> None:
    owner.add_conversation()
    owner.add_response("one", "first")
    last = owner.add_response("two", "second")
    sync_paths(store, owner.path)
    execute_sql(owner.path, "delete from responses where id = ?", [(last,)])
    sync_paths(store, owner.path)
    assert stored_texts(store, "c") == ["one", "first"]
    (superseded,) = store.sessions.children(store.sessions.find("c").id)
    assert superseded.relation == "superseded"


def test_a_bad_row_is_one_problem(owner: LlmStore, store: Store) -> None:
    owner.add_thread()
    owner.add_turn([text_part("one"), {"type": "tool_call", "payload": "{half"}], "first")
    owner.add_thread("n", name=None)
    owner.add_turn("there?", "Here.", thread="n")
    (problem,) = sync_paths(store, owner.path).problems
    assert problem.where == "parts:2"
    assert (stored_texts(store, "t"), stored_texts(store, "n")) == (["one", "first"], ["there?", "Here."])
    assert store.sessions.find("n").title == "there?"
    assert stored_entries(store, "t")[0].parts[1] == Opaque("tool_call", {"text": None, "payload": "{half"})


def test_every_message_part_turn_and_response_is_in_the_chain(owner: LlmStore, store: Store) -> None:
    owner.add_thread()
    tip = owner.add_turn("one", [text_part("first"), call()])
    owner.add_turn([result("5")], [text_part("second"), part("hologram", beam=1)], tip)
    owner.add_conversation()
    for prompt in ("two", "three"):
        owner.add_response(prompt, "yes")
    sync_paths(store, owner.path)
    messages = [json.loads(store.records.get(entry.record)) for entry in stored_entries(store, "t") if entry.record]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert [row["id"] for message in messages for row in message["parts"]] == [1, 2, 3, 4, 5, 6]
    assert [row["id"] for message in messages for row in message.get("turns", ())] == ["010002", "010004"]
    response_ids = {
        json.loads(store.records.get(entry.record))["id"] for entry in stored_entries(store, "c") if entry.record
    }
    assert response_ids == {"010006", "010008"}
    assert timestamp(2) == messages[1]["turns"][0]["datetime_utc"]
