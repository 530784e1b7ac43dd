"""These tests read events of Copilot CLI: calls with three events each, sub-agents in the same file, and failed
commands that are reported as a success."""

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
from transcript_fuzzer import corrupted_lines, read_all_sessions

from store.model.entry import Attachment, Opaque, Text, Thinking, Tokens
from store.model.session import Session
from store.sources.copilot.source import Copilot
from store.store import Store
from store.sync.targets import find_targets

copilot = Copilot()

SAMPLE = Path(__file__).parents[1] / "data/copilot"
NEW, OLD = "aaaa7777-0000-4000-8000-000000000001", "bbbb8888-0000-4000-8000-000000000002"
AGENT = f"{NEW}/c3"


@pytest.fixture
def agent_home(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / ".copilot"))


def events(agent_home: Path) -> Path:
    return agent_home / f"session-state/{NEW}/events.jsonl"


def append_event(path: Path, kind: str, **data: Any) -> None:
    event = {"type": kind, "data": data, "id": "x", "timestamp": "2026-05-02T10:00:00.000Z", "parentId": "e"}
    with path.open("a") as file:
        file.write(json.dumps(event) + "\n")


def find(store: Store, session_id: str) -> Session:
    return store.sessions.find(session_id)


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


def test_it_is_found_where_copilot_keeps_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SAMPLE, home / ".copilot")
    (target,) = find_targets(source_name="copilot")
    assert target.locator == str(home / ".copilot")
    monkeypatch.setenv("COPILOT_HOME", str(home / "moved"))
    assert list(copilot.roots()) == [str(home / "moved")]


def test_a_single_folder_or_file_is_detected(agent_home: Path, tmp_path: Path) -> None:
    assert copilot.detect(str(events(agent_home)))
    assert copilot.detect(str(events(agent_home).parent))
    assert copilot.detect(str(agent_home / f"session-state/{OLD}.jsonl"))
    (tmp_path / "events.jsonl").write_text('{"type":"custom","id":"x","parentId":null,"timestamp":"t","data":1}\n')
    assert not copilot.detect(str(tmp_path / "events.jsonl"))


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def test_a_session_is_read(store: Store, agent_home: Path) -> None:
    assert sync_paths(store, agent_home).problems == []
    session = find(store, NEW)
    assert (session.title, session.cwd, session.model) == ('Fix the "retry"', "/w/app", "claude-sonnet-4.6")
    assert (session.turns, session.tool_calls, session.errors) == (2, 3, 1)
    assert (session.created_at, session.updated_at) == ("2026-05-01T09:59:59.000000Z", "2026-05-01T10:00:31.000000Z")
    assert [turn.prompt for turn in store.chains.turns(session.key)][1:] == ["Fix the retry", "Go on"]
    assert session.system_prompt == "You are the GitHub Copilot CLI."


def test_each_model_call_is_counted_once(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    counted = [entry.tokens for entry in stored_entries(store, NEW) if entry.tokens]
    assert counted == [Tokens(60, 20, 40), Tokens(200, 30, 0)]
    old = find(store, OLD)
    assert (old.tokens_input, old.tokens_output, old.tokens_cached) == (30, 7, 20)


def test_the_three_events_of_a_call_are_one_tool_call(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    calls = store.chains.tool_calls(find(store, NEW).key)
    assert [(call.call_id, call.name, call.status, call.result, call.duration_ms) for call in calls] == [
        ("c1", "bash", "ok", "a.txt", 3000),
        ("c2", "bash", "error", "oops", 1000),
        ("c3", "task", "ok", "Nothing there.", 8000),
    ]
    assert calls[1].arguments == {"command": "exit 3"}
    (call,) = store.chains.tool_calls(find(store, OLD).key)
    assert (call.status, call.result) == ("error", "")


def test_every_kind_of_event_is_understood(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    entries = stored_entries(store, NEW)
    assert entries[0].parts == (Text("Fix the retry"), Attachment("file", "a.py", uri="/w/app/a.py"))
    thoughts = [part for entry in entries for part in entry.parts if isinstance(part, Thinking)]
    assert thoughts == [Thinking("two things at once")]
    by_text = {entry.text: entry for entry in entries}
    assert by_text["A retry was looked for."].kind == "compaction"
    assert by_text["Out of quota"].role == "system"
    skill = by_text["<skill-context>Use the skill</skill-context>"]
    assert (skill.author, skill.turn) == ("skill-retry", 1)
    assert by_text["Both."].message_key == "a1"
    assert isinstance(entries[-1].parts[0], Opaque)


def test_a_sub_agent_is_linked_to_the_call_that_started_it(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    child = find(store, AGENT)
    assert (child.title, child.parent_id, child.relation) == ("Explorer", f"copilot:{NEW}", "delegate")
    assert child.forked_at is not None
    assert stored_entries(store, NEW)[child.forked_at].text == "Ask a helper."
    assert [text for text in stored_texts(store, AGENT) if text] == ["Look around", "gpt-5-mini", "Looking.", "view"]
    assert (child.tool_calls, child.errors, child.model, child.tokens_total) == (1, 1, "haiku", 12)
    assert "Looking." not in stored_texts(store, NEW)


def test_the_older_layout_is_one_file(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    session = find(store, OLD)
    assert (session.title, session.cwd, session.turns) == ("About old times", "/w/old", 1)


def test_of_two_files_of_one_session_the_longer_is_read(store: Store, agent_home: Path) -> None:
    lines = events(agent_home).read_bytes().splitlines(keepends=True)
    shorter = agent_home / f"session-state/{NEW}.jsonl"
    shorter.write_bytes(b"".join(lines[:6]))
    report = sync_paths(store, agent_home)
    assert [problem.where for problem in report.problems] == [str(shorter)]
    assert find(store, NEW).turns == 2


def test_no_record_is_lost(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    assert read_stored_records(store) >= read_transcript_lines(agent_home)


# ── changes ───────────────────────────────────────────────────────────────────────────────────────


def test_a_second_sync_writes_nothing_and_appended_events_are_read(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    again = sync_paths(store, agent_home)
    assert (again.new, again.updated, again.unchanged) == (0, 0, 3)
    before = [entry.key for entry in stored_entries(store, NEW)]
    append_event(events(agent_home), "user.message", content="More")
    sync_paths(store, agent_home)
    after = stored_entries(store, NEW)
    assert [entry.key for entry in after][:-1] == before
    assert after[-1].text == "More"


def test_a_name_that_is_given_later_is_seen(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    (events(agent_home).parent / "workspace.yaml").write_text("name: 'It''s renamed'\n")
    sync_paths(store, agent_home)
    assert find(store, NEW).title == "It's renamed"


def test_resume_runs_in_the_sessions_folder(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    command = copilot.resume(find(store, NEW))
    assert (command.argv, command.cwd) == (("copilot", "--resume", NEW), "/w/app")
    sub_agent = copilot.resume(find(store, AGENT))
    assert sub_agent.argv is None
    assert NEW in sub_agent.hint


# ── bad input ─────────────────────────────────────────────────────────────────────────────────────


def test_a_bad_line_is_one_problem(store: Store, agent_home: Path) -> None:
    path = events(agent_home)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"\x00\xff\n", *lines[3:], b'{"type":"user.mess']))
    report = sync_paths(store, agent_home)
    assert [problem.where for problem in report.problems] == [f"{path}:{sum(map(len, lines[:3]))}"]
    assert find(store, NEW).turns == 2


@given(data=st.data())
def test_a_damaged_transcript_does_not_affect_others(data: st.DataObject, tmp_path: Path) -> None:
    folder = tmp_path / "fuzzed"
    shutil.copytree(SAMPLE, folder, dirs_exist_ok=True)
    events(folder).write_bytes(data.draw(corrupted_lines(events(SAMPLE).read_bytes())))
    (events(folder).parent / "workspace.yaml").write_bytes(data.draw(st.binary(max_size=60)))
    assert OLD in read_all_sessions(copilot, folder)
