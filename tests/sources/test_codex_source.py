"""These tests read rollouts of Codex, in every format ever used. Each message is written twice and stored once."""

from __future__ import annotations

import json
import random
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import zstandard
from foreign_databases import execute_sql, stored_entries, stored_texts, sync_paths
from hypothesis import given
from hypothesis import strategies as st
from stored_records import read_stored_records
from transcript_fuzzer import corrupted_lines, read_all_sessions

from store.conversations.timeline import Timelines
from store.model.entry import Attachment, NewEntry, Opaque, Thinking, ToolCall
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
def agent_home(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "codex"))


@pytest.fixture
def synced(store: Store, agent_home: Path) -> Store:
    assert sync_paths(store, agent_home).problems == []
    return store


def rollout(agent_home: Path, thread: str) -> Path:
    return min(agent_home.rglob(f"rollout-*-{thread}*.jsonl"))


def append_lines(path: Path, *payloads: dict[str, Any], kind: str = "response_item") -> None:
    with path.open("a") as file:
        for payload in payloads:
            line = {"timestamp": "2026-05-09T10:00:00Z", "type": kind, "payload": payload}
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


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


def test_a_folder_or_a_single_rollout_can_be_synced(store: Store, agent_home: Path, tmp_path: Path) -> None:
    assert sync_paths(store, agent_home / "sessions/2026/05/03").seen == 1
    single = Path(shutil.copy(rollout(agent_home, PAGED), tmp_path / "kept.jsonl"))
    report = sync_paths(store, single)
    assert (report.source, report.seen) == ("codex", 1)


def test_every_line_is_kept_and_a_second_sync_writes_nothing(synced: Store, agent_home: Path) -> None:
    written = {line for path in agent_home.rglob("rollout-*.jsonl") for line in path.read_bytes().splitlines()}
    assert read_stored_records(synced) >= written
    before = synced.connection.total_changes
    assert sync_paths(synced, agent_home).unchanged == 10
    assert synced.connection.total_changes == before


# ── entries ───────────────────────────────────────────────────────────────────────────────────────


def test_each_prompt_is_stored_once_and_injected_text_is_none(synced: Store) -> None:
    assert prompts(synced, TWICE) == ["Fix the test", "Ask somebody", "Go on"]
    assert prompts(synced, PAGED) == ["First of all", "Second thing"]
    assert prompts(synced, OLDEST) == ["An old prompt"]


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("<environment_context>\n<cwd>/</cwd>\n</environment_context>", None),
        ("# AGENTS.md instructions for /w\n\nno end", None),
        ("<turn_aborted>\nInterrupted.\n</turn_aborted>", None),
        ("<skill>\n<name>x</name>\n</skill>\nDo x", "Do x"),
        ("# Context from my IDE setup:\n\n## Open tabs\n- a.py\n\n## My request for Codex:\nDo it\n", "Do it"),
        ("<div> is what I typed", "<div> is what I typed"),
        ("<user_action>\n<context>A review.</context>\n<action>review</action>\n</user_action>", None),
        ("<realtime_delegation>\n  <input>hello</input>\n</realtime_delegation>", None),
        ("<external_notes>\nSaid elsewhere.\n</external_notes>", None),
        ("<external_notes>\nSaid elsewhere.\n</external_notes>\nUse them", "Use them"),
        ("<external_link> is what I typed", "<external_link> is what I typed"),
        ("Warning: apply_patch was requested via exec_command. Use the apply_patch tool instead.", None),
        ("Warning: Your account was flagged for potentially high-risk cyber activity.", None),
        ("Warning: The maximum number of unified exec processes you can keep open is 60.", None),
        ("Warning: this is what I typed", "Warning: this is what I typed"),
        (
            "Warning: apply_patch was requested via shell.\nWhat does that mean?",
            "Warning: apply_patch was requested via shell.\nWhat does that mean?",
        ),
    ],
)
def test_injected_or_typed(store: Store, agent_home: Path, text: str, typed: str | None) -> None:
    append_lines(rollout(agent_home, PAGED), user(text))
    sync_paths(store, agent_home)
    assert prompts(store, PAGED)[2:] == ([typed] if typed else [])


# ── prompts with and without an event ─────────────────────────────────────────────────────────────


def shown(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "user_message", "message": text, **more}


def answer(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


META = {"id": TWICE, "timestamp": "2026-05-09T09:00:00Z", "cwd": "/w", "originator": "codex_cli_rs"}
PICTURE = {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}
LINES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("session_meta", META),
    ("response_item", user("<news_of_tomorrow>\nInjected by a version to come.\n</news_of_tomorrow>")),
    ("response_item", user("Fix it")),
    ("event_msg", shown("Fix it")),
    ("response_item", answer("Fixed.")),
    ("response_item", user("A note of the program, in the user's name")),
    ("response_item", answer("Noted.")),
    ("response_item", PICTURE),
    ("event_msg", shown("", images=["data:,"])),
    ("response_item", answer("Seen.")),
    ("response_item", user("Fix it")),
    ("event_msg", shown("Fix it")),
    ("response_item", answer("Again.")),
)


def write_rollout(home: Path, *lines: tuple[str, dict[str, Any]]) -> Path:
    path = home / f"sessions/2026/05/09/rollout-2026-05-09T09-00-00-{TWICE}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    for kind, payload in lines:
        append_lines(path, payload, kind=kind)
    return path


def test_where_prompts_have_events_an_item_without_one_is_no_prompt(store: Store, tmp_path: Path) -> None:
    write_rollout(tmp_path, *LINES)
    sync_paths(store, tmp_path)
    assert prompts(store, TWICE) == ["Fix it", "", "Fix it"]
    assert [found.prompts for found in codex.quick_read(str(tmp_path), ())] == [["Fix it", "", "Fix it"]]


def test_without_events_every_item_of_the_user_is_a_prompt(store: Store, tmp_path: Path) -> None:
    write_rollout(tmp_path, *(line for line in LINES if line[0] != "event_msg"))
    sync_paths(store, tmp_path)
    assert len(prompts(store, TWICE)) == 5


@pytest.mark.parametrize("cut", range(2, len(LINES)))
def test_prompts_are_the_same_in_however_many_steps_a_rollout_is_read(store: Store, tmp_path: Path, cut: int) -> None:
    path = write_rollout(tmp_path, *LINES[:cut])
    sync_paths(store, tmp_path)
    for kind, payload in LINES[cut:]:
        append_lines(path, payload, kind=kind)
    sync_paths(store, tmp_path)
    assert prompts(store, TWICE) == ["Fix it", "", "Fix it"]


def test_a_rollback_counts_only_what_was_typed(store: Store, tmp_path: Path) -> None:
    write_rollout(tmp_path, *LINES, ("event_msg", {"type": "thread_rolled_back", "num_turns": 2}))
    sync_paths(store, tmp_path)
    assert prompts(store, TWICE) == ["Fix it"]


def test_answers_and_thoughts_come_from_the_items(synced: Store) -> None:
    messages = [
        entry for entry in stored_entries(synced, TWICE) if entry.kind == "message" and entry.role == "assistant"
    ]
    assert [type(entry.parts[0]) for entry in messages[:3]] == [Thinking, ToolCall, ToolCall]
    assert len({entry.message_key for entry in messages[:3]}) == 1
    assert [entry.text for entry in messages if entry.text] == ["Fixed.", "Asked."]
    assert {entry.model for entry in messages} == {"gpt-5-codex"}


def test_a_rollout_without_items_is_read_from_its_events(synced: Store) -> None:
    assert stored_texts(synced, SHOWN)[1:] == ["Only shown", "", "Seen."]
    assert prompts(synced, SHOWN) == ["Only shown"]


def test_the_outcome_of_a_call_comes_from_events_or_outputs(synced: Store) -> None:
    calls = synced.chains.tool_calls(find(synced, TWICE).key)
    assert [(call.call_id, call.status, call.duration_ms) for call in calls[:3]] == [
        ("call_1", "error", 1500.0),
        ("call_2", "ok", 100.0),
        ("call_3", "error", 1000.0),
    ]
    assert calls[0].result.startswith("1 failed, and much more")
    assert calls[1].result == "a.py"
    (paged,) = synced.chains.tool_calls(find(synced, PAGED).key)
    assert (paged.status, paged.duration_ms) == ("error", 2.0)
    (oldest,) = synced.chains.tool_calls(find(synced, OLDEST).key)
    assert (oldest.name, oldest.status) == ("local_shell", "error")


# ── how long calls took ───────────────────────────────────────────────────────────────────────────


def call(call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": call_id}


def result(call_id: str, output: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def at(second: int, payload: dict[str, Any], kind: str = "response_item") -> str:
    time = f"2026-05-09T09:00:{second:02}.500Z"
    return json.dumps({"timestamp": time, "type": kind, "payload": payload}, separators=(",", ":")) + "\n"


def durations(store: Store) -> dict[str, float | None]:
    sql = "select call_id, duration_ms from tool_calls where session = ?"
    return dict(store.rows(sql, find(store, TWICE).key))


HEAD = "Chunk ID: 1\nWall time: {} seconds\nProcess exited with code 0\nOutput:\n"
CALLS = [
    at(0, META, "session_meta"),
    at(1, user("Run them")),
    at(2, call("wall")),
    at(7, result("wall", HEAD.format("1.25") + "Wall time: 9 seconds")),
    at(8, call("blocks")),
    at(9, result("blocks", [{"type": "input_text", "text": HEAD.format("0.0000")}])),
    at(10, call("times")),
    at(14, result("times", "Wall time: 1 seconds is what it printed")),
    at(15, call("event")),
    at(16, {"type": "exec_command_end", "call_id": "event", "duration": {"secs": 3, "nanos": 0}}, "event_msg"),
    at(17, result("event", HEAD.format("1.0"))),
    at(18, call("first")),
    at(19, call("second")),
    at(22, result("second", "x")),
    at(24, result("first", "x")),
    at(25, call("copied")),
    at(25, result("copied", "x")),
    at(26, call("open")),
]
DURATIONS = {
    "wall": 1250,
    "blocks": 0,
    "times": 4000,
    "event": 3000,
    "first": 6000,
    "second": 3000,
    "copied": None,
    "open": None,
}


@pytest.mark.parametrize("cut", [len(CALLS), *range(2, len(CALLS), 2)])
def test_a_call_took_what_codex_says_or_the_time_until_its_result(store: Store, tmp_path: Path, cut: int) -> None:
    path = write_rollout(tmp_path)
    path.write_text("".join(CALLS[:cut]))
    sync_paths(store, tmp_path)
    with path.open("a") as file:
        file.writelines(CALLS[cut:])
    sync_paths(store, tmp_path)
    assert durations(store) == DURATIONS


def test_tokens_are_counted_once_and_without_the_cached(synced: Store) -> None:
    session, paged = find(synced, TWICE), find(synced, PAGED)
    assert (session.tokens_input, session.tokens_output, session.tokens_cached) == (240, 70, 60)
    assert (paged.tokens_input, paged.tokens_output, paged.tokens_cached) == (16, 10, 4)


def test_images_become_attachments_and_unknown_items_are_kept(synced: Store) -> None:
    *_, image_entry, search_entry, unknown_item, unknown_line = stored_entries(synced, TWICE)
    assert image_entry.parts[-1] == Attachment("image/png", "", 6)
    assert isinstance(search_entry.parts[0], ToolCall)
    assert isinstance(unknown_item.parts[0], Opaque)
    assert (unknown_line.kind, isinstance(unknown_line.parts[0], Opaque)) == ("unknown", True)


def test_a_compaction_is_a_summary_of_what_came_before(synced: Store) -> None:
    summary = synced.summaries.current(find(synced, TWICE))
    assert summary is not None
    assert (summary.text, summary.up_to_turn) == ("They fixed a test.", 2)


def test_session_fields(synced: Store) -> None:
    session, oldest = find(synced, TWICE), find(synced, OLDEST)
    assert (session.cwd, session.provider, session.channel) == ("/w/app", "openai", "cli")
    assert session.system_prompt == "You are a coding agent."
    assert (oldest.cwd, oldest.archived, oldest.system_prompt) == ("/w/old", 1, "Be kind.")
    assert oldest.created_at == "2025-05-01T10:00:00.000000Z"


def test_a_header_shows_the_system_prompt_which_is_stored_once(synced: Store) -> None:
    session = find(synced, TWICE)
    (header,) = synced.chains.entries(session.key, last=-1)
    assert (header.kind, header.text) == ("header", "You are a coding agent.")
    assert synced.row("select text from entries where key = ?", header.key) == ("",)
    assert [seq for _, seq in Timelines(synced).find_text(session.key, re.compile("coding agent"))] == [-1]


@pytest.mark.parametrize("has_header", [True, False])
def test_a_header_with_a_text_of_its_own_follows_a_new_system_prompt(synced: Store, has_header: bool) -> None:
    session = find(synced, TWICE)
    execute_sql(synced.path, "update entries set text = 'As version 0.1.0 stored it.' where seq = -1")
    synced.sessions.complete_header(session, NewEntry(kind="header") if has_header else None, {})
    assert synced.chains.entry(session.key, -1).text == "As version 0.1.0 stored it."
    synced.sessions.complete_header(session, None, {"system_prompt": session.system_prompt})
    assert synced.chains.entry(session.key, -1).text == "You are a coding agent."


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def test_names_come_from_the_index_or_the_database(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    assert find(store, TWICE).title == "Tests fixed"
    assert find(store, PAGED).title == "First of all"
    with closing(sqlite3.connect(agent_home / "state_5.sqlite")) as database:
        database.execute("create table threads (id text, name text, title text, first_user_message text, archived)")
        rows = [(PAGED, "By name", "First of all", "First of all", 0), (REFERRING, None, "A title", "Forked thing", 1)]
        database.executemany("insert into threads values (?, ?, ?, ?, ?)", rows)
        database.commit()
    (agent_home / "state_4.sqlite").write_bytes(b"older, and broken")
    report = sync_paths(store, agent_home)
    assert (report.updated, report.problems) == (2, [])
    assert (find(store, PAGED).title, find(store, REFERRING).title) == ("By name", "A title")
    assert find(store, REFERRING).archived
    assert sync_paths(store, agent_home).updated == 0


# ── forks, reverts, sub-agents ────────────────────────────────────────────────────────────────────


def test_a_rolled_back_branch_is_a_fork(synced: Store) -> None:
    fork = find(synced, f"{TWICE}/25")
    assert (fork.relation, fork.parent_id, fork.forked_at) == ("fork", f"codex:{TWICE}", 24)
    assert (fork.title, fork.turns, fork.model) == ("Break it", 1, "gpt-5-mini")
    assert "Break it" not in stored_texts(synced, TWICE)


def test_a_fork_that_copied_its_past(synced: Store) -> None:
    fork = find(synced, COPY)
    assert (fork.relation, fork.parent_id, fork.forked_at) == ("fork", f"codex:{TWICE}", 20)
    assert stored_entries(synced, TWICE)[20].text == "Fixed."
    assert (fork.turns, fork.tool_calls, fork.tokens_input) == (1, 0, 80)
    assert prompts(synced, COPY) == ["Fix the test", "Another way"]


def test_a_fork_that_refers_to_its_past(synced: Store) -> None:
    fork = find(synced, REFERRING)
    assert (fork.parent_id, fork.forked_at, fork.turns) == (f"codex:{PAGED}", 12, 1)
    assert prompts(synced, REFERRING) == ["First of all", "Forked thing"]
    assert (fork.tool_calls, fork.tokens_input) == (0, 8)


def test_a_reverted_thread_is_one_session_and_its_old_end_a_fork(synced: Store) -> None:
    session, left = find(synced, REVERTED), find(synced, f"{REVERTED}/{REVERTED}")
    assert prompts(synced, REVERTED) == ["Keep this", "Do this instead"]
    assert (session.turns, session.created_at) == (2, "2026-05-05T10:00:00.000000Z")
    assert (left.parent_id, left.forked_at, left.title, left.turns) == (session.id, 8, "Drop this", 1)


def test_a_sub_agent_is_linked_to_the_call_that_started_it(synced: Store) -> None:
    agent = find(synced, AGENT)
    assert (agent.relation, agent.parent_id, agent.channel) == ("delegate", f"codex:{TWICE}", "subagent")
    (call,) = stored_entries(synced, TWICE)[agent.forked_at or 0].parts
    assert isinstance(call, ToolCall)
    assert call.name == "spawn_agent"


def test_a_sub_agent_that_copied_its_parent_counts_only_its_own(store: Store, agent_home: Path) -> None:
    path = rollout(agent_home, AGENT)
    meta, *own = path.read_text().splitlines()
    copied = rollout(agent_home, TWICE).read_text().splitlines()[:7]
    header = json.loads(meta)
    header["payload"]["subagent_history_start_ordinal"] = len(copied) + 1
    path.write_text("\n".join([json.dumps(header), *copied, *own]) + "\n")
    sync_paths(store, agent_home)
    assert (prompts(store, AGENT), find(store, AGENT).turns) == (["Fix the test", "Look it up"], 1)


# ── changes and damage ────────────────────────────────────────────────────────────────────────────


def test_appended_lines_are_read_but_not_half_a_line(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    append_lines(rollout(agent_home, PAGED), user("Third"))
    with rollout(agent_home, PAGED).open("a") as file:
        file.write('{"timestamp":"2026-05-09T10:00:00Z","type":"response')
    report = sync_paths(store, agent_home)
    assert (report.problems, prompts(store, PAGED)[-1]) == ([], "Third")


@pytest.mark.parametrize("size", [0, 1, 100])
def test_a_rollout_is_read_when_its_first_line_is_whole(store: Store, tmp_path: Path, size: int) -> None:
    path = write_rollout(tmp_path, ("session_meta", META | {"model_provider": "openai"}), *LINES[1:])
    content = path.read_bytes()
    neighbour = Path(shutil.copy(rollout(SAMPLE, PAGED), path.parent))
    path.write_bytes(content[:size])
    report = sync_paths(store, tmp_path)
    assert (report.seen, report.problems) == (1, [])
    assert [found.native_id for found in codex.quick_read(str(tmp_path), ())] == [PAGED]
    path.write_bytes(content)
    sync_paths(store, tmp_path)
    session = find(store, TWICE)
    assert (session.cwd, session.provider, session.created_at[:16]) == ("/w", "openai", "2026-05-09T09:00")
    assert neighbour.exists()


def test_a_new_rollout_of_a_thread_counts_when_its_first_line_is_whole(store: Store, agent_home: Path) -> None:
    """Until then, the thread ends where its last rollout ends."""
    newest = max(agent_home.rglob(f"rollout-*-{REVERTED}_*.jsonl"))
    content = newest.read_bytes()
    newest.write_bytes(content[:50])
    sync_paths(store, agent_home)
    assert prompts(store, REVERTED) == ["Keep this", "Drop this"]
    newest.write_bytes(content)
    sync_paths(store, agent_home)
    assert prompts(store, REVERTED) == ["Keep this", "Do this instead"]


def test_a_packed_rollout_is_the_same_session(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    path = rollout(agent_home, TWICE)
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    assert sync_paths(store, agent_home).problems == []
    path.unlink()
    before = len(stored_texts(store, TWICE))
    report = sync_paths(store, agent_home)
    assert (report.new, report.problems, len(stored_texts(store, TWICE))) == (0, [], before)
    assert not find(store, TWICE).gone


def test_a_packed_rollout_that_is_damaged_is_a_problem(store: Store, agent_home: Path) -> None:
    path = rollout(agent_home, PAGED)
    packed = zstandard.ZstdCompressor().compress(path.read_bytes())
    path.with_name(path.name + ".zst").write_bytes(packed[:-40] + b"rubbish" * 5)
    path.unlink()
    report = sync_paths(store, agent_home)
    assert [problem.where for problem in report.problems] == [f"{path}.zst"]
    assert prompts(store, TWICE)


@pytest.mark.parametrize(("share", "least"), [(0.001, 0), (0.5, 3), (0.9999, 8)])
def test_a_packed_rollout_whose_end_is_missing_is_a_problem(
    store: Store, tmp_path: Path, share: float, least: int
) -> None:
    """What is there is read. The unpacker takes the place where the file was cut off for its end."""
    digits = [random.Random(number).randbytes(40_000).hex() for number in range(9)]
    path = write_rollout(tmp_path, ("session_meta", META), *(("response_item", user(text)) for text in digits))
    whole = zstandard.ZstdCompressor(write_checksum=True).compress(path.read_bytes())
    path.unlink()
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(whole[: int(share * len(whole))])
    (problem,) = sync_paths(store, tmp_path).problems
    assert (problem.where, problem.reason) == (str(packed), "It cannot be read: its end is missing.")
    assert (prompts(store, TWICE)[:least] if least else []) == digits[:least]
    packed.write_bytes(whole + whole)
    assert sync_paths(store, tmp_path).problems == []
    assert prompts(store, TWICE)[:9] == digits


def test_a_thread_moved_to_the_archive_stays_one(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    path = rollout(agent_home, PAGED)
    path.rename(agent_home / "archived_sessions" / path.name)
    report = sync_paths(store, agent_home)
    assert (report.new, find(store, PAGED).archived, len(prompts(store, PAGED))) == (0, 1, 2)


def test_a_bad_line_is_one_problem(store: Store, agent_home: Path) -> None:
    path = rollout(agent_home, PAGED)
    first, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(first + b"\n\xff\x00rubbish\n" + rest)
    (problem,) = sync_paths(store, agent_home).problems
    assert problem.where == f"{path}:{len(first) + 1}"
    assert len(prompts(store, PAGED)) == 2


def test_resume(synced: Store) -> None:
    resumed = codex.resume(find(synced, TWICE))
    assert (resumed.argv, resumed.cwd) == (("codex", "resume", TWICE), "/w/app")
    left = codex.resume(find(synced, f"{TWICE}/25"))
    assert left.argv is None
    assert left.hint


@given(data=st.data())
def test_a_damaged_rollout_does_not_affect_others(tmp_path: Path, data: st.DataObject) -> None:
    agent_home = tmp_path / "fuzzed"
    shutil.rmtree(agent_home, ignore_errors=True)
    shutil.copytree(SAMPLE, agent_home)
    path = data.draw(st.sampled_from(sorted(agent_home.rglob("*.jsonl"))))
    path.write_bytes(data.draw(corrupted_lines(path.read_bytes())))
    neighbour = SHOWN if SHOWN not in path.name else OLDEST
    assert neighbour in read_all_sessions(codex, agent_home)
