"""These tests cover what all write-backs share: backup, comparison, all or nothing, undo."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import (
    PINGU_MEMORIES_SCHEMA,
    PINGU_SCHEMA,
    RUBICHAN_LATEST_SCHEMA,
    add_pingu_session,
    add_rubichan_session,
    execute_sql,
    make_database,
    pingu_native_response,
)
from kiso_database import LATEST_SCHEMA, KisoStore
from write_back_roundtrip import WriteBackCase, check_round_trip, dump_tables, open_in_other_process
from wuhu_database import WuhuStore

from store.errors import Busy, ChangedMeanwhile, NotFound, Refused, Unreadable, WriteFailed
from store.store import Store
from store.write_back import processes, sqlite

ANSWER = pingu_native_response({"type": "message", "content": "hi"})


def pingu(folder: Path) -> Path:
    path = make_database(folder / "pingu.db", PINGU_SCHEMA + PINGU_MEMORIES_SCHEMA, wal=True)
    add_pingu_session(path, "s", ("hello", ANSWER), title="Theirs")
    return path


def kiso(folder: Path) -> Path:
    owner = KisoStore(folder / "kiso.db", LATEST_SCHEMA)
    owner.add_session("s", description="Theirs")
    owner.add_message("hello", session="s")
    return owner.path


def rubichan(folder: Path) -> Path:
    path = make_database(folder / "rubichan.db", RUBICHAN_LATEST_SCHEMA)
    add_rubichan_session(path, "s", ("user", "hello"), title="Theirs")
    return path


def wuhu(folder: Path) -> Path:
    owner = WuhuStore(folder / "wuhu.sqlite")
    owner.add_session("s", customTitle="Theirs")
    owner.append_user_messages("hello")
    return owner.path


Maker = Callable[[Path], Path]
LIVE, EXCLUSIVE = (pingu, kiso), (rubichan, wuhu)
all_stores = pytest.mark.parametrize("make_store", [*LIVE, *EXCLUSIVE])
live = pytest.mark.parametrize("make_store", LIVE)
exclusive = pytest.mark.parametrize("make_store", EXCLUSIVE)


def backups(store: Store) -> list[Path]:
    return sorted(Path(f"{store.path}.backups/foreign").glob("*"))


def backups_of(case: WriteBackCase) -> list[Path]:
    preview = case.preview()
    return case.store.write_back.list_backups(preview.source, preview.locator)


def check_refused(case: WriteBackCase, error: type[Exception], message: str, action: Callable[[], object]) -> None:
    """Check that an action is refused with this message and changes neither store."""
    foreign, stored, edit = case.foreign_rows(), case.stored_rows(), case.newest_edit()
    with pytest.raises(error, match=message):
        action()
    assert (case.foreign_rows(), case.stored_rows(), case.newest_edit()) == (foreign, stored, edit)


# ── previews ──────────────────────────────────────────────────────────────────────────────────────


@all_stores
def test_without_edits_nothing_is_written(store: Store, tmp_path: Path, make_store: Maker) -> None:
    case = WriteBackCase(store, make_store(tmp_path))
    before = case.foreign_rows()
    assert case.preview().plan.changes == []
    assert case.write() is None
    assert (case.foreign_rows(), store.journal.list_edits(), backups(store)) == (before, [], [])


@all_stores
def test_the_same_title_is_nothing_to_write(store: Store, tmp_path: Path, make_store: Maker) -> None:
    assert WriteBackCase(store, make_store(tmp_path)).set_title("Theirs").preview().plan.changes == []


@all_stores
def test_a_session_that_is_gone(store: Store, tmp_path: Path, make_store: Maker) -> None:
    case = WriteBackCase(store, make_store(tmp_path))
    case.delete_session().write()
    assert case.session.gone
    assert case.preview().plan.changes == []
    assert case.write() is None
    store.sessions.restore([case.session])
    case.set_title()
    check_refused(case, ChangedMeanwhile, "the session 's' any more. Your edits stay in Backscroll", case.write)


def test_a_session_without_a_source_is_refused(store: Store) -> None:
    session = store.create_session("ours")
    with pytest.raises(Refused, match="was not synced from an agent"):
        store.write_back.preview(session)


def test_a_superseded_session_is_refused(store: Store, tmp_path: Path) -> None:
    case = WriteBackCase(store, rubichan(tmp_path))
    execute_sql(case.path, "update messages set content = '[]'")
    case.sync()
    (old,) = store.sessions.children(case.session.id)
    with pytest.raises(Refused, match="an old version of a session"):
        store.write_back.preview(old)


@all_stores
def test_a_foreign_store_that_is_gone(store: Store, tmp_path: Path, make_store: Maker) -> None:
    case = WriteBackCase(store, make_store(tmp_path)).set_title()
    for file in tmp_path.glob(f"{case.path.name}*"):
        file.unlink()
    with pytest.raises(Unreadable):
        case.preview()


@all_stores
def test_an_edit_since_the_preview_is_refused(store: Store, tmp_path: Path, make_store: Maker) -> None:
    case = WriteBackCase(store, make_store(tmp_path)).set_title()
    preview = case.preview()
    case.set_title("Mine again")
    check_refused(case, ChangedMeanwhile, "edited here since the preview", lambda: store.write_back.write(preview))
    deletion = case.delete_session().preview()
    store.sessions.restore([case.session])
    check_refused(case, ChangedMeanwhile, "edited here since the preview", lambda: store.write_back.write(deletion))


# ── backups ───────────────────────────────────────────────────────────────────────────────────────


@all_stores
def test_a_backup_is_taken_first_and_is_private(store: Store, tmp_path: Path, make_store: Maker) -> None:
    case = WriteBackCase(store, make_store(tmp_path)).set_title()
    before = case.foreign_rows()
    backup = case.write()
    assert backups(store) == [backup]
    assert backups_of(case) == [backup]
    assert backup is not None
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(backup.parent.stat().st_mode) == 0o700
    assert dump_tables(backup) == before


def test_five_of_each_store_are_kept(store: Store, tmp_path: Path) -> None:
    other = WriteBackCase(store, rubichan(tmp_path)).set_title()
    other_backup = other.write()
    store.sessions.purge([other.session])
    case = WriteBackCase(store, pingu(tmp_path))
    for number in range(7):
        case.set_title(f"Mine {number}").write()
    newest, *older = backups_of(case)
    assert len(older) == 4
    assert other_backup in backups(store)
    assert [row["title"] for row in dump_tables(newest)["sessions"]] == ["Mine 5"]


def test_a_backup_includes_the_wal_file(store: Store, tmp_path: Path) -> None:
    """A program that was killed leaves its newest rows in the WAL file only."""
    path = pingu(tmp_path)
    with open_in_other_process(path, "update sessions set summary = 'in the log'"):
        copy = tmp_path / "killed.db"
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
    assert b"in the log" not in copy.read_bytes()
    backup = WriteBackCase(store, copy).set_title().write()
    assert backup is not None
    assert dump_tables(backup)["sessions"][0]["summary"] == "in the log"


def test_without_a_backup_nothing_is_written(store: Store, tmp_path: Path) -> None:
    case = WriteBackCase(store, pingu(tmp_path)).set_title()
    Path(f"{store.path}.backups").touch()
    check_refused(case, WriteFailed, "No backup of .* could be made", case.write)


# ── other processes ───────────────────────────────────────────────────────────────────────────────


@exclusive
def test_a_file_that_is_open_anywhere_is_refused(store: Store, tmp_path: Path, make_store: Maker) -> None:
    case = WriteBackCase(store, make_store(tmp_path)).set_title()
    other_name = tmp_path / "link"
    os.link(case.path, other_name)
    for name in (case.path, other_name):
        with open_in_other_process(name, "select * from sessions") as pid:
            check_refused(case, Busy, f"is open in process {pid}. Close that program first", case.write)
    assert backups(store) == []
    case.write()
    with open_in_other_process(case.path, "select * from sessions") as pid:
        check_refused(case, Busy, f"is open in process {pid}", store.journal.undo)
    check_round_trip(WriteBackCase(store, case.path).set_title("Mine again"))


@exclusive
def test_a_program_that_opens_the_file_during_the_backup_is_noticed(
    store: Store, tmp_path: Path, make_store: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup takes time, and a program may start while it runs."""
    case = WriteBackCase(store, make_store(tmp_path)).set_title()
    back_up = sqlite.back_up
    with ExitStack() as stack:

        def back_up_slowly(*args: Any) -> Path:
            backup = back_up(*args)
            stack.enter_context(open_in_other_process(case.path, "select * from sessions"))
            return backup

        monkeypatch.setattr(sqlite, "back_up", back_up_slowly)
        check_refused(case, Busy, "is open in process", case.write)


@live
def test_a_file_that_is_open_elsewhere_is_written(store: Store, tmp_path: Path, make_store: Maker) -> None:
    case = WriteBackCase(store, make_store(tmp_path)).set_title()
    with open_in_other_process(case.path, "begin", "select * from sessions"):
        check_round_trip(case)


@live
def test_a_locked_file_is_refused(
    store: Store, tmp_path: Path, make_store: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOCK_TIMEOUT_SECONDS", 0.05)
    case = WriteBackCase(store, make_store(tmp_path)).set_title()
    with open_in_other_process(case.path, "begin exclusive"):
        check_refused(case, Busy, f"Another program is writing to {case.path}. Try again in a moment.", case.write)
    case.write()
    with open_in_other_process(case.path, "begin exclusive"):
        check_refused(case, Busy, "Another program is writing", store.journal.undo)


_OWNER = """
import sqlite3, sys, time
path, table, timeout = sys.argv[1], sys.argv[2], float(sys.argv[3])
connection = sqlite3.connect(path, timeout=timeout, isolation_level=None)
print("ready", flush=True)
saved = failed = 0
while not (saved and sys.stdin in __import__("select").select([sys.stdin], [], [], 0.002)[0]):
    try:
        connection.execute(f"insert into {table}", {"n": saved})
        saved += 1
    except sqlite3.OperationalError:
        failed += 1
print(saved, failed, flush=True)
"""


@pytest.mark.parametrize(
    ("make_store", "table", "timeout"),
    [
        (pingu, "turns (session_id, user_message, response_json) values ('s', :n, '{}')", 0.0),
        (kiso, "messages (session, role, content, processed) values ('s', 'user', :n, 1)", 5.0),
    ],
)
def test_the_agent_may_write_at_the_same_time(
    store: Store, tmp_path: Path, make_store: Maker, table: str, timeout: float
) -> None:
    case = WriteBackCase(store, make_store(tmp_path))
    command = [sys.executable, "-c", _OWNER, str(case.path), table, str(timeout)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        assert owner.stdout.readline() == "ready\n"
        for number in range(10):
            case.set_title(f"Mine {number}").write()
            time.sleep(0.01)
        output, _ = owner.communicate("enough\n")
    saved, failed = map(int, output.split())
    rows = case.foreign_rows()
    assert saved > 0
    assert len(rows[table.split()[0]]) == saved + 1
    assert failed == 0 or timeout == 0
    assert "Mine 9" in rows["sessions"][0].values()


@pytest.mark.skipif(shutil.which("lsof") is None, reason="lsof is not installed")
def test_without_proc_lsof_finds_the_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = rubichan(tmp_path)
    monkeypatch.setattr(processes, "PROC", tmp_path / "nowhere")
    assert processes.find_processes_using(path) == []
    with open_in_other_process(path, "select * from sessions") as pid:
        assert processes.find_processes_using(path) == [pid]
        monkeypatch.setattr(processes, "_FILES_AT_ONCE", 1)
        assert processes.find_users([path, tmp_path]) == {path: [pid], tmp_path: []}
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match="Install lsof"):
        processes.find_processes_using(path)


def test_a_trigger_that_never_ends_is_interrupted(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MAX_TRANSACTION_SECONDS", 0.2)
    path = pingu(tmp_path)
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"create trigger trap after update on sessions begin {endless}; end")
    case = WriteBackCase(store, path).set_title()
    check_refused(case, WriteFailed, "interrupted. Nothing was changed there", case.write)


# ── undo ──────────────────────────────────────────────────────────────────────────────────────────


@all_stores
def test_a_foreign_change_since_the_write_back_is_not_undone(store: Store, tmp_path: Path, make_store: Maker) -> None:
    case = WriteBackCase(store, make_store(tmp_path)).set_title()
    case.write()
    column = next(name for name, value in case.foreign_rows()["sessions"][0].items() if value == "Mine")
    execute_sql(case.path, f"update sessions set {column} = 'Theirs again'")
    check_refused(case, ChangedMeanwhile, "sessions s in .* has changed, so nothing was written", store.journal.undo)


@all_stores
def test_a_deletion_whose_row_exists_again_is_not_undone(store: Store, tmp_path: Path, make_store: Maker) -> None:
    case = WriteBackCase(store, make_store(tmp_path)).delete_session()
    deletion = case.preview().plan.changes[-1]
    case.write()
    row = {**deletion.key, **(deletion.before or {})}
    placeholders = ", ".join("?" * len(row))
    execute_sql(case.path, f"insert into sessions ({', '.join(row)}) values ({placeholders})", [tuple(row.values())])
    check_refused(case, ChangedMeanwhile, "has changed, so nothing was written", store.journal.undo)


@all_stores
def test_an_undo_of_a_purged_session_s_write_back_is_refused(store: Store, tmp_path: Path, make_store: Maker) -> None:
    case = WriteBackCase(store, make_store(tmp_path)).set_title()
    case.write()
    edit, rows = case.newest_edit(), case.foreign_rows()
    store.sessions.purge([case.session])
    with pytest.raises(Refused, match="its data was purged"):
        store.journal.undo(edit.id)
    with pytest.raises(NotFound):
        case.preview()
    assert case.foreign_rows() == rows
    assert b"Theirs" not in store.path.read_bytes()


def test_a_purged_session_prevents_the_undo_of_facts_too(store: Store, tmp_path: Path) -> None:
    path = pingu(tmp_path)
    execute_sql(path, "insert into memories (content) values ('Runs Debian')")
    case = WriteBackCase(store, path).set_title()
    store.facts.edit(case.fact_id("Runs Debian"), "Runs Debian 13")
    case.write()
    edit = case.newest_edit()
    store.sessions.purge([case.session])
    with pytest.raises(Refused, match="was purged"):
        store.journal.undo(edit.id)
    assert store.facts.current(None)[0].foreign_text == "Runs Debian 13"


@all_stores
def test_foreign_rows_are_restored_when_ours_cannot_be_written(store: Store, tmp_path: Path, make_store: Maker) -> None:
    """A change that is not in the journal could never be undone."""
    case = WriteBackCase(store, make_store(tmp_path)).set_title()
    store.connection.execute("create trigger full before insert on edits begin select raise(abort, 'no room'); end")
    check_refused(case, Refused, "no room", case.write)
    store.connection.execute("drop trigger full")
    case.write()
    store.connection.execute("create trigger full before insert on edits begin select raise(abort, 'no room'); end")
    check_refused(case, Refused, "no room", store.journal.undo)


@all_stores
def test_an_undo_is_backed_up_too(store: Store, tmp_path: Path, make_store: Maker) -> None:
    case = WriteBackCase(store, make_store(tmp_path)).set_title()
    case.write()
    written = case.foreign_rows()
    store.journal.undo()
    assert dump_tables(backups_of(case)[0]) == written
