"""These tests read transcripts of Qwen Code: the tree of records, and failures that only the output reveals."""

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
from store.sources.qwen.source import Qwen
from store.store import Store
from store.sync.targets import find_targets

qwen = Qwen()

SAMPLE = Path(__file__).parents[1] / "data/qwen"
TREE, PLAIN = "aaaa5555-0000-4000-8000-000000000001", "bbbb6666-0000-4000-8000-000000000002"
HOOK = "<qwen:user-prompt-submit-context>\nA hook adds this.\n</qwen:user-prompt-submit-context>"
BRANCH = f"{TREE}/v1"


@pytest.fixture
def agent_home(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / ".qwen"))


def transcript(agent_home: Path, session_id: str) -> Path:
    return agent_home / f"projects/-w-app/chats/{session_id}.jsonl"


def find(store: Store, session_id: str) -> Session:
    return store.sessions.find(session_id)


def append_record(path: Path, uuid: str, parent: str, **fields: Any) -> None:
    record = {"uuid": uuid, "parentUuid": parent, "sessionId": path.stem, "timestamp": "2026-05-02T10:00:00.000Z"}
    message = {"type": "user", "message": {"role": "user", "parts": [{"text": uuid}]}}
    with path.open("a") as file:
        file.write(json.dumps(record | message | fields) + "\n")


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


def test_it_is_found_where_qwen_keeps_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SAMPLE, home / ".qwen")
    (target,) = find_targets(source_name="qwen")
    assert target.locator == str(home / ".qwen")
    (home / ".qwen/settings.json").write_text('{"advanced": {"runtimeOutputDir": "~/set"}}')
    assert list(qwen.roots()) == [str(home / "set")]
    monkeypatch.setenv("QWEN_HOME", str(home / "other"))
    assert list(qwen.roots()) == [str(home / "other")]
    monkeypatch.setenv("QWEN_RUNTIME_DIR", str(home / "run"))
    assert list(qwen.roots()) == [str(home / "run")]


def test_records_of_claude_code_are_not_detected(agent_home: Path, tmp_path: Path) -> None:
    assert qwen.detect(str(agent_home))
    assert qwen.detect(str(transcript(agent_home, PLAIN)))
    claude = {"uuid": "u", "parentUuid": None, "sessionId": "s", "type": "user", "message": {"content": "hi"}}
    (tmp_path / "s.jsonl").write_text(json.dumps(claude) + "\n")
    assert not qwen.detect(str(tmp_path / "s.jsonl"))


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("parts", "payload", "prompt"),
    [
        (["Expanded @file", HOOK], {"displayText": "Explain @file", "hookContext": "ctx"}, "Explain @file"),
        (["Explain it", HOOK], {"displayText": "Explain it"}, "Explain it"),
        (["Explain it", HOOK], None, "Explain it"),
        (["What is <qwen:user-prompt-submit-context>?"], None, "What is <qwen:user-prompt-submit-context>?"),
        ([HOOK], None, None),
    ],
    ids=["expanded", "displayed", "no payload", "typed tag", "only the hook"],
)
def test_what_a_hook_adds_is_no_part_of_the_prompt(
    store: Store, agent_home: Path, parts: list[str], payload: dict[str, Any] | None, prompt: str | None
) -> None:
    message = {"role": "user", "parts": [{"text": text} for text in parts]}
    append_record(transcript(agent_home, PLAIN), "h1", "x2", message=message, systemPayload=payload)
    sync_paths(store, agent_home)
    prompts = [turn.prompt for turn in store.chains.turns(find(store, PLAIN).key)][1:]
    assert prompts == ["Hello", *([prompt] if prompt else [])]


def test_the_branch_in_use_is_the_session(store: Store, agent_home: Path) -> None:
    assert sync_paths(store, agent_home).problems == []
    session = find(store, TREE)
    assert (session.title, session.cwd, session.model) == ("Listing in German", "/w/app", "coder-2")
    assert (session.turns, session.tool_calls, session.errors) == (2, 3, 2)
    assert [turn.prompt for turn in store.chains.turns(session.key)][1:] == ["List files", "In German"]
    assert "En français." not in stored_texts(store, TREE)
    assert find(store, PLAIN).title == "Hello"


def test_tokens_are_counted_once(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    counted = [entry.tokens for entry in stored_entries(store, TREE) if entry.tokens]
    assert counted == [Tokens(60, 25, 40), Tokens(150, 30, 0), Tokens(20, 4, 0), Tokens(30, 6, 0)]


def test_parallel_calls_have_their_results_failures_and_durations(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    calls = store.chains.tool_calls(find(store, TREE).key)
    assert [(call.call_id, call.status, call.duration_ms) for call in calls] == [
        ("c1", "ok", 12),
        ("c2", "error", 31),
        ("c3", "error", 1000),
    ]


def test_every_kind_of_record_is_understood(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    entries = stored_entries(store, TREE)
    assert entries[0].parts == (Text("List files"), Attachment("image/png", size=5))
    assert entries[3].parts[0] == Thinking("two commands")
    by_text = {entry.text: entry for entry in entries}
    assert (by_text["Nightly"].role, by_text["Nightly"].author) == ("user", "cron")
    assert by_text["Files were listed."].kind == "compaction"
    assert isinstance(entries[-1].parts[0], Opaque)
    assert by_text["ui_telemetry"].kind == "event"


def test_an_old_branch_is_a_fork(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    fork = find(store, BRANCH)
    assert (fork.parent_id, fork.relation, fork.turns) == (f"qwen:{TREE}", "fork", 1)
    assert [entry.text for entry in stored_entries(store, BRANCH) if not entry.inherited] == [
        "In French",
        "En français.",
    ]
    assert fork.forked_at is not None
    assert stored_entries(store, TREE)[fork.forked_at].text == "One of them failed."


def test_text_typed_during_a_turn_is_a_prompt_and_an_agents_is_not(store: Store, agent_home: Path) -> None:
    path = transcript(agent_home, PLAIN)
    append_record(path, "y1", "x2", subtype="mid_turn_user_message")
    append_record(path, "y2", "y1", provenance="goal_runtime")
    append_record(path, "y3", "y2", subtype="notification")
    sync_paths(store, agent_home)
    assert [turn.prompt for turn in store.chains.turns(find(store, PLAIN).key)][1:] == ["Hello", "y1"]


def test_no_record_is_lost(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    assert read_stored_records(store) >= read_transcript_lines(agent_home)


# ── changes ───────────────────────────────────────────────────────────────────────────────────────


def test_a_second_sync_writes_nothing_and_appended_lines_are_read(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    again = sync_paths(store, agent_home)
    assert (again.new, again.updated, again.unchanged) == (0, 0, 3)
    before = [entry.key for entry in stored_entries(store, PLAIN)]
    append_record(transcript(agent_home, PLAIN), "more", "x2")
    sync_paths(store, agent_home)
    after = stored_entries(store, PLAIN)
    assert [entry.key for entry in after][:-1] == before
    assert after[-1].text == "more"


def test_resume_runs_in_the_sessions_folder(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    command = qwen.resume(find(store, TREE))
    assert (command.argv, command.cwd) == (("qwen", "--resume", TREE), "/w/app")
    old_branch = qwen.resume(find(store, BRANCH))
    assert old_branch.argv is None
    assert TREE in old_branch.hint


# ── bad input ─────────────────────────────────────────────────────────────────────────────────────


def test_a_bad_line_is_one_problem_and_no_branch(store: Store, agent_home: Path) -> None:
    path = transcript(agent_home, TREE)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b"\x80\x81\n"
    path.write_bytes(b"".join(lines))
    report = sync_paths(store, agent_home)
    assert len(report.problems) == 1
    assert find(store, TREE).turns == 2


@given(data=st.data())
def test_a_damaged_transcript_does_not_affect_others(data: st.DataObject, tmp_path: Path) -> None:
    folder = tmp_path / "fuzzed"
    shutil.copytree(SAMPLE, folder, dirs_exist_ok=True)
    transcript(folder, TREE).write_bytes(data.draw(corrupted_lines(transcript(SAMPLE, TREE).read_bytes())))
    assert PLAIN in read_all_sessions(qwen, folder)
