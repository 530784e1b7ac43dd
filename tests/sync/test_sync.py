"""This module tests repeated syncs: new entries are imported, old ones stay reachable, and nothing else changes."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import sqlite3
from pathlib import Path

import pytest
from foreign_databases import (
    RUBICHAN_LATEST_SCHEMA,
    RUBICHAN_SCHEMA,
    add_rubichan_messages,
    add_rubichan_session,
    execute_sql,
    make_database,
    stored_texts,
    sync_paths,
)

from store.errors import Busy, NotFound, Unreadable
from store.store import Store
from store.sync import commit_timer, engine, refresh
from store.sync.lock import sync_lock
from store.sync.targets import find_targets


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    path = make_database(tmp_path / "rubichan.db", RUBICHAN_LATEST_SCHEMA)
    add_rubichan_session(path, "a", ("user", "one"), ("assistant", "first"))
    add_rubichan_session(path, "b", ("user", "hello"))
    return path


def total_changes(store: Store) -> int:
    return store.connection.total_changes


def test_a_first_sync_imports_everything(store: Store, foreign: Path) -> None:
    report = sync_paths(store, foreign)
    assert (report.seen, report.new, report.updated, report.unchanged, report.problems) == (2, 2, 0, 0, [])
    assert stored_texts(store, "a") == ["one", "first"]
    session = store.sessions.find("a")
    assert session.id.startswith("rubichan:a@")
    assert session.created_at == "2026-03-01T10:00:00.000000Z"


def test_a_second_sync_of_an_unchanged_store_writes_nothing(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    wal = Path(f"{store.path}-wal").read_bytes()
    before = total_changes(store)
    report = sync_paths(store, foreign)
    assert (report.seen, report.new, report.updated, report.unchanged) == (2, 0, 0, 2)
    assert total_changes(store) == before
    assert Path(f"{store.path}-wal").read_bytes() == wal


def test_a_touched_but_unchanged_file_changes_no_session(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    rows = store.rows("select * from sessions")
    os.utime(foreign)
    assert sync_paths(store, foreign).unchanged == 2
    assert store.rows("select * from sessions") == rows


def test_appended_messages_are_imported(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    keys = [entry.key for entry in store.chains.entries(store.sessions.find("a").key)]
    add_rubichan_messages(foreign, "a", 2, ("user", "two"), ("assistant", "second"))
    report = sync_paths(store, foreign)
    assert (report.updated, report.unchanged) == (1, 1)
    assert stored_texts(store, "a") == ["one", "first", "two", "second"]
    assert [entry.key for entry in store.chains.entries(store.sessions.find("a").key)][:3] == keys
    assert store.sessions.find("a").turns == 2


def test_a_rewritten_message_stays_reachable(store: Store, foreign: Path) -> None:
    add_rubichan_messages(foreign, "a", 2, ("user", "two"), ("assistant", "second"))
    sync_paths(store, foreign)
    store.sessions.set_title(store.sessions.find("a"), "Mine")
    execute_sql(foreign, 'update messages set content = \'[{"type": "text", "text": "fixed"}]\' where seq = 1')
    assert sync_paths(store, foreign).updated == 1
    session = store.sessions.find("a")
    assert stored_texts(store, session.id) == ["one", "fixed", "two", "second"]
    assert (session.title, session.turns, session.entries) == ("Mine", 2, 4)
    (old,) = [child for child in store.sessions.children(session.id) if child.relation == "superseded"]
    assert stored_texts(store, old.id) == ["one", "first", "two", "second"]
    assert old.forked_at == 0
    assert [hit.session_id for hit in store.search.find("first")[0]] == [old.id]
    assert [hit.session_id for hit in store.search.find("fixed")[0]] == [session.id]
    assert {hit.session_id for hit in store.search.find("second")[0]} == {session.id, old.id}


def test_a_deleted_message_stays_reachable(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    execute_sql(foreign, "delete from messages where session_id = 'a' and seq = 1")
    sync_paths(store, foreign)
    session = store.sessions.find("a")
    assert stored_texts(store, session.id) == ["one"]
    (old,) = store.sessions.children(session.id)
    assert stored_texts(store, old.id) == ["one", "first"]


def test_a_superseded_session_is_not_listed(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    execute_sql(foreign, "delete from messages where session_id = 'a' and seq = 1")
    sync_paths(store, foreign)
    assert sorted(session.native_id for session in store.sessions.matching("")[0]) == ["a", "b"]


def test_a_session_that_the_source_lost_is_marked_gone_until_it_is_back(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    execute_sql(foreign, "delete from sessions where id = 'b'")
    sync_paths(store, foreign)
    assert store.sessions.find("b").gone
    assert stored_texts(store, "b") == ["hello"]
    add_rubichan_session(foreign, "b", ("user", "hello"))
    sync_paths(store, foreign)
    assert not store.sessions.find("b").gone


def test_a_source_that_vanished_keeps_its_sessions(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    targets = find_targets([str(foreign)])
    foreign.unlink()
    reports = [progress.report for progress in refresh.sync_targets(store, targets)]
    assert "cannot be read" in reports[-1].problems[0].reason or "not a SQLite" in reports[-1].problems[0].reason
    assert not store.sessions.find("a").gone


def test_what_was_purged_does_not_come_back(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    store.sessions.purge([store.sessions.find("a")])
    add_rubichan_messages(foreign, "a", 2, ("user", "two"))
    sync_paths(store, foreign)
    with pytest.raises(NotFound):
        store.sessions.find("a")


def test_edits_survive_a_sync(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    session = store.sessions.find("a")
    store.sessions.set_title(session, "Mine")
    store.notes.tag([session], ["work"])
    store.sessions.pin([session])
    execute_sql(foreign, "update sessions set title = 'Theirs' where id = 'a'")
    sync_paths(store, foreign)
    after = store.sessions.find("a")
    assert (after.title, after.agent_title, after.pinned) == ("Mine", "Theirs", 1)
    assert store.notes.tags(after) == ["work"]


def test_a_corrected_fact_keeps_the_correction_and_others_follow_the_source(store: Store, foreign: Path) -> None:
    rows = [("/x", "a", "left untouched"), ("/x", "b", "to be corrected")]
    execute_sql(foreign, "insert into memories (working_dir, tag, content) values (?, ?, ?)", rows)
    sync_paths(store, foreign)
    untouched, corrected = store.facts.current(None)
    store.facts.edit(corrected.id, "corrected here")
    execute_sql(foreign, "update memories set content = content || ', updated'")
    sync_paths(store, foreign)
    assert store.facts.get(untouched.id).text == "left untouched, updated"
    after = store.facts.get(corrected.id)
    assert (after.text, after.foreign_text) == ("corrected here", "to be corrected, updated")
    execute_sql(foreign, "delete from memories")
    sync_paths(store, foreign)
    assert [fact.text for fact in store.facts.current(None)] == ["corrected here"]


def test_facts_of_two_stores_have_different_scopes(store: Store, foreign: Path, tmp_path: Path) -> None:
    other = make_database(tmp_path / "other.db", RUBICHAN_LATEST_SCHEMA)
    for path, fact in ((foreign, "ours"), (other, "theirs")):
        execute_sql(path, "insert into memories (working_dir, tag, content) values ('/x', 'a', ?)", [(fact,)])
        sync_paths(store, path)
    assert len({fact.scope for fact in store.facts.current(None)}) == 2
    assert store.meta.get("facts") == ""


def test_the_same_native_id_in_two_stores_is_two_sessions(store: Store, foreign: Path, tmp_path: Path) -> None:
    other = make_database(tmp_path / "other.db", RUBICHAN_SCHEMA)
    add_rubichan_session(other, "a", ("user", "elsewhere"))
    sync_paths(store, foreign)
    sync_paths(store, other)
    assert len([session for session in store.list_sessions(9) if session.native_id == "a"]) == 2


def test_an_interrupted_sync_continues_where_it_stopped(store: Store, foreign: Path) -> None:
    for number in range(30):
        add_rubichan_session(foreign, f"s{number}", *[("user", f"message {n}") for n in range(40)])
    sync = refresh.sync_targets(store, find_targets([str(foreign)]))
    next(sync)
    sync.close()
    imported = len(store.list_sessions(99))
    assert 0 < imported < 32
    report = sync_paths(store, foreign)
    assert report.new + report.unchanged + report.updated == 32
    assert report.new >= 32 - imported
    assert all(session.entries == 40 for session in store.list_sessions(99) if session.native_id.startswith("s"))
    assert store.rows("select id from sessions where relation = 'superseded'") == []


def count_index_segments(store: Store) -> int:
    (count,) = store.row("select count(distinct segid) from conversation_fts_idx")
    return int(count)


def test_an_import_that_leaves_many_segments_merges_the_index_into_one(
    store: Store, foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_timer, "COMMIT_SECONDS", 0.0)
    monkeypatch.setattr(engine, "MAX_SEGMENTS", 2)
    add_rubichan_session(foreign, "more", ("user", "the zebra crossing"))
    sync_paths(store, foreign)
    assert count_index_segments(store) == 1
    assert [hit.session_id for hit in store.search.find("zebra")[0]] == [store.sessions.find("more").id]
    add_rubichan_messages(foreign, "more", 1, ("user", "another zebra"))
    sync_paths(store, foreign)
    assert count_index_segments(store) == 2
    assert store.search.find("zebra")[1] == 2


def _hold_the_lock(path: str, ready: object, done: object) -> None:
    with Store.open(path) as store, sync_lock(store):
        ready.set()  # type: ignore[attr-defined]
        done.wait(20)  # type: ignore[attr-defined]


def test_one_sync_at_a_time(store: Store, foreign: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=_hold_the_lock, args=(str(store.path), ready, done))
    other.start()
    try:
        assert ready.wait(20)
        with pytest.raises(Busy, match="Another sync"):
            sync_paths(store, foreign)
    finally:
        done.set()
        other.join()
    assert sync_paths(store, foreign).new == 2


def test_the_foreign_file_is_untouched(store: Store, foreign: Path) -> None:
    def file_state() -> tuple[str, int, int, list[str]]:
        stat = foreign.stat()
        side_files = sorted(path.name for path in foreign.parent.iterdir() if path.name.startswith(foreign.name))
        return hashlib.sha256(foreign.read_bytes()).hexdigest(), stat.st_mtime_ns, stat.st_size, side_files

    before = file_state()
    sync_paths(store, foreign)
    assert file_state() == before


def test_a_path_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database at all")
    make_database(tmp_path / "other.db", "create table things (id)")
    (tmp_path / "empty.db").touch()
    for name in ("text.db", "other.db", "empty.db", "missing.db"):
        with pytest.raises(Unreadable):
            find_targets([str(tmp_path / name)])


def test_an_unknown_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="rubichan"):
        find_targets([], source_name="nobody")


def test_stores_are_found_where_their_agents_keep_them(store: Store, home: Path) -> None:
    (home / ".config/rubichan").mkdir(parents=True)
    path = make_database(home / ".config/rubichan/rubichan.db", RUBICHAN_SCHEMA)
    add_rubichan_session(path, "a", ("user", "found"))
    (target,) = find_targets()
    assert (target.source.name, target.locator) == ("rubichan", str(path))
    list(refresh.sync_targets(store, [target]))
    assert stored_texts(store, "a") == ["found"]


def test_bad_rows_are_one_problem_each_and_the_others_are_imported(store: Store, foreign: Path) -> None:
    execute_sql(foreign, "update messages set content = '[{\"type\": \"te' where session_id = 'a' and seq = 0")
    report = sync_paths(store, foreign)
    assert [problem.where for problem in report.problems] == ["messages:1"]
    assert stored_texts(store, "a") == ["", "first"]
    assert stored_texts(store, "b") == ["hello"]
    again = sync_paths(store, foreign)
    assert [problem.where for problem in again.problems] == ["messages:1"]
    add_rubichan_messages(foreign, "b", 1, ("user", "more"))
    assert [problem.where for problem in sync_paths(store, foreign).problems] == ["messages:1"]
    execute_sql(foreign, 'update messages set content = \'[{"type": "text", "text": "repaired"}]\' where id = 1')
    assert sync_paths(store, foreign).problems == []


def test_a_trigger_forbids_rewriting_an_entry(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    with pytest.raises(sqlite3.IntegrityError):
        store.connection.execute("update entries set seq = 99 where seq = 0")
