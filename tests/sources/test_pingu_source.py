"""These tests read Pingu stores in every layout: prompts, stored replies, summaries and memories."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import (
    AT,
    PINGU_DOCUMENT_SCHEMA,
    PINGU_MEMORIES_SCHEMA,
    PINGU_SCHEMA,
    add_pingu_session,
    add_pingu_turn,
    execute_sql,
    insert_row,
    make_database,
    pingu_native_response,
    pingu_raw_message,
    pingu_raw_response,
    stored_entries,
    stored_texts,
    sync_paths,
)

from store.model.entry import Opaque, PairedCall, Part, Text, Thinking, Tokens
from store.model.session import Session
from store.sources.pingu.reader import REPLY_NOT_STORED
from store.sources.pingu.source import Pingu
from store.store import Store
from store.sync.targets import find_targets

pingu = Pingu()

NEWEST = PINGU_SCHEMA + PINGU_MEMORIES_SCHEMA
ANSWER = pingu_raw_response(pingu_raw_message("41% full"))


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    return make_database(tmp_path / "any name.sqlite", NEWEST)


def parts(store: Store, session_id: str = "s") -> list[tuple[Part, ...]]:
    """Return the parts of each entry of the assistant."""
    return [entry.parts for entry in stored_entries(store, session_id) if entry.role == "assistant"]


def calls(store: Store) -> list[PairedCall]:
    return store.chains.tool_calls(store.sessions.find("s").key)


# ── layouts ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("layout", [PINGU_SCHEMA, NEWEST, PINGU_DOCUMENT_SCHEMA], ids=["first", "memories", "document"])
@pytest.mark.parametrize("wal", [True, False])
def test_every_layout_opens(tmp_path: Path, store: Store, layout: str, wal: bool) -> None:
    owner = make_database(tmp_path / "p.db", layout, wal=wal)
    add_pingu_session(owner, "s", ("What is my disk use?", ANSWER))
    report = sync_paths(store, owner)
    assert (report.source, report.seen, report.new, report.problems) == ("pingu", 1, 1, [])
    assert stored_texts(store, "s") == ["What is my disk use?", "41% full"]
    assert sync_paths(store, owner).unchanged == 1


def test_columns_and_tables_that_nobody_knows_are_left_alone(owner: Path, store: Store) -> None:
    execute_sql(owner, "alter table turns add column mood text default 'fine'")
    execute_sql(owner, "create table plans (id integer primary key)")
    add_pingu_session(owner, "s", ("hi", ANSWER))
    assert sync_paths(store, owner).problems == []
    record = stored_entries(store, "s")[0].record
    assert record is not None
    assert json.loads(store.records.get(record))["mood"] == "fine"


def test_another_program_s_turns_are_not_taken_for_pingu_s(tmp_path: Path) -> None:
    other = make_database(
        tmp_path / "o.db", "create table sessions (id); create table turns (session_id, response_json)"
    )
    assert not pingu.detect(str(other))


# ── replies ───────────────────────────────────────────────────────────────────────────────────────


def test_raw_and_native_responses_in_one_session(owner: Path, store: Store) -> None:
    usage = {"input_tokens": 120, "output_tokens": 14, "input_tokens_details": {"cached_tokens": 100}}
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "look at df"}]}
    native: list[dict[str, Any]] = [{"type": "reasoning", "raw": reasoning}, {"type": "message", "content": "60% used"}]
    add_pingu_session(owner)
    add_pingu_turn(owner, "disk?", pingu_raw_response(reasoning, pingu_raw_message("41% full"), usage=usage))
    add_pingu_turn(owner, "memory?", pingu_native_response(*native, input_tokens=9, output_tokens=3))
    assert sync_paths(store, owner).problems == []
    assert parts(store) == [
        (Thinking("look at df"),),
        (Text("41% full"),),
        (Thinking("look at df"),),
        (Text("60% used"),),
    ]
    assert [entry.turn for entry in stored_entries(store, "s")] == [1, 1, 1, 2, 2, 2]
    assert [entry.tokens for entry in stored_entries(store, "s")] == [
        *[None, None, Tokens(20, 14, 100)],
        *[None, None, Tokens(9, 3)],
    ]
    session = store.sessions.find("s")
    assert (session.turns, session.tokens_total, session.model) == (2, 146, "gpt-native")


def test_impossible_counts_are_left_out(owner: Path, store: Store) -> None:
    usage = {"input_tokens": 10**30, "output_tokens": -5, "input_tokens_details": {"cached_tokens": True}}
    add_pingu_session(owner, "s", ("one", pingu_raw_response(pingu_raw_message("first"), usage=usage)))
    assert sync_paths(store, owner).problems == []
    assert store.sessions.find("s").tokens_total == 0


def test_the_row_s_model_comes_before_the_response_s(owner: Path, store: Store) -> None:
    add_pingu_session(owner)
    add_pingu_turn(owner, "one", ANSWER, model="gpt-of-the-row")
    add_pingu_turn(owner, "two", ANSWER)
    sync_paths(store, owner)
    assert [entry.model for entry in stored_entries(store, "s")] == ["", "gpt-of-the-row", "", "gpt-raw"]


def test_the_items_of_a_response_are_one_message(owner: Path, store: Store) -> None:
    add_pingu_session(
        owner, "s", ("one", pingu_raw_response(pingu_raw_message("a"), pingu_raw_message("b"))), ("two", ANSWER)
    )
    sync_paths(store, owner)
    prompt, first, second, *_, last = stored_entries(store, "s")
    assert prompt.message_key != first.message_key == second.message_key != last.message_key
    assert prompt.record == first.record == second.record != last.record


ITEMS: list[tuple[dict[str, Any], str, Any, str, Any]] = [
    (
        {"type": "function_call", "call_id": "c", "name": "shell", "arguments": '{"command":"ls"}'},
        *("shell", {"command": "ls"}, "pending", None),
    ),
    (
        {"type": "function_call", "call_id": "c", "name": "shell", "arguments": '{"command":'},
        *("shell", '{"command":', "pending", None),
    ),
    (
        {"id": "f", "type": "file_search_call", "status": "completed", "queries": ["q"], "results": [{"text": "t"}]},
        *("file_search", {"queries": ["q"]}, "ok", [{"text": "t"}]),
    ),
    (
        {"id": "w", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "news"}},
        *("web_search", {"action": {"type": "search", "query": "news"}}, "ok", None),
    ),
    (
        {"id": "w", "type": "web_search_call", "status": "failed"},
        *("web_search", {}, "error", None),
    ),
    (
        {"type": "computer_call", "call_id": "c", "action": {"type": "click", "x": 1, "y": 2}},
        *("computer", {"type": "click", "x": 1, "y": 2}, "pending", None),
    ),
    (
        {"id": "i", "type": "code_interpreter_call", "status": "completed", "code": "1", "outputs": [{"logs": "1"}]},
        *("code_interpreter", {"code": "1"}, "ok", [{"logs": "1"}]),
    ),
]


@pytest.mark.parametrize(("item", "name", "arguments", "status", "result"), ITEMS)
def test_calls_among_the_output(
    owner: Path, store: Store, item: dict[str, Any], name: str, arguments: Any, status: str, result: Any
) -> None:
    add_pingu_session(owner, "s", ("do it", pingu_raw_response(item)))
    assert sync_paths(store, owner).problems == []
    (call,) = calls(store)
    assert (call.name, call.arguments, call.status, call.result) == (name, arguments, status, result)
    assert REPLY_NOT_STORED not in stored_texts(store, "s")


def test_a_refusal_is_text_and_an_unknown_item_is_kept(owner: Path, store: Store) -> None:
    message = pingu_raw_message("No.") | {"content": [{"type": "refusal", "refusal": "Not that."}]}
    novel = {"type": "hologram", "beam": 7}
    add_pingu_session(owner, "s", ("draw", pingu_raw_response(message, novel)))
    assert sync_paths(store, owner).problems == []
    assert parts(store) == [(Text("Not that."),), (Opaque("hologram", novel),)]


@pytest.mark.parametrize(
    "response",
    [
        pingu_raw_response(),
        pingu_native_response(),
        pingu_native_response(output=None),
        pingu_raw_response(pingu_raw_message("")),
        pingu_raw_response(pingu_raw_message()),
        pingu_native_response({"type": "message", "content": " \n"}),
        {},
    ],
)
def test_a_reply_that_pingu_did_not_store_is_marked_as_missing(
    owner: Path, store: Store, response: dict[str, Any]
) -> None:
    add_pingu_session(owner, "s", ("thanks", response))
    assert sync_paths(store, owner).problems == []
    assert stored_texts(store, "s") == ["thanks", "(reply not stored)"]
    assert [entry.role for entry in stored_entries(store, "s")] == ["user", "assistant"]


def test_thoughts_are_not_a_reply(owner: Path, store: Store) -> None:
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    add_pingu_session(owner, "s", ("think", pingu_raw_response(reasoning, usage={"output_tokens": 5})))
    sync_paths(store, owner)
    assert parts(store) == [(Thinking("", "gAAA"),), ()]
    assert stored_texts(store, "s") == ["think", "", REPLY_NOT_STORED]
    assert store.sessions.find("s").tokens_output == 5


def test_a_short_reply_is_a_reply(owner: Path, store: Store) -> None:
    add_pingu_session(owner, "s", ("do it", pingu_raw_response(pingu_raw_message("Done."))))
    sync_paths(store, owner)
    assert stored_texts(store, "s") == ["do it", "Done."]


@pytest.mark.parametrize("broken", ['{"output": [{"ty', "", "[]", "null", "41", '{"output": ' + "[" * 5000, b"\xff{}"])
def test_a_reply_that_cannot_be_read_leaves_the_prompt(owner: Path, store: Store, broken: Any) -> None:
    add_pingu_session(owner, "s", ("before", ANSWER), ("broken", broken), ("after", ANSWER))
    (problem,) = sync_paths(store, owner).problems
    assert problem.where == "turns:2"
    assert problem.reason.startswith("The reply cannot be read: ")
    assert stored_texts(store, "s") == ["before", "41% full", "broken", "after", "41% full"]
    assert store.sessions.find("s").turns == 3


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


def test_the_fields_of_a_session(owner: Path, store: Store) -> None:
    add_pingu_session(owner, "telegram:7", ("hello", ANSWER), updated_at="2026-03-02 11:30:00")
    sync_paths(store, owner)
    session = store.sessions.find("telegram:7")
    assert (session.channel, session.agent_title, session.title) == ("default", "", "hello")
    assert (session.created_at, session.updated_at) == ("2026-03-01T10:00:00.000000Z", "2026-03-02T11:30:00.000000Z")
    assert session.id.startswith("pingu:telegram:7@")


def test_an_empty_session_is_shown(owner: Path, store: Store) -> None:
    add_pingu_session(owner)
    assert sync_paths(store, owner).new == 1
    assert (store.sessions.find("s").turns, stored_entries(store, "s")) == (0, [])


def test_turns_of_a_session_that_is_gone_are_a_problem(owner: Path, store: Store) -> None:
    add_pingu_session(owner, "s", ("hi", ANSWER))
    add_pingu_session(owner, "gone", ("one", ANSWER), ("two", ANSWER))
    with closing(sqlite3.connect(owner)) as connection, connection:
        connection.execute("delete from sessions where id = 'gone'")
    (problem,) = sync_paths(store, owner).problems
    assert (problem.where, problem.reason) == ("turns:2", "There is no session 'gone'.")
    assert stored_texts(store, "s") == ["hi", "41% full"]


def test_delegates_are_children_however_deep(owner: Path, store: Store) -> None:
    names = ["t:7", "t:7:delegate:sysinfo", "t:7:delegate:sysinfo:delegate:disk", "gone:delegate:x"]
    for name in reversed(names):
        add_pingu_session(owner, name, ("hi", ANSWER))
    sync_paths(store, owner)
    top, child, grandchild, orphan = (store.sessions.find(name) for name in names)
    assert (top.parent_id, top.relation) == (None, None)
    assert (child.parent_id, child.relation) == (top.id, "delegate")
    assert (grandchild.parent_id, grandchild.relation) == (child.id, "delegate")
    assert [session.id for session in store.sessions.children(top.id)] == [child.id]
    add_pingu_session(owner, "gone")
    sync_paths(store, owner)
    assert store.sessions.find("gone:delegate:x").parent_id == store.sessions.get(orphan.parent_id or "").id


@pytest.mark.parametrize(
    "native_id",
    [
        "",
        " ",
        "a/b c",
        "-rf",
        "日本語 🐧",
        "../../etc/passwd",
        "x'; drop table turns; --",
        "a\nb",
        ":delegate:x",
        "%",
        "a@b",
    ],
)
def test_a_client_may_choose_any_id(owner: Path, store: Store, native_id: str) -> None:
    add_pingu_session(owner, native_id, ("hi", ANSWER))
    add_pingu_session(owner, "neighbour", ("there?", ANSWER))
    assert sync_paths(store, owner).problems == []
    (session,) = [session for session in store.list_sessions(9) if session.native_id == native_id]
    assert stored_texts(store, session.id) == ["hi", "41% full"]
    assert sync_paths(store, owner).unchanged == 2


@pytest.mark.parametrize("native_id", ["a\0b", "x" * 70_000, b"\x00\xff"])
def test_an_id_that_cannot_be_kept_is_a_problem(owner: Path, store: Store, native_id: Any) -> None:
    add_pingu_session(owner, native_id)
    add_pingu_session(owner, "neighbour", ("there?", ANSWER))
    assert len(sync_paths(store, owner).problems) == 1
    assert [session.native_id for session in store.list_sessions(9)] == ["neighbour"]


def test_turns_are_ordered_by_time_and_then_by_number(owner: Path, store: Store) -> None:
    add_pingu_session(owner)
    for text, at in (("third", "12:00:00"), ("first", "10:00:00"), ("second", "11:00:00"), ("fourth", "12:00:00")):
        add_pingu_turn(owner, text, pingu_raw_response(), created_at=f"2026-03-01 {at}")
    sync_paths(store, owner)
    prompts = [entry for entry in stored_entries(store, "s") if entry.role == "user"]
    assert [entry.text for entry in prompts] == ["first", "second", "third", "fourth"]
    assert prompts[1].created_at == "2026-03-01T11:00:00.000000Z"


def test_an_invalid_date_is_replaced_by_the_next_best(owner: Path, store: Store) -> None:
    add_pingu_session(owner, "s", created_at="yesterday", updated_at="2026-03-01 09:00:00")
    add_pingu_turn(owner, "hi", ANSWER, created_at="")
    add_pingu_session(owner, "timeless", created_at="", updated_at="soon")
    assert sync_paths(store, owner).problems == []
    assert store.sessions.find("s").created_at == "2026-03-01T09:00:00.000000Z"
    assert {entry.created_at for entry in stored_entries(store, "s")} == {"2026-03-01T09:00:00.000000Z"}
    assert store.sessions.find("timeless").created_at


# ── summaries and memories ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("up_to", "turn"),
    [("12", 2), ("11", 1), ("9", 0), ("99", 3), (None, None), ("", None), ("all", None), ("1e3", None)],
)
def test_the_last_row_of_a_summary_becomes_a_turn_number(
    owner: Path, store: Store, up_to: str | None, turn: int | None
) -> None:
    add_pingu_session(owner, summary="They talked of disks.", summary_up_to=up_to)
    add_pingu_session(owner, "other")
    for number, session_id in ((10, "s"), (11, "other"), (12, "s"), (13, "s")):
        add_pingu_turn(owner, "hi", ANSWER, session_id, id=number)
    sync_paths(store, owner)
    summary = store.summaries.current(store.sessions.find("s"))
    assert summary is not None
    assert (summary.text, summary.up_to_turn, summary.origin) == ("They talked of disks.", turn, "source")
    assert store.summaries.current(store.sessions.find("other")) is None


def test_memories_are_facts_of_the_store_or_of_a_session(owner: Path, store: Store) -> None:
    add_pingu_session(owner)
    for session_id, category, content in (
        (None, "core", "Likes short answers"),
        ("s", "conversation", "Runs Debian"),
        ("deleted", "daily", "Was here once"),
    ):
        at = {"created_at": AT, "updated_at": "2026-03-05 00:00:00"}
        vector = b"\x00\x00\x80\x3f"
        insert_row(owner, "memories", session_id=session_id, category=category, content=content, embedding=vector, **at)
    assert sync_paths(store, owner).problems == []
    session = store.sessions.find("s")
    global_fact, session_fact, orphan_fact = store.facts.current(None)
    assert (global_fact.text, global_fact.category, global_fact.session_id) == ("Likes short answers", "core", None)
    assert global_fact.scope.startswith("source:pingu:")
    assert (global_fact.created_at, global_fact.updated_at) == (
        "2026-03-01T10:00:00.000000Z",
        "2026-03-05T00:00:00.000000Z",
    )
    assert (session_fact.scope, session_fact.session_id) == (f"session:{session.id}", session.id)
    assert (orphan_fact.text, orphan_fact.scope, orphan_fact.session_id) == ("Was here once", global_fact.scope, None)


def test_a_memory_follows_its_store(owner: Path, store: Store) -> None:
    insert_row(owner, "memories", content="Runs Debian")
    insert_row(owner, "memories", content="Has a cat")
    sync_paths(store, owner)
    execute_sql(owner, "update memories set content = 'Runs Fedora' where id = 1")
    execute_sql(owner, "delete from memories where id = 2")
    sync_paths(store, owner)
    assert [fact.text for fact in store.facts.current(None)] == ["Runs Fedora"]


# ── updates ───────────────────────────────────────────────────────────────────────────────────────


def test_appended_turns_are_read(owner: Path, store: Store) -> None:
    add_pingu_session(owner, "s", ("one", ANSWER))
    sync_paths(store, owner)
    add_pingu_turn(owner, "two", ANSWER)
    execute_sql(owner, "update sessions set updated_at = '2026-03-09 00:00:00'")
    assert sync_paths(store, owner).updated == 1
    assert stored_texts(store, "s") == ["one", "41% full", "two", "41% full"]
    assert store.sessions.find("s").updated_at == "2026-03-09T00:00:00.000000Z"


def test_a_session_that_pingu_only_read_is_unchanged(owner: Path, store: Store) -> None:
    add_pingu_session(owner, "s", ("one", ANSWER))
    sync_paths(store, owner)
    execute_sql(owner, "update sessions set updated_at = '2026-03-09 00:00:00'")
    assert sync_paths(store, owner).unchanged == 1


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ("update turns set response_json = '{}' where id = 1", ["one", "(reply not stored)", "two", "41% full"]),
        ("update turns set user_message = 'uno' where id = 1", ["uno", "41% full", "two", "41% full"]),
        ("delete from turns where id = 1", ["two", "41% full"]),
        ("delete from turns where id = 2", ["one", "41% full"]),
    ],
)
def test_what_was_rewritten_or_deleted_stays_reachable(
    owner: Path, store: Store, change: str, texts: list[str]
) -> None:
    add_pingu_session(owner, "s", ("one", ANSWER), ("two", ANSWER))
    sync_paths(store, owner)
    execute_sql(owner, change)
    sync_paths(store, owner)
    assert stored_texts(store, "s") == texts
    (old,) = store.sessions.children(store.sessions.find("s").id)
    assert (old.relation, stored_texts(store, old.id)) == ("superseded", ["one", "41% full", "two", "41% full"])


# ── roots and resume ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("config", "path"),
    [
        (None, "{home}/.local/share/pingu/pingu.db"),
        ('[db]\npath = "~/elsewhere/p.db"', "{home}/elsewhere/p.db"),
        ('[db]\npath = "/srv/p.db"', "/srv/p.db"),
        ('[db]\npath = "~nobody-at-all/p.db"', "~nobody-at-all/p.db"),
        ('[db]\npath = "a\\u0000b"', "{home}/.local/share/pingu/pingu.db"),
        ("[db]\npath = 7", "{home}/.local/share/pingu/pingu.db"),
        ("[db]\npath = ''", "{home}/.local/share/pingu/pingu.db"),
        ("[db", "{home}/.local/share/pingu/pingu.db"),
        ("db = 1", "{home}/.local/share/pingu/pingu.db"),
    ],
)
def test_roots_follow_the_config(home: Path, config: str | None, path: str) -> None:
    if config is not None:
        (home / ".config/pingu").mkdir(parents=True)
        (home / ".config/pingu/config.toml").write_text(config)
    assert list(pingu.roots()) == [path.format(home=home)]


def test_a_store_is_found_where_the_config_says(home: Path, store: Store) -> None:
    (home / ".config/pingu").mkdir(parents=True)
    (home / ".config/pingu/config.toml").write_text('[db]\npath = "~/p.db"')
    add_pingu_session(make_database(home / "p.db", PINGU_SCHEMA), "s", ("hi", ANSWER))
    (target,) = find_targets()
    assert (target.source.name, target.locator) == ("pingu", str(home / "p.db"))


@pytest.mark.parametrize(
    ("native", "hint"),
    [
        ("telegram:648079060", "Write in the Telegram chat 648079060."),
        (
            "telegram:6:delegate:x",
            "Run `pingu gateway` and send the chat request with session_id 'telegram:6:delegate:x'.",
        ),
        ("web-1", "Run `pingu gateway` and send the chat request with session_id 'web-1'."),
    ],
)
def test_resume_gives_a_hint(owner: Path, store: Store, native: str, hint: str) -> None:
    add_pingu_session(owner, native)
    sync_paths(store, owner)
    session: Session = store.sessions.find(native)
    assert (pingu.resume(session).argv, pingu.resume(session).hint) == (None, hint)
