"""These tests sync while Kiso works: unfinished work is held back, settled entries stay, and no entry is lost."""

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
    """Return a store whose session was updated just now."""
    agent = KisoStore(tmp_path / "kiso.db")
    just_now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    agent.add_session(updated_at=just_now)
    return agent


def list_entries(store: Store) -> list[str]:
    return [entry.text or type(entry.parts[0]).__name__ for entry in stored_entries(store)]


def sync_and_list(agent: KisoStore, store: Store) -> list[str]:
    """Sync and return the entries. Check that a second sync, after an unrelated change, gives the same."""
    assert agent.sync(store).problems == []
    before = list_entries(store)
    agent.insert_row("learnings", content="something", session="dev")
    assert agent.sync(store).updated == 0
    assert list_entries(store) == before
    return before


def test_a_plan_is_followed_step_by_step(agent: KisoStore, store: Store) -> None:
    question = agent.add_message("go")
    assert sync_and_list(agent, store) == ["go"]
    plan = agent.add_plan(question, "Planning...", "running")
    assert sync_and_list(agent, store) == ["go"]
    agent.execute("update plans set goal = 'two steps'")
    first = agent.add_task(plan, "exec", "one", "running")
    second = agent.add_task(plan, "exec", "two", "pending")
    assert sync_and_list(agent, store) == ["go"]
    agent.execute("update tasks set status = 'failed', output = 'not yet' where id = ?", (first,))
    assert sync_and_list(agent, store) == ["go"], "a finished task may be retried after its review"
    agent.execute("update tasks set status = 'done', output = 'yes', retry_count = 1 where id = ?", (first,))
    agent.execute("update tasks set status = 'running' where id = ?", (second,))
    assert sync_and_list(agent, store) == ["go", "Thinking", "ToolCall"]
    agent.execute("update tasks set status = 'done' where id = ?", (second,))
    agent.add_task(plan, "msg", "tell", output="done")
    agent.add_message("done", "assistant")
    agent.execute("update plans set status = 'done', total_input_tokens = 99, model = 'm', awaits_input = 1")
    assert sync_and_list(agent, store) == ["go", "Thinking", "ToolCall", "ToolCall", "done"]
    assert superseded_ids(store) == []
    assert current_session(store).errors == 0


def test_a_message_during_a_plan_comes_after_its_answer(agent: KisoStore, store: Store) -> None:
    question = agent.add_message("go")
    agent.add_message("and hurry")
    assert sync_and_list(agent, store) == ["go"]
    plan = agent.add_plan(question, "goal", "running")
    task = agent.add_task(plan, "exec", "run", "running")
    assert sync_and_list(agent, store) == ["go"]
    agent.execute("update tasks set status = 'done' where id = ?", (task,))
    agent.add_task(plan, "msg", "tell", output="done")
    agent.add_message("done", "assistant")
    agent.execute("update plans set status = 'done'")
    assert sync_and_list(agent, store) == ["go", "Thinking", "ToolCall", "done", "and hurry"]
    assert superseded_ids(store) == []


def test_a_status_message_does_not_answer_later_messages(agent: KisoStore, store: Store) -> None:
    question = agent.add_message("go")
    waiting = agent.add_message("then this")
    agent.add_message("then that")
    first = agent.add_plan(question, "here", "failed")
    agent.add_task(first, "msg", "word", output="Replanning")
    agent.add_message("Replanning", "system")
    agent.add_plan(question, "there")
    assert sync_and_list(agent, store) == ["go", "Thinking", "Replanning", "Thinking", "then this"]
    agent.add_plan(waiting, "this")
    assert sync_and_list(agent, store)[4:] == ["then this", "Thinking", "then that"]
    assert superseded_ids(store) == []


def test_untrusted_messages_do_not_hold_back_others(agent: KisoStore, store: Store) -> None:
    agent.add_message("psst", user="stranger", trusted=0)
    agent.add_message("pssst", user="stranger", trusted=0)
    assert sync_and_list(agent, store) == ["psst", "pssst"]


def test_parallel_tasks_are_read_together(agent: KisoStore, store: Store) -> None:
    plan = agent.add_plan(agent.add_message("go"), "goal", "running")
    agent.add_task(plan, "exec", "left", "done", parallel_group=1)
    right = agent.add_task(plan, "exec", "right", "running", parallel_group=1)
    last = agent.add_task(plan, "exec", "then", "pending")
    assert sync_and_list(agent, store) == ["go"]
    agent.execute("update tasks set status = 'done' where id = ?", (right,))
    agent.execute("update tasks set status = 'running' where id = ?", (last,))
    assert sync_and_list(agent, store) == ["go", "Thinking", "ToolCall", "ToolCall"]


def test_an_abandoned_plan_is_read_when_the_next_plan_starts(agent: KisoStore, store: Store) -> None:
    plan = agent.add_plan(agent.add_message("go"), "goal", "running")
    agent.add_task(plan, "exec", "run", "running")
    other = agent.add_plan(agent.add_message("go on"), "other goal", "running")
    agent.add_task(other, "exec", "run", "running")
    assert sync_and_list(agent, store) == ["go", "Thinking", "ToolCall", "go on"]
    assert [call.status for call in store.chains.tool_calls(current_session(store).key)] == ["pending"]


def test_a_session_unchanged_for_an_hour_is_read_completely(agent: KisoStore, store: Store) -> None:
    plan = agent.add_plan(agent.add_message("go"), "goal", "running")
    agent.add_task(plan, "exec", "run", "running")
    assert sync_and_list(agent, store) == ["go"]
    agent.execute("update sessions set updated_at = ?", (HOURS_AGO,))
    assert sync_and_list(agent, store) == ["go", "Thinking", "ToolCall"]


def test_a_store_that_becomes_quiet_gets_another_stamp(agent: KisoStore) -> None:
    active_stamp = kiso.stamp(str(agent.path))
    assert active_stamp == kiso.stamp(str(agent.path))
    file_stamp = sqlite.database_stamp(agent.path)
    quiet_time = time.time() - 2 * 3600
    os.utime(agent.path, (quiet_time, quiet_time))
    assert kiso.stamp(str(agent.path)).removeprefix(sqlite.database_stamp(agent.path)) != active_stamp.removeprefix(
        file_stamp
    )
    assert kiso.stamp(str(agent.path.parent / "nowhere.db")) == ""


def test_a_session_is_read_again_when_its_hour_is_over(agent: KisoStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def stamps() -> dict[str, str]:
        with kiso.open(str(agent.path)) as reader:
            return {ref.native_id: ref.stamp for ref in reader.scan()}

    agent.add_plan(agent.add_message("go"), "goal", "running")
    agent.add_session("settled", updated_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S"))
    before = stamps()
    monkeypatch.setattr("store.sources.kit.sqlite.QUIET_SECONDS", -5)
    assert stamps()["dev"] != before["dev"]
    assert stamps()["settled"] == before["settled"]


# ── changes in the store ──────────────────────────────────────────────────────────────────────────


def test_appended_messages_come_in(agent: KisoStore, store: Store) -> None:
    agent.add_message("one")
    agent.add_message("two", "assistant")
    agent.sync(store)
    agent.add_message("three")
    report = agent.sync(store)
    assert (report.updated, list_entries(store)) == (1, ["one", "two", "three"])
    assert (superseded_ids(store), current_session(store).turns) == ([], 2)


def test_a_processed_message_is_unchanged(agent: KisoStore, store: Store) -> None:
    agent.add_message("one")
    agent.sync(store)
    agent.execute("update messages set processed = 1")
    report = agent.sync(store)
    assert (report.updated, report.unchanged, superseded_ids(store)) == (0, 1, [])


def test_a_rewritten_message_is_followed_and_the_old_one_stays(agent: KisoStore, store: Store) -> None:
    for text in ("one", "two", "three"):
        agent.add_message(text, "assistant")
    agent.sync(store)
    agent.execute("update messages set content = 'II' where content = 'two'")
    agent.sync(store)
    assert list_entries(store) == ["one", "II", "three"]
    (old,) = superseded_ids(store)
    entries = store.chains.entries(store.sessions.get(old).key, first=0)
    assert [entry.text for entry in entries] == ["one", "two", "three"]


def test_a_deleted_message_stays_reachable(agent: KisoStore, store: Store) -> None:
    for text in ("one", "two"):
        agent.add_message(text, "assistant")
    agent.sync(store)
    agent.execute("delete from messages where content = 'two'")
    agent.sync(store)
    (old,) = superseded_ids(store)
    assert list_entries(store) == ["one"]
    assert store.chains.entries(store.sessions.get(old).key)[-1].text == "two"


def test_a_deleted_session_is_gone_and_kept(agent: KisoStore, store: Store) -> None:
    agent.add_message("one")
    agent.sync(store)
    agent.execute_script("delete from messages; delete from sessions")
    agent.sync(store)
    assert (current_session(store).gone, list_entries(store)) == (1, ["one"])


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
    """An upgrade adds columns to every old row, some with a default. The records stay the same."""
    agent = KisoStore(tmp_path / "kiso.db", FIRST_SCHEMA)
    agent.add_session()
    plan = agent.add_plan(agent.add_message("go"), "goal")
    agent.add_task(plan, "exec", "run", output="done")
    agent.add_message("done", "assistant")
    agent.sync(store)
    before = list_entries(store)
    agent.execute_script(UPGRADE_SQL)
    agent.add_message("and now", source="user")
    agent.sync(store)
    assert (list_entries(store), superseded_ids(store)) == ([*before, "and now"], [])


def test_a_long_session_comes_in_bounded_batches(agent: KisoStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BATCH_ENTRIES", 4)
    for number in range(10):
        agent.add_message(f"{number}", "assistant")
    agent.add_message("x" * 300, "assistant")
    with kiso.open(str(agent.path)) as reader:
        (ref,) = reader.scan()
        assert [len(batch.entries) for batch in reader.read(ref)] == [0, 4, 4, 3]
        monkeypatch.setattr(sqlite, "BATCH_BYTES", 200)
        assert max(len(batch.entries) for batch in reader.read(ref)) < 4
