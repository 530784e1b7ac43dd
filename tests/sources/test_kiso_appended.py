"""Following Kiso while it works: what runs waits, what is settled stays, and nothing once told is lost."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kiso_database import FIRST_SCHEMA, UPGRADE_SQL, KisoStore, current_session, stored_entries, superseded_ids

from store.sources.kiso.source import Kiso
from store.sources.kit import sqlite
from store.store import Store

kiso = Kiso()

HOURS_AGO = (datetime.now(UTC) - timedelta(hours=2)).strftime("%Y-%m-%d %H:%M:%S")


@pytest.fixture
def agent(tmp_path: Path) -> KisoStore:
    """One that somebody spoke to this very minute."""
    made = KisoStore(tmp_path / "kiso.db")
    just_now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    made.add_session(updated_at=just_now)
    return made


def shown(store: Store) -> list[str]:
    return [entry.text or type(entry.parts[0]).__name__ for entry in stored_entries(store)]


def followed(agent: KisoStore, store: Store) -> list[str]:
    """What is shown after a sync, and the same after another of a file that moved and a session that did not."""
    assert agent.sync(store).problems == []
    before = shown(store)
    agent.insert_row("learnings", content="something", session="dev")
    assert agent.sync(store).updated == 0
    assert shown(store) == before
    return before


def test_a_plan_is_followed_step_by_step(agent: KisoStore, store: Store) -> None:
    asked = agent.add_message("go")
    assert followed(agent, store) == ["go"]
    plan = agent.add_plan(asked, "Planning...", "running")
    assert followed(agent, store) == ["go"]
    agent.execute("update plans set goal = 'two steps'")
    first = agent.add_task(plan, "exec", "one", "running")
    second = agent.add_task(plan, "exec", "two", "pending")
    assert followed(agent, store) == ["go"]
    agent.execute("update tasks set status = 'failed', output = 'not yet' where id = ?", (first,))
    assert followed(agent, store) == ["go"], "a finished task is tried again when its review says so"
    agent.execute("update tasks set status = 'done', output = 'yes', retry_count = 1 where id = ?", (first,))
    agent.execute("update tasks set status = 'running' where id = ?", (second,))
    assert followed(agent, store) == ["go", "Thinking", "ToolCall"]
    agent.execute("update tasks set status = 'done' where id = ?", (second,))
    agent.add_task(plan, "msg", "tell", output="done")
    agent.add_message("done", "assistant")
    agent.execute("update plans set status = 'done', total_input_tokens = 99, model = 'm', awaits_input = 1")
    assert followed(agent, store) == ["go", "Thinking", "ToolCall", "ToolCall", "done"]
    assert superseded_ids(store) == []
    assert current_session(store).errors == 0


def test_what_is_said_meanwhile_waits_for_its_turn(agent: KisoStore, store: Store) -> None:
    asked = agent.add_message("go")
    agent.add_message("and hurry")
    assert followed(agent, store) == ["go"]
    plan = agent.add_plan(asked, "goal", "running")
    task = agent.add_task(plan, "exec", "run", "running")
    assert followed(agent, store) == ["go"]
    agent.execute("update tasks set status = 'done' where id = ?", (task,))
    agent.add_task(plan, "msg", "tell", output="done")
    agent.add_message("done", "assistant")
    agent.execute("update plans set status = 'done'")
    assert followed(agent, store) == ["go", "Thinking", "ToolCall", "done", "and hurry"]
    assert superseded_ids(store) == []


def test_a_word_about_an_earlier_message_answers_none_that_wait(agent: KisoStore, store: Store) -> None:
    asked = agent.add_message("go")
    waiting = agent.add_message("then this")
    agent.add_message("then that")
    first = agent.add_plan(asked, "here", "failed")
    agent.add_task(first, "msg", "word", output="Replanning")
    agent.add_message("Replanning", "system")
    agent.add_plan(asked, "there")
    assert followed(agent, store) == ["go", "Thinking", "Replanning", "Thinking", "then this"]
    agent.add_plan(waiting, "this")
    assert followed(agent, store)[4:] == ["then this", "Thinking", "then that"]
    assert superseded_ids(store) == []


def test_a_stranger_s_words_keep_nobody_waiting(agent: KisoStore, store: Store) -> None:
    agent.add_message("psst", user="stranger", trusted=0)
    agent.add_message("pssst", user="stranger", trusted=0)
    assert followed(agent, store) == ["psst", "pssst"]


def test_tasks_that_run_beside_each_other_are_told_together(agent: KisoStore, store: Store) -> None:
    plan = agent.add_plan(agent.add_message("go"), "goal", "running")
    agent.add_task(plan, "exec", "left", "done", parallel_group=1)
    right = agent.add_task(plan, "exec", "right", "running", parallel_group=1)
    last = agent.add_task(plan, "exec", "then", "pending")
    assert followed(agent, store) == ["go"]
    agent.execute("update tasks set status = 'done' where id = ?", (right,))
    agent.execute("update tasks set status = 'running' where id = ?", (last,))
    assert followed(agent, store) == ["go", "Thinking", "ToolCall", "ToolCall"]


def test_what_was_left_running_is_told_when_the_agent_goes_on(agent: KisoStore, store: Store) -> None:
    plan = agent.add_plan(agent.add_message("go"), "goal", "running")
    agent.add_task(plan, "exec", "run", "running")
    other = agent.add_plan(agent.add_message("go on"), "other goal", "running")
    agent.add_task(other, "exec", "run", "running")
    assert followed(agent, store) == ["go", "Thinking", "ToolCall", "go on"]
    assert [call.status for call in store.chains.tool_calls(current_session(store).key)] == ["pending"]


def test_what_nobody_touched_for_an_hour_is_told_as_it_is(agent: KisoStore, store: Store) -> None:
    plan = agent.add_plan(agent.add_message("go"), "goal", "running")
    agent.add_task(plan, "exec", "run", "running")
    assert followed(agent, store) == ["go"]
    agent.execute("update sessions set updated_at = ?", (HOURS_AGO,))
    assert followed(agent, store) == ["go", "Thinking", "ToolCall"]


def test_a_store_that_comes_to_rest_is_looked_at_once_more(agent: KisoStore) -> None:
    moving = kiso.stamp(str(agent.path))
    assert moving == kiso.stamp(str(agent.path))
    file_alone = sqlite.database_stamp(agent.path)
    at_rest = time.time() - 2 * 3600
    os.utime(agent.path, (at_rest, at_rest))
    assert kiso.stamp(str(agent.path)).removeprefix(sqlite.database_stamp(agent.path)) != moving.removeprefix(
        file_alone
    )
    assert kiso.stamp(str(agent.path.parent / "nowhere.db")) == ""


def test_a_session_is_read_again_when_its_hour_is_over(agent: KisoStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def stamps() -> dict[str, str]:
        with kiso.open(str(agent.path)) as opened:
            return {ref.native_id: ref.stamp for ref in opened.scan()}

    agent.add_plan(agent.add_message("go"), "goal", "running")
    agent.add_session("settled", updated_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S"))
    before = stamps()
    monkeypatch.setattr("store.sources.kiso.reader.QUIET_PERIOD", timedelta(seconds=-5))
    assert stamps()["dev"] != before["dev"]
    assert stamps()["settled"] == before["settled"]


# ── what changes behind our back ──────────────────────────────────────────────────────────────────


def test_appended_messages_come_in(agent: KisoStore, store: Store) -> None:
    agent.add_message("one")
    agent.add_message("two", "assistant")
    agent.sync(store)
    agent.add_message("three")
    report = agent.sync(store)
    assert (report.updated, shown(store)) == (1, ["one", "two", "three"])
    assert (superseded_ids(store), current_session(store).turns) == ([], 2)


def test_what_kiso_notes_on_a_message_changes_nothing(agent: KisoStore, store: Store) -> None:
    agent.add_message("one")
    agent.sync(store)
    agent.execute("update messages set processed = 1")
    report = agent.sync(store)
    assert (report.updated, report.unchanged, superseded_ids(store)) == (0, 1, [])


def test_a_rewritten_message_is_followed_and_the_old_one_stays(agent: KisoStore, store: Store) -> None:
    for words in ("one", "two", "three"):
        agent.add_message(words, "assistant")
    agent.sync(store)
    agent.execute("update messages set content = 'II' where content = 'two'")
    agent.sync(store)
    assert shown(store) == ["one", "II", "three"]
    (old,) = superseded_ids(store)
    entries = store.chains.entries(store.sessions.get(old).key, first=0)
    assert [entry.text for entry in entries] == ["one", "two", "three"]


def test_a_deleted_message_stays_reachable(agent: KisoStore, store: Store) -> None:
    for words in ("one", "two"):
        agent.add_message(words, "assistant")
    agent.sync(store)
    agent.execute("delete from messages where content = 'two'")
    agent.sync(store)
    (old,) = superseded_ids(store)
    assert shown(store) == ["one"]
    assert store.chains.entries(store.sessions.get(old).key)[-1].text == "two"


def test_a_deleted_session_is_gone_and_kept(agent: KisoStore, store: Store) -> None:
    agent.add_message("one")
    agent.sync(store)
    agent.execute_script("delete from messages; delete from sessions")
    agent.sync(store)
    assert (current_session(store).gone, shown(store)) == (1, ["one"])


def test_a_new_summary_and_a_new_project_name_are_followed(agent: KisoStore, store: Store) -> None:
    project = agent.insert_row("projects", name="garden", created_by="ana")
    agent.execute("update sessions set project_id = ?, summary = 'Seeds.'", (project,))
    agent.sync(store)
    agent.execute("update sessions set summary = 'Seeds and roses.'")
    agent.execute("update projects set name = 'park'")
    agent.sync(store)
    summary = store.summaries.current(current_session(store))
    assert summary is not None
    assert (summary.text, current_session(store).environment_name) == ("Seeds and roses.", "park")


def test_an_upgrade_of_kiso_rewrites_nothing(tmp_path: Path, store: Store) -> None:
    """New columns stand in every old row, some with a default; the records are the same."""
    agent = KisoStore(tmp_path / "kiso.db", FIRST_SCHEMA)
    agent.add_session()
    plan = agent.add_plan(agent.add_message("go"), "goal")
    agent.add_task(plan, "exec", "run", output="done")
    agent.add_message("done", "assistant")
    agent.sync(store)
    before = shown(store)
    agent.execute_script(UPGRADE_SQL)
    agent.add_message("and now", source="user")
    agent.sync(store)
    assert (shown(store), superseded_ids(store)) == ([*before, "and now"], [])


def test_a_long_session_comes_in_bounded_batches(agent: KisoStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BATCH_ENTRIES", 4)
    for n in range(10):
        agent.add_message(f"{n}", "assistant")
    agent.add_message("x" * 300, "assistant")
    with kiso.open(str(agent.path)) as opened:
        (ref,) = opened.scan()
        assert [len(batch.entries) for batch in opened.read(ref)] == [0, 4, 4, 3]
        monkeypatch.setattr(sqlite, "BATCH_BYTES", 200)
        assert max(len(batch.entries) for batch in opened.read(ref)) < 4
