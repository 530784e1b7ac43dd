"""These tests read Rubichan stores in every layout: blocks, results in blobs, snapshots, forks and memories."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import (
    AT,
    RUBICHAN_LATEST_SCHEMA,
    RUBICHAN_SCHEMA,
    RUBICHAN_SNAPSHOTS_SCHEMA,
    add_rubichan_messages,
    add_rubichan_session,
    execute_sql,
    insert_row,
    make_database,
    stored_entries,
    stored_texts,
    sync_paths,
)

from store.model.entry import Opaque, PairedCall, Text, Thinking, ToolCall
from store.model.knowledge import Summary
from store.sources.rubichan.source import Rubichan
from store.store import Store

rubichan = Rubichan()

Blocks = list[dict[str, Any]]

REF = "9a9a9a9a-0000-4000-8000-000000000001"


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    return make_database(tmp_path / "any name.sqlite", RUBICHAN_LATEST_SCHEMA)


def text_block(text: str) -> Blocks:
    return [{"type": "text", "text": text}]


def tool_use(call_id: str = "t1", arguments: Any = None) -> Blocks:
    return [{"type": "tool_use", "id": call_id, "name": "shell", "input": arguments or {"command": "ls"}}]


def result(text: str | None = None, call_id: str = "t1", **fields: Any) -> Blocks:
    block = {"type": "tool_result", "tool_use_id": call_id} | fields
    return [block | {"text": text} if text is not None else block]


def calls(store: Store, session_id: str = "s") -> list[PairedCall]:
    return store.chains.tool_calls(store.sessions.find(session_id).key)


# ── layouts ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "layout", [RUBICHAN_SCHEMA, RUBICHAN_SNAPSHOTS_SCHEMA, RUBICHAN_LATEST_SCHEMA], ids=["first", "snapshots", "head"]
)
@pytest.mark.parametrize("wal", [True, False])
def test_every_layout_opens(tmp_path: Path, store: Store, layout: str, wal: bool) -> None:
    owner = make_database(tmp_path / "r.db", layout, wal=wal)
    add_rubichan_session(owner, "s", ("user", "Fix the test"), ("assistant", "Fixed."))
    report = sync_paths(store, owner)
    assert (report.source, report.seen, report.new, report.problems) == ("rubichan", 1, 1, [])
    assert stored_texts(store, "s") == ["Fix the test", "Fixed."]
    assert store.sessions.find("s").parent_id is None
    assert sync_paths(store, owner).unchanged == 1


def test_a_store_of_skills_has_no_sessions(owner: Path, store: Store) -> None:
    execute_sql(owner, "create table skill_state (name text primary key, version text not null)")
    report = sync_paths(store, owner)
    assert (report.source, report.seen, report.problems) == ("rubichan", 0, [])


def test_columns_and_tables_that_nobody_knows_are_left_alone(owner: Path, store: Store) -> None:
    execute_sql(owner, "alter table messages add column mood text default 'fine'")
    execute_sql(owner, "create table hook_approvals (project_path text)")
    add_rubichan_session(owner, "s", ("user", "hi"))
    assert sync_paths(store, owner).problems == []
    record = stored_entries(store, "s")[0].record
    assert record is not None
    assert json.loads(store.records.get(record))["mood"] == "fine"


def test_another_program_s_messages_are_not_taken_for_rubichan_s(tmp_path: Path) -> None:
    other = make_database(
        tmp_path / "o.db", "create table sessions (id, working_dir); create table messages (session_id, seq, content)"
    )
    assert not rubichan.detect(str(other))


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


def test_the_fields_of_a_session(owner: Path, store: Store) -> None:
    fields = {"title": "Tests", "working_dir": "/home/ana/proj", "system_prompt": "Be kind."}
    add_rubichan_session(owner, "s", ("user", "hi"), model="sonnet", updated_at="2026-03-02 11:30:00", **fields)
    sync_paths(store, owner)
    session = store.sessions.find("s")
    assert (session.title, session.model, session.cwd) == ("Tests", "sonnet", "/home/ana/proj")
    assert session.system_prompt == store.chains.entries(session.key)[0].text == "Be kind."
    assert (session.created_at, session.updated_at) == ("2026-03-01T10:00:00.000000Z", "2026-03-02T11:30:00.000000Z")
    assert session.id.startswith("rubichan:s@")


def test_an_empty_session_is_shown(owner: Path, store: Store) -> None:
    add_rubichan_session(owner, "s")
    assert sync_paths(store, owner).new == 1
    assert (store.sessions.find("s").turns, stored_entries(store, "s")) == (0, [])


def test_messages_of_a_session_that_is_gone_are_a_problem(owner: Path, store: Store) -> None:
    add_rubichan_session(owner, "s", ("user", "hi"))
    add_rubichan_session(owner, "gone", ("user", "one"), ("assistant", "first"))
    with closing(sqlite3.connect(owner)) as connection, connection:
        connection.execute("delete from sessions where id = 'gone'")
    (problem,) = sync_paths(store, owner).problems
    assert (problem.where, problem.reason) == ("messages:2", "There is no session 'gone'.")
    assert stored_texts(store, "s") == ["hi"]


def test_a_title_cut_inside_a_letter(owner: Path, store: Store) -> None:
    cut = ("a" + "ю" * 40).encode()[:50]
    add_rubichan_session(owner, "s", ("user", "hi"))
    add_rubichan_session(owner, "neighbour", ("user", "there?"))
    execute_sql(owner, "update sessions set title = cast(? as text) where id = 's'", [(cut,)])
    with closing(sqlite3.connect(owner)) as connection, pytest.raises(sqlite3.OperationalError):
        connection.execute("select title from sessions").fetchall()
    assert sync_paths(store, owner).problems == []
    assert store.sessions.find("s").title == "a" + "ю" * 24 + "\ufffd"
    assert stored_texts(store, "neighbour") == ["there?"]
    assert sync_paths(store, owner).unchanged == 2


def test_an_invalid_date_is_replaced_by_the_next_best(owner: Path, store: Store) -> None:
    add_rubichan_session(owner, "s", ("user", "hi"), ("assistant", "ho"), created_at="yesterday")
    add_rubichan_session(owner, "timeless", created_at="", updated_at="soon")
    execute_sql(owner, "update messages set created_at = 'never' where seq = 0")
    execute_sql(owner, "update messages set created_at = '2026-03-01T10:00:07Z' where seq = 1")
    assert sync_paths(store, owner).problems == []
    assert store.sessions.find("s").created_at == "2026-03-01T10:00:00.000000Z"
    first, second = stored_entries(store, "s")
    assert (first.created_at, second.created_at) == ("2026-03-01T10:00:00.000000Z", "2026-03-01T10:00:07.000000Z")
    assert store.sessions.find("timeless").created_at


def test_resume_runs_rubichan_in_its_folder(owner: Path, store: Store) -> None:
    add_rubichan_session(owner, "s", working_dir="/home/ana/proj")
    sync_paths(store, owner)
    command = rubichan.resume(store.sessions.find("s"))
    assert (command.argv, command.cwd) == (("rubichan", "--resume", "s"), "/home/ana/proj")


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def test_blocks(owner: Path, store: Store) -> None:
    thought: Blocks = [{"type": "thinking", "text": "plan"}]
    novel = {"type": "hologram", "text": "beam"}
    add_rubichan_session(
        owner,
        "s",
        ("user", "go"),
        ("assistant", [*thought, *text_block("Reading <it>."), *tool_use(), novel]),
        model="sonnet",
    )
    assert sync_paths(store, owner).problems == []
    _, reply = stored_entries(store, "s")
    assert reply.parts == (
        Thinking("plan"),
        Text("Reading <it>."),
        ToolCall("t1", "shell", {"command": "ls"}),
        Opaque("hologram", novel),
    )
    assert (reply.text, reply.model) == ("Reading <it>.", "sonnet")


def test_results_of_tools_begin_no_turn(owner: Path, store: Store) -> None:
    add_rubichan_session(
        owner,
        "s",
        ("user", "go"),
        ("assistant", tool_use("t1") + tool_use("t2") + tool_use("t3")),
        ("user", result("a.go", "t1")),
        ("user", result("boom", "t2", is_error=True)),
        ("user", result(None, "t3")),
        ("assistant", "Done."),
        ("user", "thanks"),
        ("assistant", tool_use("t4")),
    )
    sync_paths(store, owner)
    session = store.sessions.find("s")
    assert (session.turns, session.tool_calls, session.errors) == (2, 4, 1)
    assert [entry.role for entry in stored_entries(store, "s")][2:5] == ["tool", "tool", "tool"]
    assert [(call.call_id, call.status, call.result) for call in calls(store)] == [
        ("t1", "ok", "a.go"),
        ("t2", "error", "boom"),
        ("t3", "ok", None),
        ("t4", "pending", None),
    ]


def test_text_next_to_a_result_begins_a_turn(owner: Path, store: Store) -> None:
    add_rubichan_session(
        owner, "s", ("user", "go"), ("assistant", tool_use()), ("user", result("a") + text_block("and now?"))
    )
    sync_paths(store, owner)
    assert [turn.prompt for turn in store.chains.turns(store.sessions.find("s").key) if turn.n] == ["go", "and now?"]


def test_arguments_that_are_not_json_stay_text(owner: Path, store: Store) -> None:
    add_rubichan_session(owner, "s", ("user", "go"), ("assistant", tool_use(arguments='{"command": "ls')))
    assert sync_paths(store, owner).problems == []
    assert calls(store)[0].arguments == '{"command": "ls'


def test_messages_are_ordered_by_their_number(owner: Path, store: Store) -> None:
    add_rubichan_session(owner, "s")
    add_rubichan_messages(owner, "s", 5, ("user", "second"))
    add_rubichan_messages(owner, "s", 2, ("user", "first"))
    sync_paths(store, owner)
    assert stored_texts(store, "s") == ["first", "second"]


@pytest.mark.parametrize("broken", ['[{"type": "te', "", "[" * 5000])
def test_content_that_cannot_be_read_is_a_problem_and_kept(owner: Path, store: Store, broken: str) -> None:
    add_rubichan_session(owner, "s", ("user", "one"), ("assistant", "?"), ("user", "two"))
    execute_sql(owner, "update messages set content = ? where seq = 1", [(broken,)])
    (problem,) = sync_paths(store, owner).problems
    assert (problem.where, problem.reason[:28]) == ("messages:2", "The content cannot be read: ")
    assert stored_texts(store, "s") == ["one", "", "two"]
    assert stored_entries(store, "s")[1].parts == (Opaque("content", broken),)


def test_the_token_count_of_a_session_is_read_and_stays_in_its_record(owner: Path, store: Store) -> None:
    add_rubichan_session(owner, "s", ("user", "one"), token_count=4321)
    sync_paths(store, owner)
    session = store.sessions.find("s")
    assert (session.tokens_total, session.tokens_input, session.tokens_output) == (4321, 0, 0)
    header = store.chains.entry(session.key, -1)
    assert json.loads(store.records.get(header.record or 0))["token_count"] == 4321
    execute_sql(owner, "update sessions set token_count = 5000")
    execute_sql(owner, "update messages set content = '[]'")
    sync_paths(store, owner)
    assert store.sessions.find("s").tokens_total == 5000


# ── results in blobs ──────────────────────────────────────────────────────────────────────────────


def blob_note(ref: str = REF, beginning: str = "F" * 200) -> str:
    return (
        f'[Tool result stored — 5000 bytes from "shell".\nFirst 200 chars: {beginning}...]\n'
        f'Use the "read_result" tool with ref_id="{ref}" to read specific portions.'
    )


def add_blob(owner: Path, content: str | bytes, ref: str = REF, session_id: str = "s") -> None:
    insert_row(
        owner, "tool_result_blobs", id=ref, session_id=session_id, tool_name="shell", content=content, byte_size=5000
    )


@pytest.mark.parametrize("content", ["F" * 3000, b"F" * 3000])
def test_a_result_in_a_blob_replaces_its_note(owner: Path, store: Store, content: str | bytes) -> None:
    add_rubichan_session(
        owner, "s", ("user", "go"), ("assistant", tool_use()), ("user", result(blob_note(), is_error=True))
    )
    add_blob(owner, content)
    assert sync_paths(store, owner).problems == []
    (call,) = calls(store)
    assert (call.result, call.status) == ("F" * 3000, "error")
    assert store.search.find("F" * 3000)[1] == 1


def test_a_result_that_is_gone_leaves_the_note(owner: Path, store: Store) -> None:
    add_rubichan_session(owner, "s", ("user", "go"), ("assistant", tool_use()), ("user", result(blob_note())))
    assert sync_paths(store, owner).problems == []
    assert calls(store)[0].result == blob_note()


def test_a_layout_without_blobs_leaves_the_note(tmp_path: Path, store: Store) -> None:
    owner = make_database(tmp_path / "r.db", RUBICHAN_SCHEMA)
    add_rubichan_session(owner, "s", ("user", "go"), ("assistant", tool_use()), ("user", result(blob_note())))
    assert sync_paths(store, owner).problems == []
    assert calls(store)[0].result == blob_note()


def test_a_result_that_merely_quotes_a_reference_is_left_as_it_is(owner: Path, store: Store) -> None:
    text = f'grep: ref_id="{REF}"'
    add_rubichan_session(owner, "s", ("user", "go"), ("assistant", tool_use()), ("user", result(text)))
    add_blob(owner, "another result")
    sync_paths(store, owner)
    assert calls(store)[0].result == text


def test_a_result_whose_beginning_quotes_a_reference(owner: Path, store: Store) -> None:
    text = blob_note(beginning='ref_id="another"')
    add_rubichan_session(owner, "s", ("user", "go"), ("assistant", tool_use()), ("user", result(text)))
    add_blob(owner, "right")
    add_blob(owner, "wrong", "another")
    sync_paths(store, owner)
    assert calls(store)[0].result == "right"


# ── snapshots ─────────────────────────────────────────────────────────────────────────────────────

TALK: list[tuple[str, Any]] = [
    ("user", text_block("one")),
    ("assistant", tool_use()),
    ("user", result("a")),
    ("assistant", text_block("first")),
    ("user", text_block("two")),
    ("assistant", text_block("second")),
    ("user", text_block("three")),
    ("assistant", text_block("third")),
]
SUMMARY: tuple[str, Any] = ("user", text_block("[Summary of 4 earlier messages]\nThey began."))


def add_snapshot(owner: Path, *messages: tuple[str, Any], session_id: str = "s") -> None:
    encoded = json.dumps([{"role": role, "content": content} for role, content in messages])
    insert_row(owner, "session_snapshots", session_id=session_id, messages=encoded, token_count=321, created_at=AT)


def sync_and_find_summary(owner: Path, store: Store) -> Summary | None:
    assert sync_paths(store, owner).problems == []
    return store.summaries.current(store.sessions.find("s"))


@pytest.mark.parametrize(
    ("first_kept", "covered"), [(1, None), (2, None), (3, None), (4, 1), (5, 1), (6, 2), (7, 2), (8, None)]
)
def test_a_snapshot_s_summary_covers_the_turns_that_ended_before_what_was_kept(
    owner: Path, store: Store, first_kept: int, covered: int | None
) -> None:
    add_rubichan_session(owner, "s", *TALK)
    add_snapshot(owner, SUMMARY, *TALK[first_kept:])
    summary = sync_and_find_summary(owner, store)
    assert summary is not None
    assert (summary.text, summary.origin) == ("[Summary of 4 earlier messages]\nThey began.", "source")
    assert summary.up_to_turn == covered


def test_what_was_said_after_the_snapshot_does_not_count(owner: Path, store: Store) -> None:
    add_rubichan_session(owner, "s", *TALK)
    add_snapshot(owner, SUMMARY, *TALK[4:6])
    summary = sync_and_find_summary(owner, store)
    assert summary is not None
    assert (summary.text, summary.up_to_turn) == ("[Summary of 4 earlier messages]\nThey began.", 1)


def test_a_message_that_occurs_several_times(owner: Path, store: Store) -> None:
    talk = [("user", text_block("yes")), ("assistant", text_block("ok"))] * 3 + [
        ("user", text_block("no")),
        ("assistant", text_block("then not")),
    ]
    add_rubichan_session(owner, "s", *talk)
    add_snapshot(owner, SUMMARY, *talk[4:])
    summary = sync_and_find_summary(owner, store)
    assert summary is not None
    assert summary.up_to_turn == 2


def test_a_snapshot_without_a_summary_gives_none(owner: Path, store: Store) -> None:
    add_rubichan_session(owner, "s", *TALK)
    add_snapshot(owner, *TALK)
    assert sync_and_find_summary(owner, store) is None
    cleared = [*TALK[:2], ("user", result("[cleared]")), *TALK[3:]]
    execute_sql(owner, "delete from session_snapshots")
    add_snapshot(owner, *cleared)
    assert sync_and_find_summary(owner, store) is None


def test_a_new_snapshot_brings_a_new_summary(owner: Path, store: Store) -> None:
    add_rubichan_session(owner, "s", *TALK)
    assert sync_and_find_summary(owner, store) is None
    add_snapshot(owner, SUMMARY, *TALK[4:])
    assert sync_and_find_summary(owner, store) is not None
    assert stored_texts(store, "s")[0] == "one"
    assert store.sessions.children(store.sessions.find("s").id) == []


@pytest.mark.parametrize("broken", ['[{"role', "{}", '"x"'])
def test_a_snapshot_that_cannot_be_read_is_a_problem(owner: Path, store: Store, broken: str) -> None:
    add_rubichan_session(owner, "s", *TALK)
    insert_row(owner, "session_snapshots", session_id="s", messages=broken)
    (problem,) = sync_paths(store, owner).problems
    assert (problem.where, problem.session) == ("session_snapshots:s", "s")
    assert len(stored_texts(store, "s")) == len(TALK)
    assert store.summaries.current(store.sessions.find("s")) is None


# ── forks ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_fork_s_copies_count_once(owner: Path, store: Store) -> None:
    copied = [*TALK[:4]]
    add_rubichan_session(owner, "s", *TALK)
    add_rubichan_session(owner, "fork", *copied, ("user", "otherwise"), ("assistant", tool_use("t9")), forked_from="s")
    assert sync_paths(store, owner).problems == []
    parent, fork = store.sessions.find("s"), store.sessions.find("fork")
    assert (fork.parent_id, fork.relation, fork.forked_at) == (parent.id, "fork", 3)
    assert (fork.turns, fork.entries, fork.tool_calls) == (1, 2, 1)
    assert [entry.inherited for entry in stored_entries(store, "fork")] == [True] * 4 + [False] * 2
    assert [entry.turn for entry in stored_entries(store, "fork")] == [1, 1, 1, 1, 2, 2]
    assert [hit.session_id for hit in store.search.find("first")[0]] == [parent.id]
    assert [call.session_id for call in store.chains.all_tool_calls()] == [fork.id, parent.id]


def test_a_fork_shares_the_blobs_of_its_parent(owner: Path, store: Store) -> None:
    talk: list[tuple[str, Any]] = [("user", "go"), ("assistant", tool_use()), ("user", result(blob_note()))]
    add_rubichan_session(owner, "s", *talk)
    add_rubichan_session(owner, "fork", *talk, forked_from="s")
    add_blob(owner, "F" * 5000)
    sync_paths(store, owner)
    assert [call.result for call in calls(store, "fork")] == ["F" * 5000]


def test_equal_messages_at_another_time_are_not_inherited(owner: Path, store: Store) -> None:
    add_rubichan_session(owner, "s", ("user", "hi"), ("assistant", "ho"), ("user", "yes"))
    add_rubichan_session(owner, "fork", ("user", "hi"), ("assistant", "ho"), ("user", "yes"), forked_from="s")
    execute_sql(owner, "update messages set created_at = '2026-04-01 00:00:00' where session_id = 'fork' and seq = 2")
    sync_paths(store, owner)
    assert [entry.inherited for entry in stored_entries(store, "fork")] == [True, True, False]
    assert store.sessions.find("fork").forked_at == 1


@pytest.mark.parametrize("parent", ["gone", "fork"])
def test_a_fork_without_its_parent_owns_its_past(owner: Path, store: Store, parent: str) -> None:
    add_rubichan_session(owner, "fork", ("user", "hi"), ("assistant", "ho"), forked_from=parent)
    assert sync_paths(store, owner).problems == []
    fork = store.sessions.find("fork")
    assert (fork.turns, fork.entries, fork.forked_at) == (1, 2, None)
    assert (fork.relation == "fork") == (parent == "gone")


def test_a_fork_of_a_fork(owner: Path, store: Store) -> None:
    add_rubichan_session(owner, "s", *TALK[:4])
    add_rubichan_session(owner, "fork", *TALK[:6], forked_from="s")
    add_rubichan_session(owner, "again", *TALK, forked_from="fork")
    sync_paths(store, owner)
    assert [store.sessions.find(name).entries for name in ("s", "fork", "again")] == [4, 2, 2]
    assert store.search.find("first")[1] == store.search.find("second")[1] == store.search.find("third")[1] == 1


# ── memories ──────────────────────────────────────────────────────────────────────────────────────


def test_memories_are_facts_of_their_folder(owner: Path, store: Store) -> None:
    for folder, content in (("/home/ana/a", "Uses Go"), ("/home/ana/b", "Uses Rust")):
        insert_row(owner, "memories", working_dir=folder, tag="language", content=content, created_at=AT, updated_at=AT)
    assert sync_paths(store, owner).problems == []
    first, second = store.facts.current(None)
    assert (first.text, first.category, first.created_at) == ("Uses Go", "language", "2026-03-01T10:00:00.000000Z")
    assert first.scope.startswith("app:/home/ana/a@rubichan:")
    assert second.scope.startswith("app:/home/ana/b@rubichan:")
