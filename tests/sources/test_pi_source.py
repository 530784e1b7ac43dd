"""These tests read transcripts of pi: the tree with its branches and forks, and every kind of record of versions 1 to
3."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from foreign_databases import stored_entries, stored_texts, sync_paths
from hypothesis import given
from hypothesis import strategies as st
from stored_records import read_stored_records, read_transcript_lines
from transcript_fuzzer import corrupted_lines, read_all_sessions

from store.model.entry import Attachment, Opaque, Text, Thinking, Tokens, ToolCall, ToolResult
from store.model.session import Session
from store.sources.pi.source import Pi
from store.store import Store
from store.sync.targets import find_targets

pi = Pi()

SAMPLE = Path(__file__).parents[1] / "data/pi"
TREE, FORKED, OLD = (f"aaaa0000-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))
BRANCH = f"{TREE}/e0000009"


@pytest.fixture
def agent_home(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "pi"))


def transcript(agent_home: Path, session_id: str) -> Path:
    (path,) = agent_home.rglob(f"*_{session_id}.jsonl")
    return path


def find(store: Store, session_id: str) -> Session:
    return store.sessions.find(session_id)


def append_message(path: Path, record_id: str, parent: str | None, text: str, role: str = "user") -> None:
    record = {"type": "message", "id": record_id, "parentId": parent, "timestamp": "2026-05-03T10:00:00.000Z"}
    with path.open("a") as file:
        file.write(json.dumps(record | {"message": {"role": role, "content": text}}) + "\n")


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


def test_it_is_found_where_pi_keeps_it(home: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SAMPLE, home / ".pi")
    (target,) = find_targets(source_name="pi")
    assert (target.source.name, target.locator) == ("pi", str(home / ".pi/agent"))
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(home / "elsewhere"))
    assert list(pi.roots()) == [str(home / "elsewhere")]
    (home / "elsewhere").mkdir()
    (home / "elsewhere/settings.json").write_text('{"sessionDir": "kept"}')
    assert list(pi.roots())[1] == str(home / "elsewhere/kept")
    monkeypatch.setenv("PI_CODING_AGENT_SESSION_DIR", "~/moved")
    assert list(pi.roots())[1] == str(home / "moved")


def test_a_folder_inside_or_a_single_transcript_is_detected(agent_home: Path, tmp_path: Path) -> None:
    assert pi.detect(str(agent_home))
    assert pi.detect(str(agent_home / "agent/sessions"))
    assert pi.detect(str(transcript(agent_home, OLD)))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/a.jsonl").write_text('{"type":"session_meta","id":"x"}\n')
    assert not pi.detect(str(tmp_path / "other"))


def test_the_stamp_follows_the_files(agent_home: Path) -> None:
    before = pi.stamp(str(agent_home))
    assert before == pi.stamp(str(agent_home))
    append_message(transcript(agent_home, TREE), "e0000015", "e0000014", "more")
    assert pi.stamp(str(agent_home)) != before


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def test_the_branch_in_use_is_the_session(store: Store, agent_home: Path) -> None:
    assert sync_paths(store, agent_home).problems == []
    session = find(store, TREE)
    assert (session.title, session.cwd, session.model) == ("Retry uploader", "/w/app", "sparrow-2")
    assert (session.provider, session.turns, session.tool_calls, session.errors) == ("acme", 2, 3, 1)
    assert (session.created_at, session.updated_at) == ("2026-05-01T10:00:00.000000Z", "2026-05-01T10:00:14.000000Z")
    assert [turn.prompt for turn in store.chains.turns(session.key)][1:] == ["Add a retry", "Then do Y"]
    assert "Try X" not in stored_texts(store, TREE)


def test_an_old_branch_is_a_fork(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    fork, session = find(store, BRANCH), find(store, TREE)
    assert (fork.parent_id, fork.relation, fork.turns) == (session.id, "fork", 1)
    entries = stored_entries(store, BRANCH)
    assert [entry.text for entry in entries if not entry.inherited] == ["Try X", "529 overloaded"]
    assert fork.forked_at == sum(entry.inherited for entry in entries) - 1
    assert stored_entries(store, TREE)[fork.forked_at].text == "The test fails; I will try X."


def test_a_fork_in_a_file_of_its_own_has_copies_of_its_parent(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    fork = find(store, FORKED)
    assert (fork.parent_id, fork.relation, fork.forked_at) == (f"pi:{TREE}", "fork", 2)
    assert [entry.inherited for entry in stored_entries(store, FORKED)] == [True, True, True, False, False]
    assert (fork.turns, fork.tokens_total) == (1, 8)


def test_costs_are_counted_once(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    assert find(store, TREE).cost == pytest.approx(0.01)
    assert find(store, FORKED).cost is None


def test_a_fork_with_a_missing_parent_owns_all_its_entries(store: Store, agent_home: Path) -> None:
    transcript(agent_home, TREE).unlink()
    sync_paths(store, agent_home)
    fork = find(store, FORKED)
    assert (fork.parent_id, fork.turns) == (f"pi:{TREE}", 2)
    assert not any(entry.inherited for entry in stored_entries(store, FORKED))


def test_every_kind_of_record_is_understood(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    entries = stored_entries(store, TREE)
    by_text = {entry.text: entry for entry in entries}
    assert by_text["Add a retry"].parts == (Text("Add a retry"), Attachment("image/png", size=5))
    thinking = entries[3]
    assert thinking.parts[0] == Thinking("two files at once", "sig")
    assert thinking.tokens == Tokens(30, 9, 100, 7)
    assert (by_text["X was tried in vain."].role, by_text["2 warnings"].author) == ("system", "lint")
    assert by_text["A retry was asked for."].kind == "compaction"
    command = next(entry for entry in entries if entry.role == "user" and isinstance(entry.parts[0], ToolCall))
    assert command.parts == (
        ToolCall("e000000d", "bash", {"command": "git status"}),
        ToolResult("e000000d", "clean", False, "bash"),
    )
    assert entries[-1].kind == "unknown"
    assert isinstance(entries[-1].parts[0], Opaque)
    assert {entry.text for entry in entries if entry.kind == "event"} >= {"acme sparrow-2", "low", "before X", "lint"}


def test_parallel_calls_are_paired(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    calls = store.chains.tool_calls(find(store, TREE).key)
    assert [(call.name, call.status, call.result) for call in calls] == [
        ("read", "ok", "def upload(): ..."),
        ("bash", "error", "1 failed\n\nCommand exited with code 1"),
        ("bash", "ok", "clean"),
    ]


def test_version_1_has_no_branches(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    session = find(store, OLD)
    assert (session.turns, session.tool_calls, session.model, session.cwd) == (1, 1, "wren-0", "/w/old")
    assert stored_texts(store, OLD) == ["What is here?", "", "", "One file."]
    assert stored_entries(store, OLD)[0].created_at == "2025-11-01T10:00:01.000000Z"


def test_no_record_is_lost(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    assert read_stored_records(store) == read_transcript_lines(agent_home)


# ── changes ───────────────────────────────────────────────────────────────────────────────────────


def test_a_second_sync_writes_nothing(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    again = sync_paths(store, agent_home)
    assert (again.new, again.updated, again.unchanged) == (0, 0, 4)
    path = transcript(agent_home, OLD)
    path.touch()
    assert sync_paths(store, agent_home).updated == 1
    assert len(stored_entries(store, OLD)) == 4


def test_appended_lines_are_read(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    before = [entry.key for entry in stored_entries(store, TREE)]
    append_message(transcript(agent_home, TREE), "e0000015", "e0000014", "And now?")
    report = sync_paths(store, agent_home)
    assert (report.new, report.problems) == (0, [])
    assert [entry.key for entry in stored_entries(store, TREE)][: len(before)] == before
    assert stored_texts(store, TREE)[-1] == "And now?"


def test_appended_lines_leave_what_earlier_ones_said(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "2026-05-01T10-00-00-000Z_f1.jsonl"
    header = {"type": "session", "id": "f1", "cwd": "/w", "provider": "first", "timestamp": "2026-05-01T10:00:00.000Z"}
    answer = {"role": "assistant", "content": "Yes.", "provider": "second", "usage": {"cost": {"total": 0.25}}}
    records = [
        header,
        {"type": "session_info", "id": "a", "parentId": None, "name": "Totals"},
        {"type": "message", "id": "b", "parentId": "a", "message": {"role": "user", "content": "Is it right?"}},
        {"type": "message", "id": "c", "parentId": "b", "message": answer},
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    sync_paths(store, path)
    for identifier, parent in (("d", "c"), ("e", "d")):
        append_message(path, identifier, parent, "And now?")
        sync_paths(store, path)
    session = find(store, "f1")
    assert (session.provider, session.agent_title, session.cost) == ("second", "Totals", 0.25)


def test_a_rewind_leaves_a_fork_behind(store: Store, agent_home: Path) -> None:
    path = transcript(agent_home, TREE)
    sync_paths(store, agent_home)
    append_message(path, "e0000015", "e000000e", "No, do Z")
    sync_paths(store, agent_home)
    assert stored_texts(store, TREE)[-1] == "No, do Z"
    old_branch = find(store, f"{TREE}/e000000f")
    assert (old_branch.parent_id, old_branch.relation) == (f"pi:{TREE}", "fork")
    assert "Y is done." in stored_texts(store, old_branch.native_id)


def test_a_last_line_that_is_still_being_written_waits(store: Store, agent_home: Path) -> None:
    path = transcript(agent_home, OLD)
    content = path.read_bytes()
    path.write_bytes(content + b'{"type":"message","message":{"role":"us')
    assert sync_paths(store, agent_home).problems == []
    assert len(stored_entries(store, OLD)) == 4
    path.write_bytes(content + b'{"type":"message","message":{"role":"user","content":"whole"}}\n')
    sync_paths(store, agent_home)
    assert stored_texts(store, OLD)[-1] == "whole"


# ── resume ────────────────────────────────────────────────────────────────────────────────────────


def test_resume_names_the_whole_id(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    command = pi.resume(find(store, TREE))
    assert (command.argv, command.cwd) == (("pi", "--session", TREE), "/w/app")
    old_branch = pi.resume(find(store, BRANCH))
    assert old_branch.argv is None
    assert "/tree" in old_branch.hint


# ── bad input ─────────────────────────────────────────────────────────────────────────────────────


def test_a_bad_line_is_one_problem_and_no_branch(store: Store, agent_home: Path) -> None:
    path = transcript(agent_home, TREE)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = b"\xff\x00 rubbish\n"
    path.write_bytes(b"".join(lines))
    report = sync_paths(store, agent_home)
    assert [problem.where for problem in report.problems] == [f"{path}:{sum(map(len, lines[:4]))}"]
    assert find(store, TREE).turns == 2


def test_a_missing_header_and_a_file_without_messages(store: Store, agent_home: Path) -> None:
    path = transcript(agent_home, OLD)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    (path.parent / "2025_x.jsonl").write_text('{"type":"other"}\n')
    report = sync_paths(store, agent_home)
    assert [problem.reason for problem in report.problems] == ["It has no messages."]
    assert find(store, OLD).turns == 1


def test_two_files_of_one_session_are_one_session(store: Store, agent_home: Path) -> None:
    path = transcript(agent_home, OLD)
    shutil.copy(path, path.with_name(f"2027_{OLD}.jsonl"))
    report = sync_paths(store, agent_home)
    assert len(report.problems) == 1
    assert find(store, OLD).turns == 1


@given(data=st.data())
def test_a_damaged_transcript_does_not_affect_others(data: st.DataObject, tmp_path: Path) -> None:
    folder = tmp_path / "fuzzed"
    shutil.copytree(SAMPLE, folder, dirs_exist_ok=True)
    path = transcript(folder, data.draw(st.sampled_from([TREE, FORKED])))
    path.write_bytes(data.draw(corrupted_lines(transcript(SAMPLE, path.stem.rpartition("_")[2]).read_bytes())))
    assert OLD in read_all_sessions(pi, folder)
