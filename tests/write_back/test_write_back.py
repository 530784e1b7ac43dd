"""What holds for every store that edits are carried into: backed up, compared, all or nothing, and taken back."""

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
LIVE, ALONE = (pingu, kiso), (rubichan, wuhu)
every = pytest.mark.parametrize("made", [*LIVE, *ALONE])
live = pytest.mark.parametrize("made", LIVE)
alone = pytest.mark.parametrize("made", ALONE)


def backups(store: Store) -> list[Path]:
    return sorted(Path(f"{store.path}.backups/foreign").glob("*"))


def backups_of(world: WriteBackCase) -> list[Path]:
    preview = world.preview()
    return world.store.write_back.list_backups(preview.source, preview.locator)


def unwritten(world: WriteBackCase, refusal: type[Exception], words: str, action: Callable[[], object]) -> None:
    """It is refused with these words, and neither store says anything else than before."""
    rows, told, edit = world.foreign_rows(), world.stored_rows(), world.newest_edit()
    with pytest.raises(refusal, match=words):
        action()
    assert (world.foreign_rows(), world.stored_rows(), world.newest_edit()) == (rows, told, edit)


# ── what is shown, what is done ───────────────────────────────────────────────────────────────────


@every
def test_nothing_to_write_is_nothing_written(store: Store, tmp_path: Path, made: Maker) -> None:
    world = WriteBackCase(store, made(tmp_path))
    before = world.foreign_rows()
    assert world.preview().plan.changes == []
    assert world.write() is None
    assert (world.foreign_rows(), store.journal.list_edits(), backups(store)) == (before, [], [])


@every
def test_the_same_title_is_nothing_to_write(store: Store, tmp_path: Path, made: Maker) -> None:
    assert WriteBackCase(store, made(tmp_path)).set_title("Theirs").preview().plan.changes == []


@every
def test_a_session_that_is_not_there_any_more(store: Store, tmp_path: Path, made: Maker) -> None:
    world = WriteBackCase(store, made(tmp_path))
    world.delete_session().write()
    assert world.session.gone
    assert world.preview().plan.changes == []
    assert world.write() is None
    store.sessions.restore([world.session])
    world.set_title()
    unwritten(world, ChangedMeanwhile, "does not have the session 's' any more; your edits stay here", world.write)


def test_a_session_of_our_own_has_nowhere_to_go(store: Store) -> None:
    session = store.create_session("ours")
    with pytest.raises(Refused, match="was not synced from an agent"):
        store.write_back.preview(session)


def test_what_a_program_told_once_is_not_written_back(store: Store, tmp_path: Path) -> None:
    world = WriteBackCase(store, rubichan(tmp_path))
    execute_sql(world.path, "update messages set content = '[]'")
    world.sync()
    (old,) = store.sessions.children(world.session.id)
    with pytest.raises(Refused, match="an old version of a session"):
        store.write_back.preview(old)


@every
def test_a_store_that_is_not_there_any_more(store: Store, tmp_path: Path, made: Maker) -> None:
    world = WriteBackCase(store, made(tmp_path)).set_title()
    for file in tmp_path.glob(f"{world.path.name}*"):
        file.unlink()
    with pytest.raises(Unreadable):
        world.preview()


@every
def test_what_is_edited_here_after_it_was_shown_is_refused(store: Store, tmp_path: Path, made: Maker) -> None:
    world = WriteBackCase(store, made(tmp_path)).set_title()
    preview = world.preview()
    world.set_title("Mine again")
    unwritten(world, ChangedMeanwhile, "edited here since the preview", lambda: store.write_back.write(preview))
    deletion = world.delete_session().preview()
    store.sessions.restore([world.session])
    unwritten(world, ChangedMeanwhile, "edited here since the preview", lambda: store.write_back.write(deletion))


# ── backups ───────────────────────────────────────────────────────────────────────────────────────


@every
def test_a_backup_is_taken_first_and_is_private(store: Store, tmp_path: Path, made: Maker) -> None:
    world = WriteBackCase(store, made(tmp_path)).set_title()
    before = world.foreign_rows()
    backup = world.write()
    assert backups(store) == [backup]
    assert backups_of(world) == [backup]
    assert backup is not None
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(backup.parent.stat().st_mode) == 0o700
    assert dump_tables(backup) == before


def test_five_of_each_store_are_kept(store: Store, tmp_path: Path) -> None:
    other = WriteBackCase(store, rubichan(tmp_path)).set_title()
    kept = other.write()
    store.sessions.purge([other.session])
    world = WriteBackCase(store, pingu(tmp_path))
    for number in range(7):
        world.set_title(f"Mine {number}").write()
    newest, *older = backups_of(world)
    assert len(older) == 4
    assert kept in backups(store)
    assert [row["title"] for row in dump_tables(newest)["sessions"]] == ["Mine 5"]


def test_a_backup_holds_what_stands_in_the_log_alone(store: Store, tmp_path: Path) -> None:
    """A program that was killed leaves its log behind, and what it said last stands nowhere else."""
    path = pingu(tmp_path)
    with open_in_other_process(path, "update sessions set summary = 'in the log'"):
        copy = tmp_path / "killed.db"
        for ending in ("", "-wal"):
            shutil.copyfile(f"{path}{ending}", f"{copy}{ending}")
    assert b"in the log" not in copy.read_bytes()
    backup = WriteBackCase(store, copy).set_title().write()
    assert backup is not None
    assert dump_tables(backup)["sessions"][0]["summary"] == "in the log"


def test_without_a_backup_nothing_is_written(store: Store, tmp_path: Path) -> None:
    world = WriteBackCase(store, pingu(tmp_path)).set_title()
    Path(f"{store.path}.backups").touch()
    unwritten(world, WriteFailed, "No backup of .* could be made", world.write)


# ── whoever else is there ─────────────────────────────────────────────────────────────────────────


@alone
def test_a_file_that_is_open_anywhere_is_refused(store: Store, tmp_path: Path, made: Maker) -> None:
    world = WriteBackCase(store, made(tmp_path)).set_title()
    other_name = tmp_path / "link"
    os.link(world.path, other_name)
    for name in (world.path, other_name):
        with open_in_other_process(name, "select * from sessions") as pid:
            unwritten(world, Busy, f"is open in process {pid}; close that program first", world.write)
    assert backups(store) == []
    world.write()
    with open_in_other_process(world.path, "select * from sessions") as pid:
        unwritten(world, Busy, f"is open in process {pid}", store.journal.undo)
    check_round_trip(WriteBackCase(store, world.path).set_title("Mine again"))


@alone
def test_who_opens_it_at_the_last_moment_is_seen(
    store: Store, tmp_path: Path, made: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backup takes its time, and a program may start meanwhile."""
    world = WriteBackCase(store, made(tmp_path)).set_title()
    take = sqlite.back_up
    with ExitStack() as stack:

        def take_long(*given: Any) -> Path:
            taken = take(*given)
            stack.enter_context(open_in_other_process(world.path, "select * from sessions"))
            return taken

        monkeypatch.setattr(sqlite, "back_up", take_long)
        unwritten(world, Busy, "is open in process", world.write)


@live
def test_a_file_that_is_open_elsewhere_is_written(store: Store, tmp_path: Path, made: Maker) -> None:
    world = WriteBackCase(store, made(tmp_path)).set_title()
    with open_in_other_process(world.path, "begin", "select * from sessions"):
        check_round_trip(world)


@live
def test_a_locked_file_is_refused_in_a_sentence(
    store: Store, tmp_path: Path, made: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOCK_TIMEOUT_SECONDS", 0.05)
    world = WriteBackCase(store, made(tmp_path)).set_title()
    with open_in_other_process(world.path, "begin exclusive"):
        unwritten(world, Busy, f"Another program is writing to {world.path}; try again in a moment.", world.write)
    world.write()
    with open_in_other_process(world.path, "begin exclusive"):
        unwritten(world, Busy, "Another program is writing", store.journal.undo)


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
    ("made", "table", "patience"),
    [
        (pingu, "turns (session_id, user_message, response_json) values ('s', :n, '{}')", 0.0),
        (kiso, "messages (session, role, content, processed) values ('s', 'user', :n, 1)", 5.0),
    ],
)
def test_its_program_may_write_meanwhile(
    store: Store, tmp_path: Path, made: Maker, table: str, patience: float
) -> None:
    world = WriteBackCase(store, made(tmp_path))
    command = [sys.executable, "-c", _OWNER, str(world.path), table, str(patience)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        assert owner.stdout.readline() == "ready\n"
        for number in range(10):
            world.set_title(f"Mine {number}").write()
            time.sleep(0.01)
        said, _ = owner.communicate("enough\n")
    saved, failed = map(int, said.split())
    rows = world.foreign_rows()
    assert saved > 0
    assert len(rows[table.split()[0]]) == saved + 1
    assert failed == 0 or patience == 0
    assert "Mine 9" in rows["sessions"][0].values()


@pytest.mark.skipif(shutil.which("lsof") is None, reason="there is no lsof here")
def test_where_there_is_no_proc_another_program_tells_who_has_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rubichan(tmp_path)
    monkeypatch.setattr(processes, "PROC", tmp_path / "nowhere")
    assert processes.find_processes_using(path) == []
    with open_in_other_process(path, "select * from sessions") as pid:
        assert processes.find_processes_using(path) == [pid]
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match="install lsof"):
        processes.find_processes_using(path)


def test_a_schema_that_never_ends_holds_its_owner_up_no_longer_than_we_may(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MAX_TRANSACTION_SECONDS", 0.2)
    path = pingu(tmp_path)
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"create trigger trap after update on sessions begin {endless}; end")
    world = WriteBackCase(store, path).set_title()
    unwritten(world, WriteFailed, "nothing was changed there: interrupted", world.write)


# ── undo ──────────────────────────────────────────────────────────────────────────────────────────


@every
def test_what_was_changed_there_since_it_was_written_is_not_undone(store: Store, tmp_path: Path, made: Maker) -> None:
    world = WriteBackCase(store, made(tmp_path)).set_title()
    world.write()
    column = next(name for name, value in world.foreign_rows()["sessions"][0].items() if value == "Mine")
    execute_sql(world.path, f"update sessions set {column} = 'Theirs again'")
    unwritten(world, ChangedMeanwhile, "sessions s in .* has changed, so nothing was written", store.journal.undo)


@every
def test_what_was_made_anew_there_is_not_undone(store: Store, tmp_path: Path, made: Maker) -> None:
    world = WriteBackCase(store, made(tmp_path)).delete_session()
    deletion = world.preview().plan.changes[-1]
    world.write()
    row = {**deletion.key, **(deletion.before or {})}
    marks = ", ".join("?" * len(row))
    execute_sql(world.path, f"insert into sessions ({', '.join(row)}) values ({marks})", [tuple(row.values())])
    unwritten(world, ChangedMeanwhile, "has changed, so nothing was written", store.journal.undo)


@every
def test_an_undo_of_a_purged_session_s_write_back_is_refused(store: Store, tmp_path: Path, made: Maker) -> None:
    world = WriteBackCase(store, made(tmp_path)).set_title()
    world.write()
    edit, rows = world.newest_edit(), world.foreign_rows()
    store.sessions.purge([world.session])
    with pytest.raises(Refused, match="its data was purged"):
        store.journal.undo(edit.id)
    with pytest.raises(NotFound):
        world.preview()
    assert world.foreign_rows() == rows
    assert b"Theirs" not in store.path.read_bytes()


def test_of_a_purged_session_not_even_its_store_s_facts_are_half_undone(store: Store, tmp_path: Path) -> None:
    path = pingu(tmp_path)
    execute_sql(path, "insert into memories (content) values ('Runs Debian')")
    world = WriteBackCase(store, path).set_title()
    store.facts.edit(world.fact_id("Runs Debian"), "Runs Debian 13")
    world.write()
    edit = world.newest_edit()
    store.sessions.purge([world.session])
    with pytest.raises(Refused, match="was purged"):
        store.journal.undo(edit.id)
    assert store.facts.current(None)[0].foreign_text == "Runs Debian 13"


@every
def test_theirs_goes_back_when_ours_cannot_be_written(store: Store, tmp_path: Path, made: Maker) -> None:
    """What was done there and stands in no journal could never be undone."""
    world = WriteBackCase(store, made(tmp_path)).set_title()
    store.connection.execute("create trigger full before insert on edits begin select raise(abort, 'no room'); end")
    unwritten(world, Refused, "no room", world.write)
    store.connection.execute("drop trigger full")
    world.write()
    store.connection.execute("create trigger full before insert on edits begin select raise(abort, 'no room'); end")
    unwritten(world, Refused, "no room", store.journal.undo)


@every
def test_an_undo_is_backed_up_too(store: Store, tmp_path: Path, made: Maker) -> None:
    world = WriteBackCase(store, made(tmp_path)).set_title()
    world.write()
    written = world.foreign_rows()
    store.journal.undo()
    assert dump_tables(backups_of(world)[0]) == written
