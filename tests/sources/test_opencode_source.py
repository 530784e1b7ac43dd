"""These tests read opencode's database and both layouts of files: settled parts, sub-agents and reverted messages."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import execute_sql, stored_entries, sync_paths
from opencode_store import (
    AT,
    FIRST_SCHEMA,
    LATEST_SCHEMA,
    USAGE,
    OpencodeFiles,
    OpencodeStore,
    assistant_message,
    finished_text_part,
    text_part,
    tool_part,
    user_message,
)

from store.model.entry import Attachment, Entry, Opaque, PairedCall, Text, Thinking, Tokens, ToolCall, ToolResult
from store.sources.opencode.source import Opencode
from store.store import Store
from store.sync import refresh
from store.sync.targets import find_targets

opencode = Opencode()

S = "ses_1"
STEP = {"type": "step-finish", "reason": "stop", "tokens": USAGE, "cost": 0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "opencode"
    folder.mkdir()
    return folder


@pytest.fixture
def owner(folder: Path) -> OpencodeStore:
    return OpencodeStore(folder / "opencode.db")


def calls(store: Store, session_id: str = S) -> list[PairedCall]:
    return store.chains.tool_calls(store.sessions.find(session_id).key)


def message_entries(store: Store, session_id: str = S) -> list[Entry]:
    """Return the entries of a session without events."""
    return [entry for entry in stored_entries(store, session_id) if entry.kind != "event"]


def texts(store: Store, session_id: str = S) -> list[str]:
    return [entry.text for entry in message_entries(store, session_id)]


def current_times() -> dict[str, int]:
    milliseconds = int(time.time() * 1000)
    return {"time_created": milliseconds, "time_updated": milliseconds}


# ── roots ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("layout", [FIRST_SCHEMA, LATEST_SCHEMA], ids=["first", "head"])
def test_every_layout_of_the_database_opens(tmp_path: Path, store: Store, layout: str) -> None:
    owner = OpencodeStore(tmp_path / "any name", layout)
    owner.add_session(S, (user_message(), [text_part("Fix it")]), (assistant_message(), [finished_text_part("Fixed.")]))
    report = sync_paths(store, owner.path)
    assert (report.source, report.new, report.problems) == ("opencode", 1, [])
    assert texts(store) == ["Fix it", "Fixed."]
    assert sync_paths(store, owner.path).unchanged == 1


def test_the_default_folder_and_the_variable_are_found(
    home: Path, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / ".local/share/opencode"
    folder.mkdir(parents=True)
    OpencodeStore(folder / "opencode.db").add_session("ses_a", (user_message(), [text_part("one")]))
    OpencodeStore(folder / "opencode-beta.db").add_session("ses_b", (user_message(), [text_part("two")]))
    (folder / "other.db").write_text("not a database")
    OpencodeStore(tmp_path / "far.db").add_session("ses_c", (user_message(), [text_part("three")]))
    monkeypatch.setenv("OPENCODE_DB", str(tmp_path / "far.db"))
    targets = find_targets()
    assert [target.locator for target in targets] == [str(folder), str(tmp_path / "far.db")]
    (*_, last) = refresh.sync_targets(store, targets)
    assert [texts(store, session_id) for session_id in ("ses_a", "ses_b", "ses_c")] == [["one"], ["two"], ["three"]]
    assert last.report.problems == []


@pytest.mark.parametrize("project", ["", "srv-app"], ids=["second", "first"])
def test_the_layouts_of_files(folder: Path, store: Store, project: str) -> None:
    files = OpencodeFiles(folder, project)
    files.add_session(
        S,
        (user_message(), [text_part("one")]),
        (assistant_message(), [finished_text_part("first"), tool_part(), STEP]),
        title="Counting",
    )
    report = sync_paths(store, folder)
    assert (report.source, report.new, report.problems) == ("opencode", 1, [])
    session = store.sessions.find(S)
    assert (texts(store), session.title, session.cwd) == (["one", "first", ""], "Counting", "/srv/app")
    assert (session.turns, session.tool_calls, session.tokens_total) == (1, 1, 120)
    assert session.created_at == "2025-12-29T09:20:00.000000Z"
    files.add_message(user_message(), text_part("two"))
    assert sync_paths(store, folder).updated == 1
    assert texts(store) == ["one", "first", "", "two"]
    assert sync_paths(store, folder).unchanged == 1


def test_a_session_in_several_storages_is_read_from_the_newest(folder: Path, store: Store) -> None:
    for number, files in enumerate([OpencodeFiles(folder, "srv-app"), OpencodeFiles(folder)]):
        files.add_session(S, (user_message(), [text_part(f"files {number}")]))
        files.add_session(f"ses_only_{number}", (user_message(), [text_part(f"only {number}")]))
    OpencodeStore(folder / "opencode.db").add_session(S, (user_message(), [text_part("database")]))
    assert sync_paths(store, folder).new == 3
    assert texts(store) == ["database"]
    assert (texts(store, "ses_only_0"), texts(store, "ses_only_1")) == (["only 0"], ["only 1"])


def test_a_folder_of_other_things_is_not_opencode_s(tmp_path: Path) -> None:
    (tmp_path / "storage/session/x").mkdir(parents=True)
    (tmp_path / "storage/session/x/note.json").write_text("{}")
    assert not opencode.detect(str(tmp_path))


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


def test_the_fields_of_a_session(owner: OpencodeStore, store: Store, folder: Path) -> None:
    model = '{"id":"opus","providerID":"anthropic","variant":"default"}'
    owner.add_session(S, (user_message(), [text_part("hi")]), title="Greetings", model=model)
    owner.add_session("ses_2", title="Old", time_archived=AT)
    sync_paths(store, folder)
    session = store.sessions.find(S)
    assert (session.id, session.title, session.cwd) == ("opencode:ses_1", "Greetings", "/srv/app")
    assert (session.provider, session.model, session.archived) == ("anthropic", "opus", 0)
    assert (session.created_at, session.updated_at) == ("2025-12-29T09:20:00.000000Z", "2025-12-29T09:21:00.000000Z")
    assert store.sessions.find("ses_2").archived
    command = opencode.resume(session)
    assert (command.argv, command.cwd) == (("opencode", "/srv/app", "--session", S), "/srv/app")


@pytest.mark.parametrize("kind", ["New", "Child"])
def test_a_placeholder_title_is_replaced_by_the_prompt(owner: OpencodeStore, store: Store, kind: str) -> None:
    injected = text_part("Called the Read tool", synthetic=True)
    owner.add_session(
        S, (user_message(), [injected, text_part("Add a retry")]), title=f"{kind} session - 2026-01-01T10:00:00.000Z"
    )
    sync_paths(store, owner.path)
    assert store.sessions.find(S).title == "Add a retry"


def test_a_session_has_its_cost_and_a_reverted_part_has_none(owner: OpencodeStore, store: Store) -> None:
    turns = [
        (user_message(), [text_part("one")]),
        (assistant_message(), [finished_text_part("first"), STEP]),
        (user_message(), [text_part("two")]),
    ]
    owner.add_session(S, *turns, cost=0.5, revert=json.dumps({"messageID": "msg_003"}))
    sync_paths(store, owner.path)
    assert sorted(str(session.cost) for session in store.sessions.newest(10)) == ["0.5", "None"]


def test_a_sub_agent_is_linked_to_the_call_that_started_it(owner: OpencodeStore, store: Store, folder: Path) -> None:
    task = tool_part("Seen.", "call_7", "task", metadata={"sessionId": "ses_child"})
    owner.add_session(
        S,
        (user_message(), [text_part("Look around")]),
        (assistant_message(), [finished_text_part("I will."), task, STEP]),
    )
    owner.add_session("ses_child", (user_message(), [text_part("look")]), parent_id=S, title="Look (@general subagent)")
    sync_paths(store, folder)
    child = store.sessions.find("ses_child")
    assert (child.parent_id, child.relation) == ("opencode:ses_1", "delegate")
    assert child.forked_at is not None
    entry = stored_entries(store, S)[child.forked_at]
    assert entry.parts[0] == ToolCall("call_7", "task", {"command": "ls"})


def test_reverted_messages_are_a_fork(owner: OpencodeStore, store: Store, folder: Path) -> None:
    owner.add_session(S, (user_message(), [text_part("one")]), (assistant_message(), [finished_text_part("first")]))
    reverted = owner.add_message(user_message(), text_part("two"))
    owner.add_message(assistant_message(), finished_text_part("second"))
    execute_sql(owner.path, "update session set revert = ?", [(json.dumps({"messageID": reverted}),)])
    assert sync_paths(store, folder).new == 2
    session = store.sessions.find("opencode:ses_1")
    assert texts(store, session.id) == ["one", "first"]
    (fork,) = store.sessions.children(session.id)
    assert (fork.native_id, fork.relation, fork.forked_at, fork.turns) == (f"{S}/{reverted}", "fork", 3, 1)
    fork_entries = [(entry.text, entry.inherited) for entry in message_entries(store, fork.id)]
    assert fork_entries == [("one", True), ("first", True), ("two", False), ("second", False)]
    assert opencode.resume(fork).argv is None
    assert "/redo" in opencode.resume(fork).hint
    execute_sql(owner.path, "update session set revert = null")
    sync_paths(store, folder)
    assert texts(store, session.id) == ["one", "first", "two", "second"]
    assert [listed.id for listed in store.sessions.newest(10)] == [session.id]
    assert store.search.find("second")[1] == 1


def test_a_reverted_part(owner: OpencodeStore, store: Store, folder: Path) -> None:
    owner.add_session(S, (user_message(), [text_part("one")]))
    message = owner.add_message(assistant_message(), finished_text_part("first"))
    part = owner.add_part(message, finished_text_part("second"))
    execute_sql(owner.path, "update session set revert = ?", [(json.dumps({"messageID": message, "partID": part}),)])
    sync_paths(store, folder)
    assert texts(store, "opencode:ses_1") == ["one", "first"]
    assert texts(store, f"{S}/{message}") == ["one", "first", "second"]


# ── parts ─────────────────────────────────────────────────────────────────────────────────────────


def test_parts(owner: OpencodeStore, store: Store) -> None:
    picture = {"type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,aGVsbG8="}
    linked = {"type": "file", "mime": "text/plain", "filename": "b.txt", "url": "file:///srv/b.txt"}
    thought = {"type": "reasoning", "text": "plan", "metadata": {"anthropic": {"signature": "sig"}}, "time": {"end": 2}}
    novel = {"type": "hologram", "beam": 1}
    owner.add_session(S, (user_message(), [text_part("See"), picture, linked, text_part("and this")]))
    answer: list[dict[str, Any]] = [
        {"type": "step-start"},
        thought,
        finished_text_part("Reading."),
        tool_part(attachments=[picture]),
        novel,
    ]
    owner.add_message(assistant_message(), *answer, {"type": "patch", "hash": "h", "files": []}, STEP)
    assert sync_paths(store, owner.path).problems == []
    entries = message_entries(store)
    assert [entry.parts for entry in entries] == [
        (Text("See"),),
        (Attachment("image/png", "a.png", 6),),
        (Attachment("text/plain", "b.txt", uri="file:///srv/b.txt"),),
        (Text("and this"),),
        (Thinking("plan", "sig"),),
        (Text("Reading."),),
        (
            ToolCall("call_1", "bash", {"command": "ls"}),
            ToolResult("call_1", "a.txt", False, "bash", 250.0),
            Attachment("image/png", "a.png", 6),
        ),
        (Opaque("hologram", novel),),
    ]
    assert entries[-1].kind == "unknown"
    assert store.sessions.find(S).turns == 1
    assert {entry.model for entry in entries if entry.role == "assistant"} == {"opus"}
    assert len({entry.message_key for entry in entries}) == 2


def test_failures_are_flagged(owner: OpencodeStore, store: Store) -> None:
    failed = tool_part("no such file", "c1", metadata={"exit": 3})
    wrong = tool_part("", "c2", "edit", status="error", error="File not found", metadata={})
    owner.add_session(
        S, (user_message(), [text_part("go")]), (assistant_message(), [tool_part("fine", "c0"), failed, wrong])
    )
    error = {"name": "APIError", "data": {"message": "Overloaded"}}
    owner.add_message(assistant_message(error=error), {"type": "retry", "attempt": 1, "error": error})
    sync_paths(store, owner.path)
    assert (store.sessions.find(S).tool_calls, store.sessions.find(S).errors) == (3, 2)
    assert [(call.call_id, call.status, call.result) for call in calls(store)] == [
        ("c0", "ok", "fine"),
        ("c1", "error", "no such file"),
        ("c2", "error", "File not found"),
    ]
    assert [entry.text for entry in stored_entries(store, S) if entry.text] == ["go", *["APIError: Overloaded"] * 2]


def test_an_exported_session_is_read_when_named(owner: OpencodeStore, store: Store, tmp_path: Path) -> None:
    turns = [
        (user_message(), [text_part("Fix it"), text_part("injected", synthetic=True)]),
        (assistant_message(tokens=USAGE), [finished_text_part("Reading."), tool_part("a.go", "c1")]),
    ]
    owner.add_session(S, *turns, title="Tests", directory="/w/app")
    path = tmp_path / "export.json"
    path.write_text(json.dumps(export_session(owner.path, S), indent=2))
    report = sync_paths(store, path)
    assert (report.source, report.new, report.problems) == ("opencode", 1, [])
    session = store.sessions.find(S)
    assert (session.title, session.cwd, session.turns, session.tool_calls) == ("Tests", "/w/app", 1, 1)
    with Store.open(tmp_path / "database.db") as other_store:
        sync_paths(other_store, owner.path)
        assert texts(store) == texts(other_store) == ["Fix it", "", "Reading.", ""]
        assert session.tokens_total == other_store.sessions.find(S).tokens_total
    assert sync_paths(store, path).unchanged == 1


def export_session(path: Path, session_id: str) -> dict[str, Any]:
    """Return what `opencode export` prints of a session."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        row = connection.execute("select * from session where id = ?", (session_id,)).fetchone()
        times = {"created": row["time_created"], "updated": row["time_updated"]}
        info = {"id": row["id"], "title": row["title"], "directory": row["directory"], "time": times}
        messages = [
            {
                "info": json.loads(message["data"]) | {"id": message["id"], "sessionID": session_id},
                "parts": [
                    json.loads(part["data"]) | {"id": part["id"], "sessionID": session_id, "messageID": message["id"]}
                    for part in connection.execute("select * from part where message_id = ?", (message["id"],))
                ],
            }
            for message in connection.execute("select * from message where session_id = ?", (session_id,)).fetchall()
        ]
    return {"info": info, "messages": messages}


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (
            {"total": 142, "input": 10, "output": 20, "reasoning": 7, "cache": {"read": 100, "write": 5}},
            (10, 27, 100, 5),
        ),
        (
            {"total": 135, "input": 10, "output": 20, "reasoning": 7, "cache": {"read": 100, "write": 5}},
            (10, 20, 100, 5),
        ),
        ({"input": 10, "output": 20, "reasoning": 7, "cache": {"read": 100, "write": 5}}, (10, 20, 100, 5)),
        ({"input": "many", "cache": 3}, (0, 0, 0, 0)),
    ],
    ids=["excludes reasoning", "includes reasoning", "no total", "invalid"],
)
def test_tokens(owner: OpencodeStore, store: Store, usage: dict[str, Any], tokens: tuple[int, int, int, int]) -> None:
    owner.add_session(
        S,
        (assistant_message(tokens=usage), [finished_text_part("one")]),
        (assistant_message(tokens=USAGE), [STEP | {"tokens": usage}]),
    )
    sync_paths(store, owner.path)
    assert [entry.tokens for entry in stored_entries(store, S) if entry.tokens] == [Tokens(*tokens)] * 2


def test_injected_messages_do_not_begin_a_turn(owner: OpencodeStore, store: Store) -> None:
    owner.add_session(S, (user_message(), [text_part("Called the Read tool", synthetic=True), text_part("See")]))
    owner.add_message(user_message(), text_part("Continue if you have next steps", synthetic=True))
    owner.add_message(
        user_message(), text_part("shown and never sent", ignored=True), {"type": "compaction", "auto": True}
    )
    owner.add_message(
        user_message(), {"type": "subtask", "prompt": "Look around", "description": "look", "agent": "general"}
    )
    owner.add_message(user_message(), {"type": "file", "mime": "image/png", "url": "data:image/png;base64,aGVsbG8="})
    sync_paths(store, owner.path)
    assert store.sessions.find(S).turns == 3
    assert texts(store) == ["", "See", "", "Look around", ""]


def test_a_summary(owner: OpencodeStore, store: Store) -> None:
    owner.add_session(
        S,
        (user_message(summary=True), [text_part("one")]),
        (assistant_message(summary=True, mode="compaction"), [finished_text_part("Sum.")]),
    )
    sync_paths(store, owner.path)
    assert [(entry.kind, entry.text) for entry in message_entries(store)] == [
        ("message", "one"),
        ("compaction", "Sum."),
    ]


# ── long outputs ──────────────────────────────────────────────────────────────────────────────────


def long_output(end: str, name: str = "tool_0a1B") -> dict[str, Any]:
    note = f"...output truncated...\n\nFull output saved to: /home/x/{name}\n\n"
    return tool_part(note + end, metadata={"exit": 0, "truncated": True, "outputPath": f"/home/x/tool-output/{name}"})


def numbered(first: int, last: int) -> str:
    return "\n".join(f"line {number}" for number in range(first, last + 1))


@pytest.mark.parametrize(
    ("saved", "end", "full"),
    [
        (numbered(1, 900), numbered(700, 900), numbered(1, 900)),
        (numbered(1, 800), numbered(700, 900), numbered(1, 900)),
        (numbered(1, 300), numbered(700, 900), f"{numbered(1, 300)}\n…\n{numbered(700, 900)}"),
    ],
    ids=["complete", "overlapping", "with a gap"],
)
def test_a_long_output_is_read_from_its_file(
    owner: OpencodeStore, store: Store, folder: Path, saved: str, end: str, full: str
) -> None:
    (folder / "tool-output").mkdir()
    (folder / "tool-output/tool_0a1B").write_text(saved)
    owner.add_session(S, (assistant_message(), [long_output(end)]))
    sync_paths(store, folder)
    assert calls(store)[0].result == full


@pytest.mark.parametrize("name", ["tool_gone", "tool_link", "../secret", "tool_\x00"])
def test_no_other_file_is_taken_for_an_output(owner: OpencodeStore, store: Store, folder: Path, name: str) -> None:
    (folder / "tool-output").mkdir()
    (folder / "secret").write_text("secret")
    (folder / "tool-output/tool_link").symlink_to(folder / "secret")
    part = long_output("the end", name)
    owner.add_session(S, (assistant_message(), [part]))
    sync_paths(store, folder)
    assert calls(store)[0].result == part["state"]["output"]


# ── the newer table ───────────────────────────────────────────────────────────────────────────────


def test_a_session_of_the_newer_table(owner: OpencodeStore, store: Store, folder: Path) -> None:
    owner.add_session(S)
    owner.add_session_message(
        "user", text="go", files=[{"mime": "image/png", "filename": "a.png", "url": "data:,aGVsbG8="}]
    )
    error = {"type": "tool", "id": "c2", "name": "edit", "state": {"status": "error", "error": {"message": "No."}}}
    done = {"status": "completed", "input": {"command": "ls"}, "content": [{"type": "text", "text": "a.txt"}]}
    content = [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "Yes."}, error]
    call = {"type": "tool", "id": "c1", "name": "bash", "state": done}
    owner.add_session_message("assistant", model={"id": "opus"}, content=[*content, call], finish="stop", tokens=USAGE)
    owner.add_session_message("synthetic", text="Go on.")
    owner.add_session_message("shell", callID="c3", command="make", output="made")
    owner.add_session_message("compaction", summary="They began.")
    owner.add_session_message("model-switched", model={"id": "haiku"})
    sync_paths(store, folder)
    session = store.sessions.find(S)
    assert (session.turns, session.tokens_total, session.model) == (1, 120, "opus")
    assert [(entry.kind, entry.role, entry.text) for entry in message_entries(store)] == [
        ("message", "user", "go"),
        ("message", "user", ""),
        ("message", "assistant", ""),
        ("message", "assistant", "Yes."),
        ("message", "assistant", ""),
        ("message", "assistant", ""),
        ("message", "user", ""),
        ("message", "assistant", ""),
        ("compaction", "system", "They began."),
    ]
    assert [(call.call_id, call.status) for call in calls(store)] == [("c2", "error"), ("c1", "ok"), ("c3", "ok")]


# ── updates ───────────────────────────────────────────────────────────────────────────────────────


def test_a_part_is_read_when_it_is_settled(owner: OpencodeStore, store: Store, folder: Path) -> None:
    owner.add_session(S, (user_message(), [text_part("go")]), **current_times())
    unfinished = assistant_message(time={"created": AT})
    message = owner.add_message(unfinished, {"type": "step-start"}, finished_text_part("I will."))
    running = owner.add_part(message, tool_part(status="running"))
    owner.add_part(message, tool_part("b", "call_2"))
    sync_paths(store, folder)
    assert texts(store) == ["go", "I will."]
    owner.add_message(user_message(), text_part("and then?"))
    sync_paths(store, folder)
    assert texts(store) == ["go", "I will."]
    owner.update_data("part", running, tool_part("a"))
    writing = owner.add_part(message, text_part("Don", time={"start": AT}))
    sync_paths(store, folder)
    assert [call.result for call in calls(store)] == ["a", "b"]
    owner.update_data("part", writing, finished_text_part("Done."))
    owner.update_data("message", message, assistant_message())
    sync_paths(store, folder)
    assert texts(store) == ["go", "I will.", "", "", "Done.", "and then?"]
    assert len(store.sessions.newest()) == 1


def test_unfinished_parts_of_a_quiet_session_are_read(owner: OpencodeStore, store: Store, folder: Path) -> None:
    owner.add_session(
        S,
        (user_message(), [text_part("go")]),
        (assistant_message(time={}), [tool_part(status="running")]),
        **current_times(),
    )
    sync_paths(store, folder)
    assert texts(store) == ["go"]
    execute_sql(owner.path, "update session set time_updated = time_updated - 4000000")
    sync_paths(store, folder)
    assert [call.status for call in calls(store)] == ["pending"]


def test_later_marks_change_nothing(owner: OpencodeStore, store: Store, folder: Path) -> None:
    owner.add_session(S)
    message = owner.add_message(user_message(), text_part("go"))
    answer = owner.add_message(assistant_message())
    part = owner.add_part(answer, tool_part())
    sync_paths(store, folder)
    pruned = tool_part()
    pruned["state"]["time"]["compacted"] = AT + 5000
    owner.update_data("part", part, pruned)
    summary = {"title": "Going", "diffs": [{"file": "a", "after": "b"}]}
    owner.update_data("message", message, user_message(time={"created": AT + 1000}, summary=summary))
    assert sync_paths(store, folder).updated == 1
    assert store.sessions.children(store.sessions.find(S).id) == []
    assert len(stored_entries(store, S)) == 4


def test_a_deleted_message_stays_reachable(owner: OpencodeStore, store: Store, folder: Path) -> None:
    owner.add_session(S, (user_message(), [text_part("one")]), (assistant_message(), [finished_text_part("first")]))
    sync_paths(store, folder)
    execute_sql(owner.path, "delete from message where id = 'msg_003'")
    sync_paths(store, folder)
    assert texts(store) == ["one"]
    (superseded,) = store.sessions.children(store.sessions.find(S).id)
    assert superseded.relation == "superseded"


def test_a_bad_row_is_one_problem(owner: OpencodeStore, store: Store, folder: Path) -> None:
    owner.add_session(S, (user_message(), [text_part("one")]))
    owner.add_message(assistant_message(), '{"type": "te', finished_text_part("first"))
    owner.add_message("[]")
    owner.add_session("ses_2", (user_message(), [text_part("there?")]))
    problems = sync_paths(store, folder).problems
    assert [problem.where for problem in problems] == ["message:msg_006", "part:prt_004"]
    assert texts(store, "ses_2") == ["there?"]
    assert texts(store) == ["one", "", "first", ""]
    assert message_entries(store)[1].parts == (Opaque("", '{"type": "te'),)
    assert [entry.kind for entry in message_entries(store)] == ["message", "unknown", "message", "unknown"]


def test_rows_of_a_session_that_is_gone_are_a_problem(owner: OpencodeStore, store: Store, folder: Path) -> None:
    owner.add_session(S, (user_message(), [text_part("one")]))
    with closing(sqlite3.connect(owner.path)) as connection, connection:
        connection.execute("delete from session")
    (problem,) = sync_paths(store, folder).problems
    assert (problem.where, problem.reason) == ("message:1", "There is no session 'ses_1'.")


def test_a_bad_file_is_one_problem(folder: Path, store: Store) -> None:
    files = OpencodeFiles(folder)
    files.add_session(
        S, (user_message(), [text_part("one"), text_part("two")]), (assistant_message(), [finished_text_part("first")])
    )
    files.path("part/msg_001/prt_002").write_bytes(b"\xff\xfe{")
    files.add_session("ses_2", (user_message(), [text_part("there?")]))
    files.add_session("ses_3")
    files.path("session/global/ses_3").write_text("[1, 2")
    problems = sync_paths(store, folder).problems
    assert [Path(problem.where).name for problem in problems] == ["prt_002.json", "ses_3.json"]
    assert (texts(store), texts(store, "ses_2")) == (["two", "first"], ["there?"])


def test_every_message_and_part_is_in_the_chain(owner: OpencodeStore, store: Store, folder: Path) -> None:
    kinds = [
        "step-start",
        "snapshot",
        "patch",
        "agent",
        "subtask",
        "retry",
        "compaction",
        "hologram",
        "file",
        "reasoning",
    ]
    owner.add_session(
        S,
        (user_message(), [text_part("one")]),
        (assistant_message(), [{"type": kind} for kind in kinds] + [tool_part(), STEP]),
    )
    sync_paths(store, folder)
    records = [json.loads(store.records.get(entry.record)) for entry in stored_entries(store, S) if entry.record]
    written = {f"msg_{number:03}" for number in (1, 3)} | {f"prt_{number:03}" for number in (2, *range(4, 16))}
    assert {row["id"] for row in records} == written
    assert len(records) == len(written)
