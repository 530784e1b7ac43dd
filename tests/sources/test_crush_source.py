"""These tests check the Crush reader: the list of projects, unfinished answers, and sub-agents at their calls."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from crush_database import AT, FIRST_SCHEMA, LATEST_SCHEMA, CrushStore, call, finish, part, result, text_content
from foreign_databases import execute_sql, stored_entries, stored_texts, sync_paths

from store.model.entry import Attachment, Opaque, PairedCall, Text, Thinking, ToolCall
from store.sources.crush.reader import PLACEHOLDER_TITLE
from store.sources.crush.source import Crush
from store.store import Store
from store.sync import refresh
from store.sync.targets import find_targets

crush = Crush()


@pytest.fixture
def owner(tmp_path: Path) -> CrushStore:
    (tmp_path / "app/.crush").mkdir(parents=True)
    return CrushStore(tmp_path / "app/.crush/crush.db")


def calls(store: Store, session_id: str = "s") -> list[PairedCall]:
    return store.chains.tool_calls(store.sessions.find(session_id).key)


def register(home: Path, *projects: dict[str, Any]) -> None:
    folder = home / ".local/share/crush"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "projects.json").write_text(json.dumps({"projects": projects}))


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("layout", [FIRST_SCHEMA, LATEST_SCHEMA], ids=["first", "head"])
def test_every_layout_opens(tmp_path: Path, store: Store, layout: str) -> None:
    owner = CrushStore(tmp_path / "any name", layout)
    owner.add_session("s", ("user", text_content("Fix it")), ("assistant", [*text_content("Fixed.")[:1], finish()]))
    report = sync_paths(store, owner.path)
    assert (report.source, report.new, report.problems) == ("crush", 1, [])
    assert stored_texts(store, "s") == ["Fix it", "Fixed."]
    assert sync_paths(store, owner.path).unchanged == 1


def test_the_stores_of_all_projects_are_found(home: Path, tmp_path: Path, store: Store, owner: CrushStore) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    CrushStore(elsewhere / "crush.db").add_session("e", ("user", text_content("there")))
    owner.add_session("s", ("user", text_content("here")))
    register(
        home,
        {"path": str(tmp_path / "app"), "data_dir": str(tmp_path / "app/.crush"), "last_accessed": "2026-01-01"},
        {"path": str(tmp_path / "app/inner"), "data_dir": str(tmp_path / "app/.crush")},
        {"path": str(tmp_path / "other"), "data_dir": str(elsewhere)},
        {"path": "/gone/away", "data_dir": "/gone/away/.crush"},
        {"path": 7},
    )
    targets = find_targets()
    assert {target.source.name for target in targets} == {"crush"}
    assert {target.locator for target in targets} == {str(owner.path), str(elsewhere / "crush.db")}
    list(refresh.sync_targets(store, targets))
    assert store.sessions.find("s").cwd == str(tmp_path / "app")
    command = crush.resume(store.sessions.find("s"))
    assert (command.argv, command.cwd) == (("crush", "--session", "s"), str(tmp_path / "app"))
    other_command = crush.resume(store.sessions.find("e"))
    assert other_command.argv == ("crush", "--data-dir", str(elsewhere), "--session", "e")
    assert other_command.cwd == str(tmp_path / "other")


def test_an_environment_variable_names_the_folder_of_the_list_of_projects(
    home: Path, tmp_path: Path, owner: CrushStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/projects.json").write_text('{"projects": [{"path": "%s"}]}' % (tmp_path / "app"))
    monkeypatch.setenv("CRUSH_GLOBAL_DATA", str(tmp_path / "data"))
    assert list(crush.roots()) == [str(owner.path)]


@pytest.mark.parametrize("broken", ["", "[]", '{"projects": {"a": 1}}', '{"projects": [null, {"path": "\\u0000"}]}'])
def test_an_unreadable_list_of_projects_is_empty(home: Path, broken: str) -> None:
    register(home)
    (home / ".local/share/crush/projects.json").write_text(broken)
    assert list(crush.roots()) == []


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


def test_the_fields_of_a_session(owner: CrushStore, store: Store) -> None:
    owner.add_session("s", ("user", text_content("hi")), title="Greetings", prompt_tokens=120, completion_tokens=30)
    execute_sql(owner.path, f"update sessions set updated_at = {AT + 60}")
    sync_paths(store, owner.path)
    session = store.sessions.find("s")
    assert (session.title, session.cwd) == ("Greetings", str(owner.path.parent.parent))
    assert (session.tokens_input, session.tokens_output, session.tokens_total) == (120, 30, 150)
    assert (session.created_at, session.updated_at) == ("2025-12-29T09:20:00.000000Z", "2025-12-29T09:21:00.000000Z")
    assert session.id.startswith("crush:s@")


def test_a_placeholder_title_is_replaced_by_the_prompt(owner: CrushStore, store: Store) -> None:
    owner.add_session("s", ("user", text_content("Add a retry")), title=PLACEHOLDER_TITLE)
    sync_paths(store, owner.path)
    assert store.sessions.find("s").title == "Add a retry"


def test_the_cost_is_read(owner: CrushStore, store: Store) -> None:
    owner.add_session("s", ("user", text_content("Add a retry")), cost=0.25)
    owner.add_session("free", ("user", text_content("Add a retry")))
    sync_paths(store, owner.path)
    assert [store.sessions.find(name).cost for name in ("s", "free")] == [0.25, None]


def test_a_sub_agent_is_attached_to_the_call_that_started_it(owner: CrushStore, store: Store) -> None:
    owner.add_session("s", ("user", text_content("Look around")))
    message_id = owner.add_message("assistant", [call("agent", {"prompt": "look"}, "call_7"), finish("tool_use")])
    owner.add_message("tool", result("Seen.", "call_7"))
    child_id = f"{message_id}$$call_7"
    owner.add_session(child_id, ("user", text_content("look")), parent_session_id="s")
    owner.add_session("title-s", ("user", text_content("Make a title")), parent_session_id="s")
    sync_paths(store, owner.path)
    parent, child = store.sessions.find("s"), store.sessions.find(child_id)
    assert (child.parent_id, child.relation, child.forked_at) == (parent.id, "delegate", 1)
    assert isinstance(stored_entries(store, "s")[1].parts[0], ToolCall)
    assert crush.resume(child).argv is None
    assert crush.resume(child).hint
    title = store.sessions.find("title-s")
    assert (title.relation, title.archived, child.archived) == ("sidechain", 1, 0)


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def test_parts(owner: CrushStore, store: Store) -> None:
    reasoning = part("reasoning", thinking="plan", signature="sig", started_at=AT, finished_at=AT + 1)
    unknown = part("hologram", beam=1)
    image = part("binary", Path="a.png", MIMEType="image/png", Data="aGVsbG8=")
    linked = part("image_url", url="https://example.org/b.png")
    inline = part("image_url", url="data:image/gif;base64,aGVsbG8=")
    owner.add_session("s", ("user", [*text_content("See")[:1], image, linked, inline]))
    owner.add_message("assistant", [reasoning, *text_content("Reading.")[:1], call(), unknown, finish("tool_use")])
    assert sync_paths(store, owner.path).problems == []
    prompt, reply = stored_entries(store, "s")
    assert prompt.parts == (
        Text("See"),
        Attachment("image/png", "a.png", 6),
        Attachment("image", uri="https://example.org/b.png"),
        Attachment("image/gif", size=6),
    )
    assert reply.parts == (
        Thinking("plan", "sig"),
        Text("Reading."),
        ToolCall("call_1", "bash", {"command": "ls"}),
        Opaque("hologram", {"beam": 1}),
    )
    assert (reply.role, reply.model, reply.created_at) == ("assistant", "sonnet", "2025-12-29T09:20:00.000000Z")


def test_calls_are_paired_and_failures_flagged(owner: CrushStore, store: Store) -> None:
    owner.add_session("s", ("user", text_content("go")))
    owner.add_message("assistant", [call(call_id=f"c{n}") for n in range(4)] + [finish("tool_use")])
    failed = result("no such file", "c1", metadata='{"exit_code":3}')
    owner.add_message("tool", [*result("a.txt", "c0")[:1], *failed])
    owner.add_message("tool", result("boom", "c2", is_error=True, metadata="not JSON"))
    sync_paths(store, owner.path)
    session = store.sessions.find("s")
    assert (session.turns, session.tool_calls, session.errors) == (1, 4, 2)
    assert [(call.call_id, call.status, call.result) for call in calls(store)] == [
        ("c0", "ok", "a.txt"),
        ("c1", "error", "no such file"),
        ("c2", "error", "boom"),
        ("c3", "pending", None),
    ]


def test_incomplete_arguments_stay_text(owner: CrushStore, store: Store) -> None:
    owner.add_session("s", ("user", text_content("go")))
    owner.add_message("assistant", [call(arguments='{"command": "l'), finish("canceled")])
    sync_paths(store, owner.path)
    assert calls(store)[0].arguments == '{"command": "l'


def test_a_shell_command_of_the_person(owner: CrushStore, store: Store) -> None:
    owner.add_session("s", ("user", [part("shell_command", command="make", output="failed", exit_code=2), finish()]))
    sync_paths(store, owner.path)
    (entry,) = stored_entries(store, "s")
    assert (entry.text, store.sessions.find("s").turns) == ("$ make", 1)
    assert [(call.name, call.status, call.result) for call in calls(store)] == [("shell", "error", "failed")]


def test_a_hidden_prompt_of_crush_begins_no_turn(owner: CrushStore, store: Store) -> None:
    owner.add_session("s", ("user", text_content("go")), ("user", text_content("Go on.", hidden=True)))
    sync_paths(store, owner.path)
    assert (store.sessions.find("s").turns, stored_texts(store, "s")) == (1, ["go", ""])


def test_an_event_says_why_an_answer_ended(owner: CrushStore, store: Store) -> None:
    owner.add_session("s", ("user", text_content("go")))
    owner.add_message("assistant", [finish("error", message="Overloaded", details="529")])
    owner.add_message("assistant", [*text_content("Half")[:1], finish("canceled")])
    sync_paths(store, owner.path)
    _, failed, half, canceled = stored_entries(store, "s")
    assert (failed.kind, failed.text, half.text) == ("event", "error: Overloaded: 529", "Half")
    assert (canceled.kind, canceled.text, canceled.record) == ("event", "canceled", half.record)


def test_a_summary(owner: CrushStore, store: Store) -> None:
    owner.add_session("s", ("user", text_content("one")), ("user", text_content("two")))
    owner.add_message("assistant", [*text_content("They counted.")[:1], finish()], is_summary_message=1)
    owner.add_message("user", text_content("three"))
    sync_paths(store, owner.path)
    session = store.sessions.find("s")
    assert [entry.kind for entry in stored_entries(store, "s")] == ["message", "message", "compaction", "message"]
    summary = store.summaries.current(session)
    assert summary is not None
    assert (summary.text, summary.up_to_turn) == ("They counted.", 2)


# ── repeated syncs ────────────────────────────────────────────────────────────────────────────────


def test_an_answer_is_read_when_it_is_finished(owner: CrushStore, store: Store) -> None:
    now = int(time.time())
    owner.add_session("s", ("user", text_content("go")), created_at=now, updated_at=now)
    message_id = owner.add_message("assistant", [*text_content("Hal")[:1]])
    sync_paths(store, owner.path)
    assert stored_texts(store, "s") == ["go"]
    parts = json.dumps([*text_content("Half and half.")[:1], finish()])
    execute_sql(owner.path, "update messages set parts = ? where id = ?", [(parts, message_id)])
    assert sync_paths(store, owner.path).updated == 1
    assert stored_texts(store, "s") == ["go", "Half and half."]
    assert len(store.sessions.newest()) == 1


def test_an_unfinished_answer_is_read_when_a_message_follows(owner: CrushStore, store: Store) -> None:
    now = int(time.time())
    owner.add_session(
        "s", ("user", text_content("go")), ("assistant", text_content("Hal")[:1]), created_at=now, updated_at=now
    )
    owner.add_message("user", text_content("and?"))
    sync_paths(store, owner.path)
    assert stored_texts(store, "s") == ["go", "Hal", "and?"]


def test_an_unfinished_answer_is_read_when_the_session_is_quiet(owner: CrushStore, store: Store) -> None:
    owner.add_session("s", ("user", text_content("go")), ("assistant", text_content("Hal")[:1]))
    now = int(time.time())
    execute_sql(owner.path, f"update sessions set updated_at = {now}")
    sync_paths(store, owner.path)
    assert stored_texts(store, "s") == ["go"]
    execute_sql(owner.path, f"update sessions set updated_at = {now - 4000}")
    sync_paths(store, owner.path)
    assert stored_texts(store, "s") == ["go", "Hal"]


def test_new_messages_are_appended_and_rewritten_ones_stay_reachable(owner: CrushStore, store: Store) -> None:
    owner.add_session("s", ("user", text_content("one")), ("assistant", [*text_content("first")[:1], finish()]))
    sync_paths(store, owner.path)
    owner.add_message("user", text_content("two"))
    sync_paths(store, owner.path)
    assert stored_texts(store, "s") == ["one", "first", "two"]
    execute_sql(owner.path, "delete from messages where id = 'm2'")
    sync_paths(store, owner.path)
    assert stored_texts(store, "s") == ["one", "two"]
    (superseded,) = store.sessions.children(store.sessions.find("s").id)
    assert superseded.relation == "superseded"


def test_a_bad_row_is_one_problem(owner: CrushStore, store: Store) -> None:
    owner.add_session(
        "s", ("user", text_content("first")), ("user", '[{"type": "te'), ("user", '{"type": "text"}'), ("narrator", [])
    )
    owner.add_session("n", ("user", text_content("there?")))
    problems = sync_paths(store, owner.path).problems
    assert [problem.where for problem in problems] == ["messages:m2", "messages:m3"]
    assert stored_texts(store, "n") == ["there?"]
    first, second, third, fourth = stored_entries(store, "s")
    assert second.parts == (Opaque("parts", '[{"type": "te'),)
    assert fourth.kind == "unknown"
    assert None not in (first.record, third.record, fourth.record)


def test_every_message_is_in_the_chain(owner: CrushStore, store: Store) -> None:
    owner.add_session(
        "s",
        ("user", text_content("one")),
        ("assistant", [call(), finish()]),
        ("tool", result()),
        ("system", text_content("x")),
    )
    sync_paths(store, owner.path)
    message_ids = {
        json.loads(store.records.get(entry.record))["id"] for entry in stored_entries(store, "s") if entry.record
    }
    assert message_ids == {"m1", "m2", "m3", "m4"}
