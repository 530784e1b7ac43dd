"""Kill -9 at random points: what was acknowledged is there, and nothing is half done.

A hundred kills of each kind; BACKSCROLL_KILLS asks for more. The kernel lives on, so this says nothing of a power cut.
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
    append_messages,
    append_until_stopped,
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
from store.database.connection import APPLICATION_ID
from store.database.migrations import migrations
from store.doctor import check_store
from store.store import Store

# Read here, since every test runs without the variables that are ours.
KILLS = int(os.environ.get("BACKSCROLL_KILLS", "100"))
RUNS_IN_A_STORE = 10


def moments() -> Iterator[tuple[int, dict[str, float]]]:
    """The number of each kill, and when: after so many acknowledgements, however busy the machine is, and a while."""
    for n in range(KILLS):
        yield n, {"report_count": 1 + n % 6, "kill_after": random.uniform(0, 0.03)}


class Fork:
    """Chooses moments so that about as many kills fall before something as after it, however busy the machine is."""

    def __init__(self, first_guess: float) -> None:
        self.guess = first_guess
        self.before = self.after = 0

    def moment(self) -> float:
        return random.uniform(0.5, 1.5) * self.guess

    def was(self, after: bool) -> None:
        self.after += after
        self.before += not after
        self.guess *= 0.85 if after else 1.18

    def is_even(self) -> bool:
        return min(self.before, self.after) >= (self.before + self.after) // 5


# ── appends ───────────────────────────────────────────────────────────────────────────────────────


def missing(path: Path, told: dict[str, str]) -> dict[str, str]:
    """What was acknowledged and is not there, or is there and says something else."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("select id || '#' || seq, text from sessions join entries on session = sessions.key")
        found = {entry: text_digest(text) for entry, text in rows}
    return {entry: mark for entry, mark in told.items() if found.get(entry) != mark}


def test_killed_while_appending(tmp_path: Path, children: ForkServer) -> None:
    told: dict[str, str] = {}
    path = tmp_path / "store.db"
    for n, moment in moments():
        if n % RUNS_IN_A_STORE == 0:
            path, told = tmp_path / f"{n}.db", {}
        outcome = children.run(append_until_stopped, str(path), f"child{n}", **moment)
        assert outcome.refusal + outcome.crash == ""
        told |= dict(outcome.messages[1:])
        assert find_faults(path) == []
        assert missing(path, told) == {}
        if n % RUNS_IN_A_STORE == RUNS_IN_A_STORE - 1:
            assert len(told) > RUNS_IN_A_STORE
            with Store.open(path) as store:
                assert check_store(store) == []


def test_a_killed_writer_holds_up_nobody(tmp_path: Path, children: ForkServer) -> None:
    path, stop = tmp_path / "store.db", tmp_path / "stop"
    told: dict[str, str] = {}
    with start_fork_server() as neighbours:
        neighbours.submit(append_until_stopped, str(path), "neighbour", str(stop))
        for n, moment in itertools.islice(moments(), KILLS // 3):
            killed = children.run(append_until_stopped, str(path), f"child{n}", **moment)
            assert killed.refusal + killed.crash == ""
            told |= dict(killed.messages[1:])
        afterwards = children.run(append_messages, str(path), "afterwards", 10)
        stop.touch()
        neighbour = neighbours.receive()
    assert neighbour.refusal + neighbour.crash + afterwards.refusal + afterwards.crash == ""
    assert len(neighbour.messages) > 1
    assert find_faults(path) == []
    assert missing(path, told | dict(neighbour.messages[1:])) == {}


# ── edits ─────────────────────────────────────────────────────────────────────────────────────────


def two_sessions(path: Path) -> None:
    with Store.open(path) as store:
        for name in ("one", "two"):
            store.create_session(name)
            store.append_message(name, "user", "hello")


def test_killed_while_editing(tmp_path: Path, children: ForkServer) -> None:
    """At most one edit more than was acknowledged; and the journal takes each one back wholly."""
    edits = 0
    path = tmp_path / "store.db"
    for n, moment in moments():
        if n % RUNS_IN_A_STORE == 0:
            path = tmp_path / f"{n}.db"
            two_sessions(path)
        outcome = children.run(edit_until_killed, str(path), n, **moment)
        assert outcome.refusal + outcome.crash == ""
        assert find_faults(path) == []
        acknowledged = outcome.messages[-1][0]
        seen, state = [told for told in outcome.messages if told[1] is not None][-1]
        edits += acknowledged - outcome.messages[0][0]
        with Store.open(path) as store:
            assert newest_edit_id(store) in (acknowledged, acknowledged + 1)
            for number in range(newest_edit_id(store), seen, -1):
                store.journal.undo(number)
            assert editable_state(store) == state
            assert store.secrets.verify() == []
            assert n % RUNS_IN_A_STORE or check_store(store) == []
    assert edits > KILLS


def test_killed_while_keeping_the_first_secret(tmp_path: Path, children: ForkServer) -> None:
    """It also makes the vault and the key file; a torn one would lock every secret that follows out."""
    fork = Fork(first_guess=0.01)
    for n in range(KILLS):
        folder = tmp_path / str(n)
        path, config = folder / "store.db", folder / "config"
        two_sessions(path)
        outcome = children.run(store_first_secret, str(path), str(config), kill_after=fork.moment())
        assert outcome.refusal + outcome.crash == ""
        with pytest.MonkeyPatch.context() as patch, Store.open(path) as store:
            patch.setenv("XDG_CONFIG_HOME", str(config))
            session = store.get_session("one")
            kept = {name.key: store.secrets.get(session, name.key) for name in store.secrets.names()}
            assert kept in ({}, {"TOKEN": "first"})
            assert kept or "stored" not in outcome.messages
            assert len(store.journal.list_edits()) == len(kept)
            store.secrets.set(session, "TOKEN", "second")
            assert store.secrets.get(session, "TOKEN") == "second"
            assert store.secrets.verify() == []
        fork.was(after=bool(kept))
    assert fork.is_even(), vars(fork)


# ── migrations ────────────────────────────────────────────────────────────────────────────────────

NOTES = 1_500


def old_store(path: Path) -> None:
    """As the version before this one left it, with enough in it for a rewrite to take a while."""
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
"""What an index holds stands in tables of its own; not every index can be read itself."""


def picture(path: Path) -> dict[str, Any]:
    """All that is in the file, but for when it was migrated."""
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
    """Wholly old or wholly new, with about as many kills on each side of the commit."""
    first, path = tmp_path / "first.db", tmp_path / "store.db"
    old_store(first)
    old = picture(first)
    shutil.copy(first, path)
    fork = Fork(children.run(migrate, str(path)).seconds)
    new = picture(path)
    assert new["version"] == (old["version"][0] + 2,)
    for n in range(KILLS):
        folder = tmp_path / str(n)
        folder.mkdir()
        path = Path(shutil.copy(first, folder / "store.db"))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"pragma journal_mode = {'wal' if n % 2 else 'delete'}")
        killed = children.run(migrate, str(path), True, kill_after=fork.moment())
        assert killed.refusal + killed.crash == ""
        found = picture(path)
        assert found in (old, new)
        fork.was(after=found == new)
        finished = children.run(migrate, str(path))
        assert finished.messages == ["ready", "done"], finished
        assert picture(path) == new
        assert [picture(copy) for copy in list_backups(path)][-1:] == [old]
        assert list(folder.rglob("*.part")) == []
        shutil.rmtree(folder)
    assert fork.is_even(), vars(fork)
