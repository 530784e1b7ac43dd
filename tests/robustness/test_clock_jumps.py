"""These tests set the clock back and far forwards: nothing is lost, reordered, or waited for until that time comes."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from crush_database import CrushStore, finish, text_content
from foreign_databases import execute_sql, stored_texts, sync_paths
from kiso_database import KisoStore

from store.cli import output
from store.database.backup import create_backup, list_backups
from store.doctor import check_store
from store.model.entry import NewEntry, Text
from store.search.sql import format_timestamp
from store.sources.copilot.reader import _duration_ms
from store.sources.kit import sqlite
from store.sources.kit.stamps import quiet_stamp
from store.store import Store
from store.sync.worker import Follower
from store.text import json as store_json
from store.text.json import utc_timestamp
from tui.render.session_lines import render_status_sign
from tui.render.styles import format_age

HOUR = 3600.0
YEAR = 365 * 24 * HOUR
JUMPS = (0.0, -YEAR, 60 * YEAR, -30 * YEAR, 0.0)


@pytest.fixture
def jumping_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Let every timestamp come from another year than the one before."""
    jumps = itertools.cycle(JUMPS)

    class JumpingDatetime(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(seconds=next(jumps))

    monkeypatch.setattr(store_json, "datetime", JumpingDatetime)
    return utc_timestamp


def test_entries_and_the_journal_keep_their_order(store: Store, jumping_clock: Callable[[], str]) -> None:
    session = store.create_session("a")
    texts = [f"message {n}" for n in range(12)]
    for number, text in enumerate(texts):
        store.append_message("a", "user", text)
        store.sessions.set_title(session, f"title {number}")
        store.summaries.set(session, f"summary {number}")
        session = store.get_session("a")
    assert stored_texts(store, "a") == texts
    titles = [edit.changes[0].after for edit in store.journal.list_edits() if edit.kind.endswith("title")]
    assert [title["own_title"] for title in titles if title] == [f"title {n}" for n in range(11, -1, -1)]
    current = store.summaries.current(session)
    assert current
    assert current.text == "summary 11"
    for _ in range(22):
        store.journal.undo()
    assert store.get_session("a").own_title == "title 0"
    assert check_store(store) == []


def test_a_session_is_never_older_than_before(store: Store, jumping_clock: Callable[[], str]) -> None:
    store.create_session("a")
    seen = []
    for number in range(10):
        if number % 2:
            store.append_message("a", "user", f"message {number}")
        else:
            store.ensure_session("a", model=f"model {number}")
        seen.append(store.get_session("a").updated_at)
    assert seen == sorted(seen)
    assert store.get_session("a").model == "model 8"


def test_backups_are_kept_in_the_order_they_were_made(store: Store, jumping_clock: Callable[[], str]) -> None:
    for number in range(8):
        store.create_session(f"s{number}")
        assert create_backup(store.path, store.connection) in list_backups(store.path)


# ── quiet sessions ────────────────────────────────────────────────────────────────────────────────


def at(seconds: float) -> str:
    return format_timestamp(datetime.now(UTC) + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("seconds", "quiet"),
    [(-2 * HOUR, True), (-HOUR / 2, False), (0, False), (HOUR / 2, False), (2 * HOUR, True), (60 * YEAR, True)],
)
def test_only_what_is_near_the_present_is_unfinished(seconds: float, quiet: bool) -> None:
    assert sqlite.is_quiet(at(seconds)) == quiet


def test_an_unfinished_answer_from_the_future_is_read(tmp_path: Path, store: Store) -> None:
    """The clock was a year ahead when it was written, and was set back since."""
    owner = CrushStore(tmp_path / "crush.db")
    later = int(time.time() + YEAR)
    messages = (("user", text_content("go")), ("assistant", text_content("Hal")[:1]))
    owner.add_session("s", *messages, created_at=later, updated_at=later)
    sync_paths(store, owner.path)
    assert stored_texts(store, "s") == ["go", "Hal"]


def test_an_unfinished_plan_from_the_future_is_read(tmp_path: Path, store: Store) -> None:
    owner = KisoStore(tmp_path / "kiso.db")
    later = "2099-01-01 00:00:00"
    owner.add_session("dev", created_at=later, updated_at=later)
    message = owner.add_message("List the logs", timestamp=later)
    plan = owner.add_plan(message, "find them", "running", created_at=later)
    owner.add_task(plan, "exec", "list", "running", command="ls", created_at=later, updated_at=later)
    owner.sync(store)
    (session,) = store.list_sessions()
    assert session.tool_calls == 1


def test_a_quiet_database_is_looked_at_again_after_one_and_two_hours(tmp_path: Path) -> None:
    owner = CrushStore(tmp_path / "crush.db")
    stamps = []
    for age in (-YEAR, 0.0, HOUR / 2, 1.5 * HOUR, 2.5 * HOUR, YEAR):
        for path in (owner.path, *tmp_path.glob("crush.db-wal")):
            os.utime(path, (time.time() - age,) * 2)
        stamps.append(quiet_stamp(owner.path).rpartition(":")[2])
    assert stamps == ["-1", "0", "0", "1", "2", "2"]


def test_messages_from_before_and_after_a_jump_are_all_kept(tmp_path: Path, store: Store) -> None:
    owner = CrushStore(tmp_path / "crush.db")
    owner.add_session("s", ("user", text_content("one")), ("assistant", [*text_content("first")[:1], finish()]))
    sync_paths(store, owner.path)
    owner.add_message("user", text_content("two"), created_at=1, updated_at=1)
    execute_sql(owner.path, "update sessions set updated_at = 1")
    os.utime(owner.path, (1, 1))
    sync_paths(store, owner.path)
    assert sorted(stored_texts(store, "s")) == ["first", "one", "two"]
    assert check_store(store) == []


# ── ages ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_session_from_the_future_is_not_live(store: Store) -> None:
    now = datetime.now(UTC)
    for name, seconds in (("past", -YEAR), ("present", -1.0), ("ahead", 60.0), ("future", YEAR)):
        store.create_session(name)
        store.chains.append(store.sessions.get(name).key, [NewEntry(role="user", parts=(Text("Go on"),))])
        with store.transaction() as connection:
            connection.execute("update sessions set updated_at = ? where id = ?", (at(seconds), name))
    signed = [session.id for session in store.list_sessions() if render_status_sign(session, now)]
    found, _ = store.sessions.matching("is:live", 9)
    assert sorted(signed) == sorted(session.id for session in found) == ["ahead", "present"]


def test_an_age_in_the_future_is_a_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "stdout_is_terminal", lambda: True)
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert format_age("2026-05-01T12:30:00Z", now) == "now"
    assert format_age("2026-05-09T12:00:00Z", now) == "9 May"
    assert format_age("2099-05-01T12:00:00Z", now) == "May 2099"
    assert output.format_age(at(HOUR)) == "now"
    assert output.format_age("2999-01-02T12:00:00Z") == "2999-01-02"


def test_no_call_has_a_negative_duration() -> None:
    assert _duration_ms("2026-05-01T12:00:01Z", "2026-05-01T12:00:00Z") is None
    assert _duration_ms("2026-05-01T12:00:00Z", "2026-05-01T12:00:01Z") == 1000


# ── following ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def followed(store: Store, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide a transcript of Claude Code that is followed, while the clock jumps at every look at it."""
    real_time, jumps = time.time, itertools.cycle(JUMPS)
    monkeypatch.setattr(time, "time", lambda: real_time() + next(jumps))
    path = home / ".claude" / "projects" / "-tmp" / "11111111-2222-3333-4444-555555555555.jsonl"
    path.parent.mkdir(parents=True)
    follower = Follower(store, lambda progress: None, "claude")
    thread = threading.Thread(target=follower.run)
    thread.start()
    yield path
    follower.stop()
    thread.join(30)
    assert not thread.is_alive()


def test_following_goes_on_over_jumps(store: Store, followed: Path) -> None:
    for number, jump in enumerate(JUMPS):
        line = {
            "type": "user",
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": followed.stem,
            "timestamp": at(jump),
            "message": {"role": "user", "content": f"prompt {number}"},
        }
        with followed.open("a") as file:
            file.write(json.dumps(line) + "\n")
        os.utime(followed, (datetime.now(UTC).timestamp() + jump,) * 2)
        expected = [f"prompt {n}" for n in range(number + 1)]
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not _has_texts(store, expected):
            time.sleep(0.05)
        assert _has_texts(store, expected)


def _has_texts(store: Store, expected: list[str]) -> bool:
    return [stored_texts(store, session.id) for session in store.list_sessions()] == [expected]
