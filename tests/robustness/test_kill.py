"""These tests kill processes at random times: acknowledged writes are kept, and no write is partial.

Each test kills a hundred times, or as often as BACKSCROLL_KILLS says. A power cut is not tested, because the kernel
continues to run.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from child_processes import (
    ForkServer,
    append_and_pack_until_killed,
    append_messages,
    append_until_stopped,
    die_while_migrating,
    edit_until_killed,
    editable_state,
    migrate,
    newest_edit_id,
    start_fork_server,
    store_first_secret,
    text_digest,
)
from sqlite_utils import Database
from store_integrity import find_faults

from store.database.backup import list_backups
from store.database.connection import APPLICATION_ID, LAST_REWRITING_MIGRATION
from store.database.migrations import migrations
from store.doctor import check_store
from store.store import Store

# This is read on import, because tests run without our environment variables.
KILLS = int(os.environ.get("BACKSCROLL_KILLS", "100"))
RUNS_IN_A_STORE = 10


def iter_kill_times() -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the number of each kill, and its time: after some acknowledgements and a short delay.

    This does not depend on the load of the machine.
    """
    for n in range(KILLS):
        yield n, {"report_count": 1 + n % 6, "kill_after": random.uniform(0, 0.03)}


class KillTimer:
    """Chooses delays so that about as many kills happen before an event as after it, on a machine with any load."""

    def __init__(self, first_estimate: float) -> None:
        self.estimate = first_estimate
        self.before = self.after = 0

    def next_delay(self) -> float:
        return random.uniform(0.5, 1.5) * self.estimate

    def record(self, after: bool) -> None:
        self.after += after
        self.before += not after
        self.estimate *= 0.85 if after else 1.18

    def is_even(self) -> bool:
        return min(self.before, self.after) >= (self.before + self.after) // 5


# ── appends ───────────────────────────────────────────────────────────────────────────────────────


def find_missing(path: Path, acknowledged: dict[str, str]) -> dict[str, str]:
    """Return the acknowledged entries that are missing or have another text."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("select id || '#' || seq, text from sessions join entries on session = sessions.key")
        stored = {entry: text_digest(text) for entry, text in rows}
    return {entry: digest for entry, digest in acknowledged.items() if stored.get(entry) != digest}


def test_killed_while_appending(tmp_path: Path, children: ForkServer) -> None:
    acknowledged: dict[str, str] = {}
    path = tmp_path / "store.db"
    for n, kill_time in iter_kill_times():
        if n % RUNS_IN_A_STORE == 0:
            path, acknowledged = tmp_path / f"{n}.db", {}
        outcome = children.run(append_until_stopped, str(path), f"child{n}", **kill_time)
        assert outcome.refusal + outcome.crash == ""
        acknowledged |= dict(outcome.messages[1:])
        assert find_faults(path) == []
        assert find_missing(path, acknowledged) == {}
        if n % RUNS_IN_A_STORE == RUNS_IN_A_STORE - 1:
            assert len(acknowledged) > RUNS_IN_A_STORE
            with Store.open(path) as store:
                assert check_store(store) == []


def test_killed_while_packing(tmp_path: Path, children: ForkServer) -> None:
    acknowledged: dict[str, str] = {}
    path = tmp_path / "store.db"
    for n, kill_time in itertools.islice(iter_kill_times(), KILLS // 3):
        outcome = children.run(append_and_pack_until_killed, str(path), f"child{n}", **kill_time)
        assert outcome.refusal + outcome.crash == ""
        acknowledged |= dict(message for message in outcome.messages if isinstance(message, list))
        assert find_faults(path) == []
        assert find_missing(path, acknowledged) == {}
    with Store.open(path) as store:
        assert check_store(store) == []
        assert store.row("select count(*) from blocks where packed = 1")[0]


def test_a_killed_writer_does_not_block_others(tmp_path: Path, children: ForkServer) -> None:
    path, stop = tmp_path / "store.db", tmp_path / "stop"
    acknowledged: dict[str, str] = {}
    with start_fork_server() as other_server:
        other_server.submit(append_until_stopped, str(path), "neighbour", str(stop))
        for n, kill_time in itertools.islice(iter_kill_times(), KILLS // 3):
            killed = children.run(append_until_stopped, str(path), f"child{n}", **kill_time)
            assert killed.refusal + killed.crash == ""
            acknowledged |= dict(killed.messages[1:])
        later = children.run(append_messages, str(path), "afterwards", 10)
        stop.touch()
        other = other_server.receive()
    assert other.refusal + other.crash + later.refusal + later.crash == ""
    assert len(other.messages) > 1
    assert find_faults(path) == []
    assert find_missing(path, acknowledged | dict(other.messages[1:])) == {}


# ── edits ─────────────────────────────────────────────────────────────────────────────────────────


def create_two_sessions(path: Path) -> None:
    with Store.open(path) as store:
        for name in ("one", "two"):
            store.create_session(name)
            store.append_message(name, "user", "hello")


def test_killed_while_editing(tmp_path: Path, children: ForkServer) -> None:
    """There is at most one edit more than was acknowledged, and the journal can undo each edit completely."""
    edits = 0
    path = tmp_path / "store.db"
    for n, kill_time in iter_kill_times():
        if n % RUNS_IN_A_STORE == 0:
            path = tmp_path / f"{n}.db"
            create_two_sessions(path)
        outcome = children.run(edit_until_killed, str(path), n, **kill_time)
        assert outcome.refusal + outcome.crash == ""
        assert find_faults(path) == []
        acknowledged = outcome.messages[-1][0]
        last_seen, state = [acknowledged for acknowledged in outcome.messages if acknowledged[1] is not None][-1]
        edits += acknowledged - outcome.messages[0][0]
        with Store.open(path) as store:
            assert newest_edit_id(store) in (acknowledged, acknowledged + 1)
            for number in range(newest_edit_id(store), last_seen, -1):
                store.journal.undo(number)
            assert editable_state(store) == state
            assert store.secrets.verify() == []
            assert n % RUNS_IN_A_STORE or check_store(store) == []
    assert edits > KILLS


def test_killed_while_storing_the_first_secret(tmp_path: Path, children: ForkServer) -> None:
    """The first secret also creates the vault and the key file.

    A damaged key file would make later secrets unusable.
    """
    timer = KillTimer(first_estimate=0.01)
    for n in range(KILLS):
        folder = tmp_path / str(n)
        path, config = folder / "store.db", folder / "config"
        create_two_sessions(path)
        outcome = children.run(store_first_secret, str(path), str(config), kill_after=timer.next_delay())
        assert outcome.refusal + outcome.crash == ""
        with pytest.MonkeyPatch.context() as patch, Store.open(path) as store:
            patch.setenv("XDG_CONFIG_HOME", str(config))
            session = store.get_session("one")
            secrets = {name.key: store.secrets.get(session, name.key) for name in store.secrets.names()}
            assert secrets in ({}, {"TOKEN": "first"})
            assert secrets or "stored" not in outcome.messages
            assert len(store.journal.list_edits()) == len(secrets)
            store.secrets.set(session, "TOKEN", "second")
            assert store.secrets.get(session, "TOKEN") == "second"
            assert store.secrets.verify() == []
        timer.record(after=bool(secrets))
    assert timer.is_even(), vars(timer)


# ── migrations ────────────────────────────────────────────────────────────────────────────────────

NOTES = 1_500


def create_old_store(path: Path) -> None:
    """Create a store of the previous version, large enough that a migration takes a while."""
    names = [migration.name for migration in migrations.pending(Database(memory=True))]
    db = Database(path)
    migrations.apply(db, stop_before=names[-1])
    db.execute(f"pragma application_id = {APPLICATION_ID}")
    db.execute(f"pragma user_version = {len(names) - 1}")
    with db.atomic():
        db.table("sessions").insert_all(
            {"key": n, "id": f"s{n}", "native_id": f"s{n}", "created_at": "2026", "updated_at": "2026"}
            for n in range(1, 301)
        )
        db.table("notes").insert_all(
            {"id": n, "session": n % 300 + 1, "text": f"note {n} " * 20, "created_at": "2026"} for n in range(1, NOTES)
        )
    db.close()


KEPT_TABLES = "select name from sqlite_master where type = 'table' and sql not like 'create virtual%'"
"""Selects ordinary tables. They include the contents of the indexes, which cannot all be read directly."""


def read_database(path: Path) -> dict[str, Any]:
    """Return everything in the file, except the times of migrations."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        tables = [name for (name,) in connection.execute(KEPT_TABLES)]
        return {
            "version": connection.execute("pragma user_version").fetchone(),
            "schema": connection.execute("select type, name, sql from sqlite_master order by 1, 2").fetchall(),
            "migrations": connection.execute("select name from _sqlite_migrations order by id").fetchall(),
        } | {
            name: connection.execute(f"select * from {name}").fetchall()
            for name in tables
            if name != "_sqlite_migrations"
        }


def test_killed_while_migrating(tmp_path: Path, children: ForkServer) -> None:
    """The store is completely old or completely new, with about as many kills before the commit as after it."""
    first, path = tmp_path / "first.db", tmp_path / "store.db"
    create_old_store(first)
    old = read_database(first)
    shutil.copy(first, path)
    timer = KillTimer(children.run(migrate, str(path)).seconds)
    new = read_database(path)
    assert new["version"] == (old["version"][0] + 2,)
    for n in range(KILLS):
        folder = tmp_path / str(n)
        folder.mkdir()
        path = Path(shutil.copy(first, folder / "store.db"))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"pragma journal_mode = {'wal' if n % 2 else 'delete'}")
        killed = children.run(migrate, str(path), True, kill_after=timer.next_delay())
        assert killed.refusal + killed.crash == ""
        stored = read_database(path)
        assert stored in (old, new)
        timer.record(after=stored == new)
        finished = children.run(migrate, str(path))
        assert finished.messages == ["ready", "done"], finished
        assert read_database(path) == new
        assert [read_database(copy) for copy in list_backups(path)][-1:] == [old]
        assert list(folder.rglob("*.part")) == []
        shutil.rmtree(folder)
    assert timer.is_even(), vars(timer)


STATEMENT_STEP = max(1, 1_000 // KILLS)


def create_very_old_store(path: Path, version: int = 3) -> None:
    """Create a store of the third version, whose index must be built again. It has entries, a summary and a secret."""
    names = [migration.name for migration in migrations.pending(Database(memory=True))]
    db = Database(path)
    migrations.apply(db, stop_before=names[version])
    db.execute(f"pragma application_id = {APPLICATION_ID}")
    db.execute(f"pragma user_version = {version}")
    with db.atomic():
        for n in range(1, 31):
            db.execute(
                "insert into sessions (key, id, native_id, created_at, updated_at, system_prompt, head, tail, entries)"
                " values (?1, 's' || ?1, 's' || ?1, '2026', '2026', hex(randomblob(2000)), ?1 * 2, ?1 * 2 + 1, 1)",
                (n,),
            )
            db.execute(
                "insert into entries (key, session, parent, seq, turn, kind, created_at)"
                " values (?1 * 2, ?1, null, -1, 0, 'header', '2026')",
                (n,),
            )
            db.execute(
                "insert into entries (key, session, parent, seq, turn, kind, role, text, created_at)"
                " values (?1 * 2 + 1, ?1, ?1 * 2, 0, 0, 'message', 'user', 'about narwhal ' || ?1, '2026')",
                (n,),
            )
        db.execute("insert into summaries (session, text, origin, created_at) values (1, 'kept', 'person', '2026')")
        db.execute("insert into secrets (session, key, version, sealed, created_at) values (1, 'K', 1, x'00', '2026')")
    db.close()


def test_killed_before_every_statement_of_a_migration(tmp_path: Path, children: ForkServer) -> None:
    """The old store is whole, in the file or in its log, and the next opening completes the migration."""
    first = tmp_path / "first.db"
    create_very_old_store(first)
    old = read_database(first)
    path = Path(shutil.copy(first, tmp_path / "store.db"))
    (count,) = children.run(die_while_migrating, str(path), 0).messages
    new = read_database(path)
    for n in range(1, count, STATEMENT_STEP):
        folder = tmp_path / str(n)
        folder.mkdir()
        path = Path(shutil.copy(first, folder / "store.db"))
        killed = children.run(die_while_migrating, str(path), n)
        assert (killed.messages, killed.refusal, killed.crash) == ([], "", "")
        assert read_database(path) in (old, new)
        with Store.open(path) as store:
            assert store.search.find("narwhal")[1] == 30
        assert read_database(path) == new
        assert [read_database(copy) for copy in list_backups(path)] == [old]
        shutil.rmtree(folder)


def test_killed_before_every_statement_of_a_migration_that_only_adds(tmp_path: Path, children: ForkServer) -> None:
    """No backup is made, and none is needed."""
    first = tmp_path / "first.db"
    create_very_old_store(first, LAST_REWRITING_MIGRATION)
    old = read_database(first)
    path = Path(shutil.copy(first, tmp_path / "store.db"))
    (count,) = children.run(die_while_migrating, str(path), 0).messages
    new = read_database(path)
    for n in range(1, count, STATEMENT_STEP):
        path = Path(shutil.copy(first, tmp_path / f"{n}.db"))
        killed = children.run(die_while_migrating, str(path), n)
        assert (killed.messages, killed.refusal, killed.crash) == ([], "", "")
        assert read_database(path) in (old, new)
        Store.open(path).close()
        assert read_database(path) == new
        assert list_backups(path) == []


def test_killed_in_the_middle_of_the_backup(tmp_path: Path, children: ForkServer) -> None:
    """What is left of the backup is removed. Backups of earlier versions stay, however often it is killed."""
    path = tmp_path / "store.db"
    create_very_old_store(path)
    old = read_database(path)
    backups = tmp_path / "store.db.backups"
    backups.mkdir()
    earlier = backups / "2025-01-01T000000.000000Z.db"
    earlier.write_text("an earlier version")
    for _ in range(5):
        children.run(die_while_migrating, str(path), 0, True)
        assert len(list(backups.glob("*.part*"))) == 2, "SQLite keeps a journal beside the copy"
    for _ in range(5):
        children.run(die_while_migrating, str(path), 60)
    assert read_database(path) == old
    Store.open(path).close()
    newest, *others = list_backups(path)
    assert read_database(newest) == old
    assert others == [earlier]
    assert list(backups.glob("*.part*")) == []
