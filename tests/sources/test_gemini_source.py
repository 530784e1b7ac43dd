"""These tests read logs of Gemini CLI. A message is stored once, however often it is written, and a rewind leaves a
fork."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import stored_entries, stored_texts, sync_paths
from hypothesis import given
from hypothesis import strategies as st
from stored_records import read_stored_records, read_transcript_lines
from transcript_fuzzer import corrupted_json, corrupted_lines, read_all_sessions

from store.model.entry import Attachment, Text, Thinking, Tokens
from store.model.session import Session
from store.sources.gemini.source import Gemini
from store.sources.kit.gemini_parts import command_failed
from store.store import Store
from store.sync.targets import find_targets

gemini = Gemini()

SAMPLE = Path(__file__).parents[1] / "data/gemini"
RESUMED, TWICE, OLD, AGENT = (
    "aaaa1111-0000-4000-8000-000000000001",
    "bbbb2222-0000-4000-8000-000000000002",
    "cccc3333-0000-4000-8000-000000000003",
    "sub-1",
)
LATIN = f"{RESUMED}/m5"


@pytest.fixture
def agent_home(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / ".gemini"))


def log(agent_home: Path, session_id: str) -> Path:
    return sorted(agent_home.rglob(f"session-*-{session_id[:8]}.json*"))[0]


def append_lines(path: Path, *values: Any) -> None:
    with path.open("a") as file:
        file.write("".join(json.dumps(value) + "\n" for value in values))


def user(name: str, text: str, time: str = "2026-05-01T10:30:00.000Z") -> dict[str, Any]:
    return {"id": name, "timestamp": time, "type": "user", "content": [{"text": text}]}


def answer(name: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": "2026-05-01T10:30:01.000Z", "type": "gemini", "content": text} | fields


def find(store: Store, session_id: str) -> Session:
    return store.sessions.find(session_id)


def message_texts(store: Store, session_id: str) -> list[str]:
    return [entry.text for entry in stored_entries(store, session_id) if entry.kind == "message" and entry.text][1:]


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


def test_it_is_found_where_gemini_keeps_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SAMPLE, home / ".gemini")
    (target,) = find_targets(source_name="gemini")
    assert target.locator == str(home / ".gemini")
    monkeypatch.setenv("GEMINI_CLI_HOME", str(home / "moved"))
    assert list(gemini.roots()) == [str(home / "moved/.gemini")]


def test_a_folder_inside_or_a_single_log_is_detected(agent_home: Path, tmp_path: Path) -> None:
    assert gemini.detect(str(agent_home / "tmp/app"))
    assert gemini.detect(str(log(agent_home, TWICE)))
    assert gemini.detect(str(log(agent_home, OLD)))
    (tmp_path / "other.jsonl").write_text('{"sessionId":"x","type":"user"}\n')
    assert not gemini.detect(str(tmp_path / "other.jsonl"))


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def test_the_messages_of_a_resumed_session_are_stored_once(store: Store, agent_home: Path) -> None:
    assert sync_paths(store, agent_home).problems == []
    session = find(store, RESUMED)
    assert (session.title, session.cwd, session.model) == ("List the files", "/w/app", "gemini-3-pro")
    assert (session.turns, session.tool_calls, session.errors) == (3, 3, 2)
    assert session.created_at == "2026-05-01T10:00:00.000000Z"
    assert [turn.prompt for turn in store.chains.turns(session.key)][1:] == ["/help", "List @a.txt", "Say it in Greek"]
    assert (session.tokens_input, session.tokens_output, session.tokens_cached) == (60 + 150 + 210, 25 + 10 + 4, 40)


def test_a_repeated_message_adds_only_what_is_new(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    entries = [entry for entry in stored_entries(store, RESUMED) if entry.message_key == "m2"]
    kinds = [[type(part).__name__ for part in entry.parts] for entry in entries if entry.kind == "message"]
    assert kinds == [["Thinking"], ["ToolCall", "ToolResult", "ToolCall"], ["ToolResult"]]
    assert entries[0].parts == (Thinking("Plan\nrun both"),)
    assert [entry.tokens for entry in entries] == [Tokens(60, 25, 40), None, None]


def test_a_command_that_fails_is_an_error_though_its_tool_says_success(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    calls = store.chains.tool_calls(find(store, RESUMED).key)
    assert [(call.call_id, call.status) for call in calls] == [("c1", "ok"), ("c2", "error"), ("c3", "error")]
    assert command_failed("Output: x\nSignal: 9\nProcess Group PGID: 1")
    assert command_failed("Output: x\nError: (none)\nExit Code: 1\nSignal: 0\nProcess Group PGID: 1")
    assert not command_failed("Output: Exit Code: 7\nok\nProcess Group PGID: 1")
    assert not command_failed("Output: x\nError: (none)\nExit Code: 0\nSignal: (none)\nProcess Group PGID: 1")


def test_a_call_takes_the_time_from_its_message_to_its_result(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    calls = store.chains.tool_calls(find(store, RESUMED).key)
    assert [(call.call_id, call.duration_ms) for call in calls[:2]] == [("c1", 1000.0), ("c2", 1500.0)]


def test_injected_text_is_no_prompt(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    first, _, prompt = stored_entries(store, RESUMED)[:3]
    assert (first.role, first.turn) == ("user", 0)
    assert prompt.text == "List @a.txt"
    assert Text("hello") in prompt.parts
    assert prompt.parts[-1] == Attachment("image/png", size=5)


def test_a_branch_before_a_rewind_is_a_fork(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    fork = find(store, LATIN)
    assert (fork.parent_id, fork.relation, fork.turns) == (f"gemini:{RESUMED}", "fork", 1)
    assert [entry.text for entry in stored_entries(store, LATIN) if not entry.inherited] == ["Say it in Latin", "Unum."]
    assert fork.forked_at == sum(entry.inherited for entry in stored_entries(store, LATIN)) - 1
    assert "Unum." not in stored_texts(store, RESUMED)


def test_a_thread_in_two_files_is_one_session(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    assert message_texts(store, TWICE) == ["What is two and two?", "Four.", "And three?", "Seven."]
    assert find(store, TWICE).tokens_total == 32


def test_the_old_file_is_one_object(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    session = find(store, OLD)
    assert (session.title, session.cwd, session.errors) == ("Read the readme", "/w/old", 1)
    assert stored_texts(store, OLD) == ["Read the readme", "Let me see.", "It is not there."]
    path = log(agent_home, OLD)
    document = json.loads(path.read_text())
    document["messages"].append(user("o4", "Then write one"))
    document |= {"lastUpdated": "2026-01-01T00:00:00Z", "summary": "A readme"}
    path.write_text(json.dumps(document))
    sync_paths(store, agent_home)
    assert stored_texts(store, OLD)[-1] == "Then write one"
    assert find(store, OLD).title == "A readme"
    assert len(store.sessions.children(session.id)) == 0


def test_an_old_file_and_what_it_became_are_one_session(store: Store, agent_home: Path) -> None:
    path = log(agent_home, OLD)
    document = json.loads(path.read_text())
    head = {name: document[name] for name in ("sessionId", "projectHash", "startTime", "lastUpdated")}
    append_lines(path.with_suffix(".jsonl"), head, *document["messages"], user("o4", "Go on"))
    sync_paths(store, agent_home)
    assert [text for text in stored_texts(store, OLD) if text] == [
        "Read the readme",
        "Let me see.",
        "It is not there.",
        "Go on",
    ]
    assert find(store, OLD).tokens_total == 20


def test_a_sub_agent_is_linked_to_the_call_that_started_it(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    child = find(store, AGENT)
    assert (child.parent_id, child.relation) == (f"gemini:{RESUMED}", "delegate")
    assert child.forked_at is not None
    assert stored_entries(store, RESUMED)[child.forked_at].text == "Ask the expert."


def test_a_log_without_messages_is_no_session(store: Store, agent_home: Path) -> None:
    stub = sorted(agent_home.rglob("*bbbb2222.jsonl"))[1]
    shutil.copy(stub, stub.with_name("session-2026-05-02T10-00-dddd4444.jsonl"))
    copy = stub.with_name("session-2026-05-02T10-00-dddd4444.jsonl")
    copy.write_text(stub.read_text().replace("bbbb2222", "dddd4444"))
    assert sync_paths(store, agent_home).seen == 5


def test_no_record_is_lost(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    records = read_stored_records(store)
    assert records >= read_transcript_lines(agent_home)
    old = json.loads(log(agent_home, OLD).read_text())
    assert [message for message in old["messages"] if message not in [json.loads(data) for data in records]] == []


# ── changes ───────────────────────────────────────────────────────────────────────────────────────


def test_a_log_that_grows_is_a_chain_that_grows(store: Store, agent_home: Path) -> None:
    """A second file of the same session may appear while the first one still grows."""
    path, stub = sorted(agent_home.rglob("*bbbb2222.jsonl"))
    lines, second = path.read_bytes().splitlines(keepends=True), stub.read_bytes()
    stub.unlink()
    known_keys: list[int] = []
    for count in range(3, len(lines) + 1):
        path.write_bytes(b"".join(lines[:count]))
        if count == 5:
            stub.write_bytes(second)
        sync_paths(store, agent_home)
        keys = [entry.key for entry in stored_entries(store, TWICE)]
        assert keys[: len(known_keys)] == known_keys
        known_keys = keys
    assert message_texts(store, TWICE) == ["What is two and two?", "Four.", "And three?", "Seven."]
    assert store.sessions.children(f"gemini:{TWICE}") == []


def test_a_second_sync_writes_nothing(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    again = sync_paths(store, agent_home)
    assert (again.new, again.updated, again.unchanged) == (0, 0, 5)
    log(agent_home, RESUMED).touch()
    sync_paths(store, agent_home)
    assert len(store.sessions.children(f"gemini:{RESUMED}")) == 2


def test_messages_missing_from_a_new_list_become_a_fork(store: Store, agent_home: Path) -> None:
    path = log(agent_home, TWICE)
    append_lines(
        path, user("b5", "Oops"), {"$set": {"messages": [user("b1", "What is two and two?"), answer("b2", "Four.")]}}
    )
    append_lines(path, user("b6", "Better"))
    sync_paths(store, agent_home)
    assert message_texts(store, TWICE) == ["What is two and two?", "Four.", "Better"]
    (fork,) = store.sessions.children(f"gemini:{TWICE}")
    assert message_texts(store, fork.native_id)[2:] == ["And three?", "Seven.", "Oops"]


def test_a_summary_removes_no_messages(store: Store, agent_home: Path) -> None:
    path = log(agent_home, TWICE)
    summary = user("x1", "<state_snapshot>Sums were done.</state_snapshot>")
    append_lines(
        path, {"$set": {"messages": [summary, answer("x2", "Got it."), answer("b4", "Seven.")]}}, user("b5", "More")
    )
    sync_paths(store, agent_home)
    assert message_texts(store, TWICE) == ["What is two and two?", "Four.", "And three?", "Seven.", "Got it.", "More"]
    (compaction,) = [entry for entry in stored_entries(store, TWICE) if entry.kind == "compaction"]
    assert "Sums were done." in compaction.text
    assert find(store, TWICE).turns == 3


def test_a_message_repeated_after_a_rollback_keeps_its_calls(store: Store, agent_home: Path) -> None:
    path = log(agent_home, TWICE)
    call = {"id": "k", "name": "ls", "args": {}, "status": "success", "resultDisplay": "a.txt"}
    append_lines(path, user("b5", "A"), answer("b6", "Look.", toolCalls=[call], model="g"))
    remaining = [user("b1", "What is two and two?"), answer("b2", "Four."), answer("b6", "Look.")]
    append_lines(path, {"$set": {"messages": remaining}})
    sync_paths(store, agent_home)
    assert message_texts(store, TWICE)[-1] == "Look."
    assert [(call.name, call.result) for call in store.chains.tool_calls(find(store, TWICE).key)] == [("ls", "a.txt")]


def test_a_rewind_to_an_unknown_message_removes_all(store: Store, agent_home: Path) -> None:
    append_lines(log(agent_home, TWICE), {"$rewindTo": "nobody"}, user("b9", "New"))
    sync_paths(store, agent_home)
    assert message_texts(store, TWICE) == ["New"]


# ── resume ────────────────────────────────────────────────────────────────────────────────────────


def test_resume_runs_in_the_projects_folder(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    command = gemini.resume(find(store, RESUMED))
    assert (command.argv, command.cwd) == (("gemini", "--resume", RESUMED), "/w/app")
    for other in (LATIN, AGENT):
        command = gemini.resume(find(store, other))
        assert command.argv is None
        assert command.hint


def test_the_folder_is_found_by_its_hash(store: Store, agent_home: Path) -> None:
    (agent_home / "tmp/app/.project_root").unlink()
    sync_paths(store, agent_home)
    assert find(store, RESUMED).cwd == "/w/app"
    (agent_home / "projects.json").unlink()
    (agent_home / "trustedFolders.json").write_text('{"/w/app": "TRUST_FOLDER"}')
    log(agent_home, RESUMED).touch()
    sync_paths(store, agent_home)
    assert find(store, RESUMED).cwd == "/w/app"


# ── bad input ─────────────────────────────────────────────────────────────────────────────────────


def test_bad_lines_are_problems_and_the_others_are_read(store: Store, agent_home: Path) -> None:
    path = log(agent_home, RESUMED)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], b"\xff\x00\n", *lines[4:]]))
    (path.parent / "session-x.json").write_text('{"sessionId": ')
    report = sync_paths(store, agent_home)
    assert len(report.problems) == 2
    assert find(store, RESUMED).turns == 3


@given(data=st.data())
def test_a_damaged_log_does_not_affect_others(data: st.DataObject, tmp_path: Path) -> None:
    folder = tmp_path / "fuzzed"
    shutil.copytree(SAMPLE, folder, dirs_exist_ok=True)
    log(folder, RESUMED).write_bytes(data.draw(corrupted_lines(log(SAMPLE, RESUMED).read_bytes())))
    log(folder, OLD).write_bytes(data.draw(corrupted_json(log(SAMPLE, OLD).read_bytes())))
    assert TWICE in read_all_sessions(gemini, folder)
