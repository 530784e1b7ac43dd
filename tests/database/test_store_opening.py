"""These tests cover opening and closing a store, connections, transactions, migrations and backups."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils import Database

from store.database import connection as database_connection
from store.database.backup import MAX_BACKUPS, create_backup, list_backups
from store.database.connection import APPLICATION_ID, LAST_REWRITING_MIGRATION, SCHEMA_VERSION
from store.database.migration_set import Migration
from store.database.migrations import SEARCH, migrations
from store.doctor import check_store
from store.errors import Refused, StoreError, TooNew, Unreadable
from store.model.entry import NewEntry, ToolCall, ToolResult
from store.store import Store


def create_old_store(path: Path, stop_before: str) -> None:
    """Create a store of an earlier version."""
    db = Database(path)
    migrations.apply(db, stop_before=stop_before)
    db.execute(f"pragma application_id = {APPLICATION_ID}")
    db.execute(f"pragma user_version = {len(migrations.migrations) - len(migrations.pending(db))}")
    db.execute("insert into sessions (id, native_id, created_at, updated_at) values ('kept', 'kept', '2026', '2026')")
    db.close()


def read_schema(path: Path) -> set[tuple[str, str]]:
    with sqlite3.connect(path) as connection:
        return set(connection.execute("select name, sql from sqlite_master where sql is not null"))


def test_schema_version_counts_the_migrations() -> None:
    assert len(migrations.pending(Database(memory=True))) == SCHEMA_VERSION


def test_only_migrations_that_add_something_are_made_without_a_backup(tmp_path: Path) -> None:
    db = Database(memory=True)
    steps = migrations.pending(db)
    migrations.apply(db, stop_before=steps[LAST_REWRITING_MIGRATION].name)
    statements: list[str] = []
    db.conn.set_trace_callback(statements.append)
    for step in steps[LAST_REWRITING_MIGRATION:]:
        step.run(db)
    added = re.compile(
        r"create (unique )?(index|table|trigger|virtual table) |alter table \w+ add column |begin|commit|--"
    )
    assert [statement for statement in statements if not added.match(statement.strip().lower())] == []
    path = tmp_path / "store.db"
    create_old_store(path, steps[LAST_REWRITING_MIGRATION].name)
    Store.open(path).close()
    assert list_backups(path) == []
    with Store.open(path) as store:
        assert [session.id for session in store.list_sessions(5)] == ["kept"]


def test_every_connection_has_its_pragmas(store: Store) -> None:
    values: dict[str, object] = {}

    def read_pragmas() -> None:
        for name in ("foreign_keys", "recursive_triggers", "trusted_schema", "secure_delete", "busy_timeout"):
            (values[name],) = store.row(f"pragma {name}")

    thread = threading.Thread(target=read_pragmas)
    thread.start()
    thread.join()
    assert values == {
        "foreign_keys": 1,
        "recursive_triggers": 1,
        "trusted_schema": 0,
        "secure_delete": 1,
        "busy_timeout": 5000,
    }


def test_every_thread_has_its_own_connection_and_sees_the_writes_of_others(store: Store) -> None:
    store.create_session("a")
    connection_ids: list[int] = []

    def work() -> None:
        store.append_message("a", "user", "from the thread")
        connection_ids.append(id(store.connection))

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert id(store.connection) not in connection_ids
    assert len(store.get_messages("a")) == 3


def test_a_new_store_is_private_with_any_umask(tmp_path: Path) -> None:
    with Store.open(tmp_path / "deep" / "er" / "store.db") as store:
        store.create_session("a")
        files = [path for path in store.path.parent.iterdir() if path.is_file()]
        assert len(files) >= 2
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700


def test_an_old_store_is_migrated_after_a_backup(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    create_old_store(path, "m003_secrets")
    with Store.open(path) as store:
        assert [session.id for session in store.list_sessions(5)] == ["kept"]
        assert store.row("pragma user_version")[0] == SCHEMA_VERSION
    (copy,) = list_backups(path)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert "secrets" not in {name for name, _ in read_schema(copy)}
    with sqlite3.connect(copy) as connection:
        assert connection.execute("select id from sessions").fetchall() == [("kept",)]


def test_new_and_old_files_end_with_the_same_schema(tmp_path: Path) -> None:
    create_old_store(tmp_path / "old.db", "m002_knowledge")
    for name in ("old.db", "new.db"):
        Store.open(tmp_path / name).close()
    assert read_schema(tmp_path / "old.db") == read_schema(tmp_path / "new.db")


def test_the_contents_of_an_old_store_are_found_after_its_migration(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        store.create_session("a")
        store.append_message("a", "user", "where is the narwhal")
        store.append_message(
            "a", "assistant", [{"type": "tool_use", "id": "1", "name": "look", "input": {"at": "pole"}}]
        )
    with sqlite3.connect(path) as connection:
        for table in ("conversation_fts", "tools_fts"):
            connection.execute(f"drop table {table}")
        for statement in SEARCH.split("\n\n"):
            connection.execute(statement)
        connection.execute("delete from _sqlite_migrations where name = 'm011_one_text'")
        connection.execute("pragma user_version = 10")
    notices: list[str] = []
    with Store.open(path, notify=notices.append) as store:
        assert notices.pop(0).startswith("Backing up ")
        assert len(notices) == 1, "rebuilding the index is announced"
        assert [hit.entry for hit in store.search.find("narwhal")[0]] == ["a#0"]
        assert [hit.entry for hit in store.search.find("look pole")[0]] == ["a#1"]
        assert not check_store(store)
    Store.open(path, notify=notices.append).close()
    assert len(notices) == 1


def test_the_calls_of_an_old_store_get_their_durations(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        session = store.sessions.create("a", source="claude")
        for call_id, second, stated in (("timed", 3, None), ("stated", 3, 40.0), ("together", 1, None)):
            call = NewEntry(parts=(ToolCall(call_id, "ls", {}),), created_at="2026-05-01T10:00:01.250000Z")
            result = NewEntry(parts=(ToolResult(call_id, "", duration_ms=stated),))
            result.created_at = f"2026-05-01T10:00:0{second}.250000Z"
            store.chains.append(session.key, [call, result])
        expected = [call.duration_ms for call in store.chains.tool_calls(session.key)]
    assert expected == [2000.0, 40.0, None]
    with sqlite3.connect(path) as connection:
        connection.execute("update tool_calls set duration_ms = null where call_id = 'timed'")
        connection.execute("delete from _sqlite_migrations where name = 'm014_call_durations'")
        connection.execute(f"pragma user_version = {SCHEMA_VERSION - 1}")
    with Store.open(path) as store:
        assert [call.duration_ms for call in store.chains.tool_calls(session.key)] == expected


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    create_old_store(path, "m004_search")
    before = read_schema(path)

    def fail(db: Any) -> None:
        db.execute("create table half_done (a)")
        db.execute("insert into no_such_table values (1)")

    broken = [*migrations.migrations, Migration("m999_fails", fail)]
    monkeypatch.setattr(migrations, "migrations", broken)
    monkeypatch.setattr(database_connection, "SCHEMA_VERSION", len(broken))
    with pytest.raises(StoreError, match="no such table"):
        Store.open(path)
    assert read_schema(path) == before


def test_free_pages_are_given_back_to_the_disk(store: Store) -> None:
    def count_pages() -> tuple[int, int]:
        values: tuple[int, int] = store.row("select * from pragma_page_count, pragma_freelist_count")
        return values

    store.create_session("a")
    store.append_message("a", "user", "a long story " * 100_000)
    store.delete_session("a")
    page_count, free_count = count_pages()
    assert free_count > 10
    store.release_free_pages()
    assert count_pages() == (page_count - free_count, 0)
    store.create_session("b")
    store.append_message("b", "user", "a short one")
    before = count_pages()
    store.release_free_pages()
    assert count_pages() == before


def test_only_the_newest_backups_are_kept(store: Store) -> None:
    backups = []
    for number in range(5):
        store.create_session(f"s{number}")
        backups.append(create_backup(store.path, store.connection))
    assert list_backups(store.path) == sorted(backups, reverse=True)[:MAX_BACKUPS]


def test_a_store_from_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    Store.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"pragma user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(TooNew, match="Update Backscroll"):
        Store.open(path)
    assert path.read_bytes() == before


def test_another_program_s_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table sessions (id text)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Unreadable, match="another program's database"):
        Store.open(path)
    assert path.read_bytes() == before


def test_a_failed_transaction_rolls_back_nested_ones(store: Store) -> None:
    def create_and_fail() -> None:
        with store.transaction():
            store.create_session("a")
            with store.transaction():
                store.create_session("b")
            raise RuntimeError("failed")

    with pytest.raises(RuntimeError):
        create_and_fail()
    assert store.list_sessions(5) == []


def test_errors_of_sqlite_are_translated(store: Store) -> None:
    with pytest.raises(Refused, match="refused the change"), store.transaction() as connection:
        connection.execute("insert into tags (session, name) values (99, 'x')")


def test_the_environment_variable_names_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSCROLL_STORE", str(tmp_path / "named.db"))
    with Store.open() as store:
        assert store.path == tmp_path / "named.db"


def test_a_failed_nested_transaction_rolls_back_only_itself(store: Store) -> None:
    def create_in_savepoint() -> None:
        with store.transaction():
            store.create_session("lost")
            raise RuntimeError("inside")

    with store.transaction():
        store.create_session("kept")
        with pytest.raises(RuntimeError):
            create_in_savepoint()
        with pytest.raises(StoreError):
            store.create_session("kept")
    assert [session.id for session in store.list_sessions(5)] == ["kept"]


def list_temporary_files() -> list[str]:
    """Return the open temporary files of SQLite. They have no name in the file system."""
    open_files = []
    for handle in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            open_files.append(os.readlink(f"/proc/self/fd/{handle}"))
    return [name for name in open_files if "etilqs" in name]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists open files")
def test_temporary_data_of_savepoints_is_kept_in_memory(store: Store) -> None:
    def change(title: str) -> list[str]:
        with store.transaction() as connection:
            connection.execute("update sessions set agent_title = ?", (title * 16_000,))
            temporary_files = list_temporary_files()
            if title == "lost":
                raise RuntimeError(title)
        return temporary_files

    def change_in_parts() -> list[str]:
        with store.transaction():
            change("a")
            temporary_files = change("b")
            with pytest.raises(RuntimeError):
                change("lost")
            return temporary_files

    for number in range(20):
        store.create_session(f"s{number}")
    with store.temp_store_in_memory():
        assert change_in_parts() == []
    assert store.get_session("s0").agent_title == "b" * 16_000
    assert change_in_parts() != []


def test_closing_while_other_threads_read_does_not_crash(tmp_path: Path) -> None:
    """SQLite crashes the process when a connection is closed while a thread uses it."""
    for number in range(30):
        store = Store.open(tmp_path / f"{number}.db")
        for name in "abcdef":
            store.create_session(name, title="x" * 2000)
        barrier = threading.Barrier(5)

        def read(store: Store = store, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            with suppress(StoreError):
                while True:
                    store.list_sessions(100)
                    store.search.find("x*")

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        barrier.wait()
        store.close()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
