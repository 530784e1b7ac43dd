"""Tests what a session does: working, waiting, idle or ended, from what its agent left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from browser_driver import add_session, answer_entry, prompt_entry
from foreign_databases import sync_paths

from store.cli.json_output import sessions_to_json
from store.conversations.append import append_entries
from store.model.entry import NewEntry, Text, Thinking, ToolCall, ToolResult
from store.model.session import Session
from store.model.status import STATUSES, find_status
from store.search.sql import format_timestamp
from store.store import Store
from store.sync.agent_processes import update_processes

NOW = datetime.now(UTC)
SESSION = "11111111-2222-4333-8444-555555555555"


def at(**ago: float) -> str:
    return format_timestamp(NOW - timedelta(**ago))


def by_agent(*parts: Any) -> NewEntry:
    return NewEntry(role="assistant", parts=parts, created_at=at())


def event(text: str) -> NewEntry:
    return NewEntry(kind="event", text=text, created_at=at())


PROMPT = prompt_entry("Go on", at())
RESULT = NewEntry(role="tool", parts=(ToolResult("c", "done"),), is_prompt=False, created_at=at())
BASH, QUESTION = ToolCall("c", "Bash", {}), ToolCall("c", "AskUserQuestion", {})


@pytest.mark.parametrize(
    ("entries", "status"),
    [
        ([PROMPT], "working"),
        ([PROMPT, by_agent(Thinking("Hm."))], "working"),
        ([PROMPT, by_agent(BASH)], "working"),
        ([PROMPT, by_agent(Text("Let me look."), BASH)], "working"),
        ([PROMPT, by_agent(BASH), RESULT], "working"),
        ([PROMPT, by_agent(QUESTION)], "waiting"),
        ([PROMPT, answer_entry("Done.", at())], "waiting"),
        ([PROMPT, answer_entry("Done.", at()), event("last-prompt")], "waiting"),
        ([PROMPT, event("turn was interrupted")], "waiting"),
        ([PROMPT, event("429: quota error"), event("snapshot")], "ended"),
        ([PROMPT, event("error: overloaded"), answer_entry("Done.", at())], "waiting"),
        ([event("snapshot")], "idle"),
    ],
)
def test_the_last_entries_decide(store: Store, entries: list[NewEntry], status: str) -> None:
    session = add_session(store, "s", at(), *entries)
    assert find_status(session, NOW) == status
    found = {name: [s.id for s in store.sessions.matching(f"is:{name}", now=NOW)[0]] for name in STATUSES}
    assert found == {name: ["s"] if name == status else [] for name in STATUSES}


@pytest.mark.parametrize(
    ("entries", "ago", "process", "status"),
    [
        ([PROMPT], {"minutes": 9}, None, "working"),
        ([PROMPT], {"minutes": 11}, None, "idle"),
        ([PROMPT], {"minutes": 11}, 1, "working"),
        ([PROMPT], {"hours": 25}, 1, "idle"),
        ([PROMPT, answer_entry("Done.", at())], {"minutes": 59}, None, "waiting"),
        ([PROMPT, answer_entry("Done.", at())], {"minutes": 61}, None, "idle"),
        ([PROMPT, answer_entry("Done.", at())], {"hours": 5}, 1, "waiting"),
        ([PROMPT, answer_entry("Done.", at())], {"hours": -1}, None, "idle"),
        ([PROMPT, event("fatal error")], {"days": 90}, None, "ended"),
    ],
)
def test_time_and_process_decide(
    store: Store, entries: list[NewEntry], ago: dict[str, float], process: int | None, status: str
) -> None:
    add_session(store, "s", at(), *entries)
    with store.transaction() as connection:
        connection.execute("update sessions set updated_at = ?, process = ?", (at(**ago), process))
    assert find_status(store.sessions.get("s"), NOW) == status
    assert [s.id for s in store.sessions.matching(f"is:{status}", now=NOW)[0]] == ["s"]
    assert store.sessions.matching(f"-is:{status}", now=NOW)[1] == 0


NOTICE = replace(by_agent(Text("API Error: 529 Overloaded")), model="<synthetic>")
GIVES_UP = NewEntry(kind="event", text="task_complete", activity="waiting", created_at=at())
QUITS = NewEntry(kind="event", text="routine", activity="ended", created_at=at())


@pytest.mark.parametrize(
    ("entries", "failed"),
    [
        ([PROMPT, event("429: quota")], True),
        ([PROMPT, NOTICE], True),
        ([PROMPT, event("429: quota"), GIVES_UP, event("snapshot"), QUITS], True),
        ([PROMPT, event("429: quota"), answer_entry("Done.", at())], False),
        ([PROMPT, event("429: quota"), replace(PROMPT, created_at=at())], False),
        ([PROMPT, event("turn was interrupted")], False),
        ([PROMPT, answer_entry("Done.", at()), QUITS], False),
    ],
)
@pytest.mark.parametrize("in_batches", [False, True])
def test_an_error_at_the_end_is_an_error_of_the_session(
    store: Store, entries: list[NewEntry], failed: bool, in_batches: bool
) -> None:
    session = add_session(store, "s", at(), *(entries[:1] if in_batches else entries))
    for entry in entries[1:] if in_batches else []:
        append_entries(store, session.key, [entry])
    assert [s.id for s in store.sessions.matching("is:error", now=NOW)[0]] == (["s"] if failed else [])
    (shown,) = sessions_to_json(store, [store.sessions.get("s")])
    assert shown["failed"] is failed
    assert shown["status"] == "ended" or not failed


def test_json_tells_the_status(store: Store) -> None:
    now = format_timestamp(datetime.now(UTC))
    session = add_session(store, "s", now, replace(PROMPT, created_at=now))
    assert [shown["status"] for shown in sessions_to_json(store, [session])] == ["working"]


def test_a_filter_by_status_looks_only_at_the_newest_sessions(store: Store) -> None:
    from store.search.query import Query
    from store.search.sql import build_session_condition

    sql, values = build_session_condition(Query.parse("is:waiting"), NOW)
    plan = store.rows(f"explain query plan select key from sessions where deleted = 0 and {sql}", *values)
    assert "sessions_newest (updated_at>? AND updated_at<?)" in str(plan)


# ── agents ────────────────────────────────────────────────────────────────────────────────────────


def claude_record(kind: str, uuid: str, parent: str | None, content: Any, **message: Any) -> str:
    record = {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": SESSION,
        "cwd": "/srv/app",
        "timestamp": at(),
        "message": {"role": kind, "content": content, **message},
    }
    return json.dumps(record) + "\n"


def read_claude(store: Store, home: Path, *lines: str) -> Session:
    path = home / ".claude" / "projects" / "-srv-app" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))
    sync_paths(store, home / ".claude")
    return store.sessions.get(f"claude:{SESSION}")


ASKED = claude_record("user", "u1", None, "Go on")
TEXT = [{"type": "text", "text": "Let me look."}]


@pytest.mark.parametrize(("reason", "status"), [("tool_use", "working"), ("end_turn", "waiting"), (None, "waiting")])
def test_claude_code_says_whether_a_call_follows_a_text(store: Store, home: Path, reason: str, status: str) -> None:
    answer = claude_record("assistant", "a1", "u1", TEXT, id="m", stop_reason=reason)
    assert find_status(read_claude(store, home, ASKED, answer), NOW) == status


def test_claude_code_waits_after_an_interruption(store: Store, home: Path) -> None:
    stopped = claude_record("user", "u2", "u1", [{"type": "text", "text": "[Request interrupted by user]"}])
    assert find_status(read_claude(store, home, ASKED, stopped), NOW) == "waiting"


def test_the_process_of_claude_code_is_noted_until_it_ends(store: Store, home: Path) -> None:
    read_claude(store, home, ASKED)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    listed = home / ".claude" / "sessions" / f"{process.pid}.json"
    listed.parent.mkdir()
    listed.write_text(json.dumps({"pid": process.pid, "sessionId": SESSION}))
    update_processes(store)
    session = store.sessions.get(f"claude:{SESSION}")
    assert (session.process, find_status(session, NOW + timedelta(hours=2))) == (process.pid, "working")
    process.communicate(b"\n")
    update_processes(store)
    session = store.sessions.get(f"claude:{SESSION}")
    assert (session.process, find_status(session, NOW)) == (None, "ended")


def test_a_process_id_that_means_a_group_is_not_taken_for_a_process(store: Store, home: Path) -> None:
    read_claude(store, home, ASKED)
    folder = home / ".claude" / "sessions"
    folder.mkdir()
    (folder / "0.json").write_text(json.dumps({"pid": 0, "sessionId": SESSION}))
    update_processes(store)
    assert store.sessions.get(f"claude:{SESSION}").process is None


def test_processes_of_other_sessions_change_nothing(store: Store, home: Path) -> None:
    read_claude(store, home, ASKED)
    folder = home / ".claude" / "sessions"
    folder.mkdir()
    (folder / "1.json").write_text(json.dumps({"pid": os.getpid(), "sessionId": "another"}))
    before = store.sessions.get(f"claude:{SESSION}")
    update_processes(store)
    assert store.sessions.get(f"claude:{SESSION}") == before


@pytest.mark.parametrize(
    ("kind", "data", "status"),
    [
        ("session.shutdown", {"shutdownType": "routine"}, "ended"),
        ("session.error", {"message": "429: quota"}, "ended"),
        ("permission.requested", {}, "waiting"),
        ("assistant.turn_start", {}, "working"),
    ],
)
def test_copilot_says_that_it_ended_or_asks(
    store: Store, home: Path, kind: str, data: dict[str, str], status: str
) -> None:
    folder = home / ".copilot" / "session-state" / SESSION
    folder.mkdir(parents=True)
    events = [
        ("session.start", {"sessionId": SESSION, "startTime": at()}),
        ("user.message", {"content": "Go on"}),
        (kind, data),
    ]
    lines = [
        json.dumps({"type": name, "id": str(n), "parentId": None, "timestamp": at(), "data": values})
        for n, (name, values) in enumerate(events)
    ]
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n")
    sync_paths(store, home / ".copilot")
    assert find_status(store.sessions.get(f"copilot:{SESSION}"), NOW) == status


@pytest.mark.parametrize(
    ("name", "status"), [("task_started", "working"), ("task_complete", "waiting"), ("turn_aborted", "waiting")]
)
def test_codex_says_when_a_turn_ends(store: Store, home: Path, name: str, status: str) -> None:
    folder = home / ".codex" / "sessions" / "2026" / "01" / "01"
    folder.mkdir(parents=True)
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on"}]}
    records = [
        ("session_meta", {"id": SESSION, "timestamp": at(), "cwd": "/srv/app"}),
        ("response_item", message),
        ("event_msg", {"type": name}),
    ]
    lines = [json.dumps({"timestamp": at(), "type": kind, "payload": payload}) for kind, payload in records]
    (folder / f"rollout-2026-01-01T00-00-00-{SESSION}.jsonl").write_text("\n".join(lines) + "\n")
    sync_paths(store, home / ".codex")
    assert find_status(store.sessions.get(f"codex:{SESSION}"), NOW) == status
