"""Codex's rollouts: everything stands twice and is told once, in each of the shapes that were in use."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard
from foreign_databases import stored_entries, stored_texts, sync_paths
from hypothesis import given
from hypothesis import strategies as st
from stored_records import read_stored_records
from transcript_fuzzer import corrupted_lines, read_all_sessions

from store.model.entry import Attachment, Opaque, Thinking, ToolCall
from store.model.session import Session
from store.sources.codex.source import Codex
from store.store import Store
from store.sync.targets import find_targets

codex = Codex()

SAMPLE = Path(__file__).parents[1] / "data/codex"
TWICE, COPY, PAGED, REFERRING, REVERTED, AGENT, OLDEST, SHOWN = (
    f"0a000000-0000-7000-8000-00000000000{n}" for n in range(8)
)


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "codex"))


@pytest.fixture
def read(store: Store, owner: Path) -> Store:
    assert sync_paths(store, owner).problems == []
    return store


def rollout(owner: Path, thread: str) -> Path:
    return min(owner.rglob(f"rollout-*-{thread}*.jsonl"))


def say(path: Path, *payloads: dict[str, Any], kind: str = "response_item") -> None:
    with path.open("a") as file:
        for payload in payloads:
            file.write(json.dumps({"timestamp": "2026-05-09T10:00:00Z", "type": kind, "payload": payload}) + "\n")


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def find(store: Store, thread: str) -> Session:
    return store.sessions.get(f"codex:{thread}")


def prompts(store: Store, thread: str) -> list[str]:
    return [turn.prompt for turn in store.chains.turns(find(store, thread).key) if turn.n]


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


def test_it_is_found_where_codex_keeps_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SAMPLE, home / ".codex")
    (target,) = find_targets(source_name="codex")
    assert target.locator == str(home / ".codex")
    monkeypatch.setenv("CODEX_HOME", str(home / "elsewhere"))
    assert find_targets(source_name="codex") == []


def test_a_folder_of_rollouts_or_one_will_do(store: Store, owner: Path, tmp_path: Path) -> None:
    assert sync_paths(store, owner / "sessions/2026/05/03").seen == 1
    renamed = Path(shutil.copy(rollout(owner, PAGED), tmp_path / "kept.jsonl"))
    report = sync_paths(store, renamed)
    assert (report.source, report.seen) == ("codex", 1)


def test_every_line_is_kept_and_a_second_sync_writes_nothing(read: Store, owner: Path) -> None:
    written = {line for path in owner.rglob("rollout-*.jsonl") for line in path.read_bytes().splitlines()}
    assert read_stored_records(read) >= written
    before = read.connection.total_changes
    assert sync_paths(read, owner).unchanged == 10
    assert read.connection.total_changes == before


# ── what was said ─────────────────────────────────────────────────────────────────────────────────


def test_each_prompt_is_told_once_and_what_codex_injects_is_none(read: Store) -> None:
    assert prompts(read, TWICE) == ["Fix the test", "Ask somebody", "Go on"]
    assert prompts(read, PAGED) == ["First of all", "Second thing"]
    assert prompts(read, OLDEST) == ["An old prompt"]


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("<environment_context>\n<cwd>/</cwd>\n</environment_context>", None),
        ("# AGENTS.md instructions for /w\n\nno end", None),
        ("<turn_aborted>\nInterrupted.\n</turn_aborted>", None),
        ("<skill>\n<name>x</name>\n</skill>\nDo x", "Do x"),
        ("# Context from my IDE setup:\n\n## Open tabs\n- a.py\n\n## My request for Codex:\nDo it\n", "Do it"),
        ("<div> is what I typed", "<div> is what I typed"),
    ],
)
def test_injected_or_typed(store: Store, owner: Path, text: str, typed: str | None) -> None:
    say(rollout(owner, PAGED), user(text))
    sync_paths(store, owner)
    assert prompts(store, PAGED)[2:] == ([typed] if typed else [])


def test_answers_and_thoughts_come_from_the_items(read: Store) -> None:
    spoken = [entry for entry in stored_entries(read, TWICE) if entry.kind == "message" and entry.role == "assistant"]
    assert [type(entry.parts[0]) for entry in spoken[:3]] == [Thinking, ToolCall, ToolCall]
    assert len({entry.message_key for entry in spoken[:3]}) == 1
    assert [entry.text for entry in spoken if entry.text] == ["Fixed.", "Asked."]
    assert {entry.model for entry in spoken} == {"gpt-5-codex"}


def test_a_rollout_without_items_is_told_by_its_events(read: Store) -> None:
    assert stored_texts(read, SHOWN)[1:] == ["Only shown", "", "Seen."]
    assert prompts(read, SHOWN) == ["Only shown"]


def test_calls_end_as_events_or_outputs_tell(read: Store) -> None:
    calls = read.chains.tool_calls(find(read, TWICE).key)
    assert [(call.call_id, call.status, call.duration_ms) for call in calls[:3]] == [
        ("call_1", "error", 1500.0),
        ("call_2", "ok", 100.0),
        ("call_3", "error", None),
    ]
    assert calls[0].result.startswith("1 failed, and much more")
    assert calls[1].result == "a.py"
    (paged,) = read.chains.tool_calls(find(read, PAGED).key)
    assert (paged.status, paged.duration_ms) == ("error", 2.0)
    (oldest,) = read.chains.tool_calls(find(read, OLDEST).key)
    assert (oldest.name, oldest.status) == ("local_shell", "error")


def test_tokens_are_counted_once_and_without_the_cached(read: Store) -> None:
    session, paged = find(read, TWICE), find(read, PAGED)
    assert (session.tokens_input, session.tokens_output, session.tokens_cached) == (240, 70, 60)
    assert (paged.tokens_input, paged.tokens_output, paged.tokens_cached) == (16, 10, 4)


def test_pictures_are_set_aside_and_the_unknown_is_kept(read: Store) -> None:
    *_, drawn, searched, item, line = stored_entries(read, TWICE)
    assert drawn.parts[-1] == Attachment("image/png", "", 6)
    assert isinstance(searched.parts[0], ToolCall)
    assert isinstance(item.parts[0], Opaque)
    assert (line.kind, isinstance(line.parts[0], Opaque)) == ("unknown", True)


def test_a_compaction_is_a_summary_of_what_came_before(read: Store) -> None:
    summary = read.summaries.current(find(read, TWICE))
    assert summary is not None
    assert (summary.text, summary.up_to_turn) == ("They fixed a test.", 2)


def test_about_the_session(read: Store) -> None:
    session, oldest = find(read, TWICE), find(read, OLDEST)
    assert (session.cwd, session.provider, session.channel) == ("/w/app", "openai", "cli")
    assert session.system_prompt == "You are a coding agent."
    assert (oldest.cwd, oldest.archived, oldest.system_prompt) == ("/w/old", 1, "Be kind.")
    assert oldest.created_at == "2025-05-01T10:00:00.000000Z"


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def test_names_come_from_the_index_or_the_database(store: Store, owner: Path) -> None:
    sync_paths(store, owner)
    assert find(store, TWICE).title == "Tests fixed"
    assert find(store, PAGED).title == "First of all"
    with closing(sqlite3.connect(owner / "state_5.sqlite")) as database:
        database.execute("create table threads (id text, name text, title text, first_user_message text, archived)")
        rows = [(PAGED, "By name", "First of all", "First of all", 0), (REFERRING, None, "A title", "Forked thing", 1)]
        database.executemany("insert into threads values (?, ?, ?, ?, ?)", rows)
        database.commit()
    (owner / "state_4.sqlite").write_bytes(b"older, and broken")
    report = sync_paths(store, owner)
    assert (report.updated, report.problems) == (2, [])
    assert (find(store, PAGED).title, find(store, REFERRING).title) == ("By name", "A title")
    assert find(store, REFERRING).archived
    assert sync_paths(store, owner).updated == 0


# ── forks, reverts, sub-agents ────────────────────────────────────────────────────────────────────


def test_what_was_rolled_back_is_a_fork(read: Store) -> None:
    fork = find(read, f"{TWICE}/25")
    assert (fork.relation, fork.parent_id, fork.forked_at) == ("fork", f"codex:{TWICE}", 24)
    assert (fork.title, fork.turns, fork.model) == ("Break it", 1, "gpt-5-mini")
    assert "Break it" not in stored_texts(read, TWICE)


def test_a_fork_that_copied_its_past(read: Store) -> None:
    fork = find(read, COPY)
    assert (fork.relation, fork.parent_id, fork.forked_at) == ("fork", f"codex:{TWICE}", 20)
    assert stored_entries(read, TWICE)[20].text == "Fixed."
    assert (fork.turns, fork.tool_calls, fork.tokens_input) == (1, 0, 80)
    assert prompts(read, COPY) == ["Fix the test", "Another way"]


def test_a_fork_that_refers_to_its_past(read: Store) -> None:
    fork = find(read, REFERRING)
    assert (fork.parent_id, fork.forked_at, fork.turns) == (f"codex:{PAGED}", 12, 1)
    assert prompts(read, REFERRING) == ["First of all", "Forked thing"]
    assert (fork.tool_calls, fork.tokens_input) == (0, 8)


def test_a_reverted_thread_is_one_session_and_what_it_left_a_fork(read: Store) -> None:
    session, left = find(read, REVERTED), find(read, f"{REVERTED}/{REVERTED}")
    assert prompts(read, REVERTED) == ["Keep this", "Do this instead"]
    assert (session.turns, session.created_at) == (2, "2026-05-05T10:00:00.000000Z")
    assert (left.parent_id, left.forked_at, left.title, left.turns) == (session.id, 8, "Drop this", 1)


def test_a_sub_agent_hangs_on_the_call_that_spawned_it(read: Store) -> None:
    agent = find(read, AGENT)
    assert (agent.relation, agent.parent_id, agent.channel) == ("delegate", f"codex:{TWICE}", "subagent")
    (call,) = stored_entries(read, TWICE)[agent.forked_at or 0].parts
    assert isinstance(call, ToolCall)
    assert call.name == "spawn_agent"


def test_a_sub_agent_that_copied_its_parent_counts_only_its_own(store: Store, owner: Path) -> None:
    path = rollout(owner, AGENT)
    meta, *own = path.read_text().splitlines()
    copied = rollout(owner, TWICE).read_text().splitlines()[:7]
    about = json.loads(meta)
    about["payload"]["subagent_history_start_ordinal"] = len(copied) + 1
    path.write_text("\n".join([json.dumps(about), *copied, *own]) + "\n")
    sync_paths(store, owner)
    assert (prompts(store, AGENT), find(store, AGENT).turns) == (["Fix the test", "Look it up"], 1)


# ── growing, and what is wrong ────────────────────────────────────────────────────────────────────


def test_what_is_appended_comes_in_but_not_half_a_line(store: Store, owner: Path) -> None:
    sync_paths(store, owner)
    say(rollout(owner, PAGED), user("Third"))
    with rollout(owner, PAGED).open("a") as file:
        file.write('{"timestamp":"2026-05-09T10:00:00Z","type":"response')
    report = sync_paths(store, owner)
    assert (report.problems, prompts(store, PAGED)[-1]) == ([], "Third")


def test_a_packed_rollout_is_the_same_session(store: Store, owner: Path) -> None:
    sync_paths(store, owner)
    path = rollout(owner, TWICE)
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    assert sync_paths(store, owner).problems == []
    path.unlink()
    before = len(stored_texts(store, TWICE))
    report = sync_paths(store, owner)
    assert (report.new, report.problems, len(stored_texts(store, TWICE))) == (0, [], before)
    assert not find(store, TWICE).gone


def test_a_packed_rollout_that_is_damaged_is_a_problem(store: Store, owner: Path) -> None:
    path = rollout(owner, PAGED)
    packed = zstandard.ZstdCompressor().compress(path.read_bytes())
    path.with_name(path.name + ".zst").write_bytes(packed[:-40] + b"rubbish" * 5)
    path.unlink()
    report = sync_paths(store, owner)
    assert all("zst" in problem.where for problem in report.problems)
    assert prompts(store, TWICE)


def test_a_thread_moved_to_the_archive_stays_one(store: Store, owner: Path) -> None:
    sync_paths(store, owner)
    path = rollout(owner, PAGED)
    path.rename(owner / "archived_sessions" / path.name)
    report = sync_paths(store, owner)
    assert (report.new, find(store, PAGED).archived, len(prompts(store, PAGED))) == (0, 1, 2)


def test_a_bad_line_is_one_problem(store: Store, owner: Path) -> None:
    path = rollout(owner, PAGED)
    first, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(first + b"\n\xff\x00rubbish\n" + rest)
    (problem,) = sync_paths(store, owner).problems
    assert problem.where == f"{path}:{len(first) + 1}"
    assert len(prompts(store, PAGED)) == 2


def test_resume(read: Store) -> None:
    resumed = codex.resume(find(read, TWICE))
    assert (resumed.argv, resumed.cwd) == (("codex", "resume", TWICE), "/w/app")
    left = codex.resume(find(read, f"{TWICE}/25"))
    assert left.argv is None
    assert left.hint


@given(data=st.data())
def test_whatever_stands_in_a_rollout(tmp_path: Path, data: st.DataObject) -> None:
    owner = tmp_path / "fuzzed"
    shutil.rmtree(owner, ignore_errors=True)
    shutil.copytree(SAMPLE, owner)
    path = data.draw(st.sampled_from(sorted(owner.rglob("*.jsonl"))))
    path.write_bytes(data.draw(corrupted_lines(path.read_bytes())))
    neighbour = SHOWN if SHOWN not in path.name else OLDEST
    assert neighbour in read_all_sessions(codex, owner)
