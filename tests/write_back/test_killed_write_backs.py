"""These tests kill write-backs at every step: afterwards both stores agree, and what was written can be undone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from child_processes import ForkServer, die_while_writing_back
from foreign_databases import (
    PINGU_MEMORIES_SCHEMA,
    PINGU_SCHEMA,
    add_pingu_session,
    insert_row,
    make_database,
    pingu_native_response,
)
from kiso_database import DOCUMENT_SCHEMA, KisoStore
from store_integrity import find_faults
from write_back_roundtrip import WriteBackCase, dump_tables

from store.database.backup import atomic_backup_file, backup_folder
from store.model.knowledge import FOREIGN_TABLE, Change, Edit
from store.paths import unfinished_folder
from store.store import Store
from store.write_back.intentions import write_intention
from store.write_back.service import WRITE_BACK

LAST_STATEMENTS = 16
"""Each of the last statements is a moment to die. Before them, every fortieth is."""

THEIRS, OURS = "tok-theirs-1f8ac10f23c5b5bc", "tok-ours-7c211433f02071597741"


class Stores:
    """Has a foreign store and ours in one folder, and returns them to their first state before every kill."""

    def __init__(self, folder: Path, children: ForkServer, session: str = "s") -> None:
        self.folder = folder
        self.foreign = folder / "foreign.db"
        self.path = folder / "store.db"
        self._children = children
        self._session = session
        folder.mkdir()

    def kill_at_each_step(self, *, undo: bool = False) -> Iterator[None]:
        original = shutil.copytree(self.folder, self.folder.with_name("original"))
        (total,) = self._run(-1, undo)
        moments = {*range(1, total, 40), *range(max(1, total - LAST_STATEMENTS), total + 1)}
        for statements in sorted(moments):
            shutil.rmtree(self.folder)
            shutil.copytree(original, self.folder)
            assert self._run(statements, undo) == []
            yield

    def _run(self, statements: int, undo: bool) -> list[int]:
        outcome = self._children.run(die_while_writing_back, str(self.path), self._session, statements, undo)
        assert outcome.crash + outcome.refusal == ""
        return list(outcome.messages)

    @property
    def foreign_title(self) -> str:
        return str(dump_tables(self.foreign)["sessions"][0]["title"])

    @property
    def is_unsettled(self) -> bool:
        return unfinished_folder(self.path).is_dir()


@pytest.fixture
def stores(tmp_path: Path, children: ForkServer) -> Stores:
    """Provide a store of Pingu, and ours with edits of it."""
    stores = Stores(tmp_path / "stores", children)
    make_database(stores.foreign, PINGU_SCHEMA + PINGU_MEMORIES_SCHEMA)
    answer = pingu_native_response({"type": "message", "content": "hi"})
    add_pingu_session(stores.foreign, "s", ("hello", answer), title="Theirs", summary="They began.")
    insert_row(stores.foreign, "memories", content="Likes tea")
    with Store.open(stores.path) as store:
        case = WriteBackCase(store, stores.foreign).set_title().set_summary("In short.", 1)
        store.facts.edit(case.fact_id("Likes tea"), "Likes coffee")
    return stores


def find_write_back(store: Store) -> Edit | None:
    """Return the newest write-back that is not undone."""
    edits = store.journal.list_edits()
    return next((edit for edit in edits if edit.kind == WRITE_BACK and edit.undone_by is None), None)


def test_a_write_back_that_is_killed(stores: Stores) -> None:
    before = dump_tables(stores.foreign)
    written = unwritten = settled = 0
    for _ in stores.kill_at_each_step():
        is_written, was_unsettled = stores.foreign_title == "Mine", stores.is_unsettled
        with Store.open(stores.path) as store:
            assert not stores.is_unsettled
            edit = find_write_back(store)
            assert is_written == (edit is not None)
            case = WriteBackCase(store, stores.foreign)
            assert len(case.preview().plan.changes) == (0 if is_written else 3)
            case.write()
            edit = find_write_back(store)
            assert edit is not None
            store.journal.undo(edit.id)
            assert dump_tables(stores.foreign) == before
            assert len(case.preview().plan.changes) == 3
        assert find_faults(stores.path) == []
        written += is_written
        unwritten += not is_written
        settled += is_written and was_unsettled
    assert min(written, unwritten, settled) > 0


def test_an_undo_that_is_killed(stores: Stores) -> None:
    before = dump_tables(stores.foreign)
    with Store.open(stores.path) as store:
        WriteBackCase(store, stores.foreign).write()
    undone = standing = settled = 0
    for _ in stores.kill_at_each_step(undo=True):
        is_written, was_unsettled = stores.foreign_title == "Mine", stores.is_unsettled
        with Store.open(stores.path) as store:
            assert not stores.is_unsettled
            edit = find_write_back(store)
            assert is_written == (edit is not None)
            if edit is not None:
                store.journal.undo(edit.id)
            assert dump_tables(stores.foreign) == before
            assert len(WriteBackCase(store, stores.foreign).preview().plan.changes) == 3
        assert find_faults(stores.path) == []
        standing += is_written
        undone += not is_written
        settled += not is_written and was_unsettled
    assert min(undone, standing, settled) > 0


def test_a_secret_whose_write_back_is_killed(tmp_path: Path, children: ForkServer) -> None:
    """The old value exists only in the journal, as a sealed version."""
    stores = Stores(tmp_path / "stores", children, "dev")
    kiso = KisoStore(stores.foreign, DOCUMENT_SCHEMA)
    kiso.add_session("dev")
    kiso.add_message("hello")
    kiso.insert_row("secrets", session="dev", key="api_token", value=THEIRS)
    with Store.open(stores.path) as store:
        case = WriteBackCase(store, stores.foreign, "dev")
        store.secrets.set(case.session, "api_token", OURS)
    settled = 0
    for _ in stores.kill_at_each_step():
        (row,) = dump_tables(stores.foreign)["secrets"]
        settled += row["value"] == OURS and stores.is_unsettled
        with Store.open(stores.path) as store:
            edit = find_write_back(store)
            assert (row["value"] == OURS) == (edit is not None)
            if edit is not None:
                store.journal.undo(edit.id)
            assert store.secrets.get(store.sessions.find("dev"), "api_token") == OURS
        assert dump_tables(stores.foreign)["secrets"][0]["value"] == THEIRS
        assert THEIRS.encode() not in stores.path.read_bytes()
        assert find_faults(stores.path) == []
    assert settled


def test_a_foreign_store_that_is_away_is_settled_later(stores: Stores) -> None:
    for _ in stores.kill_at_each_step():
        if stores.foreign_title == "Mine" and stores.is_unsettled:
            break
    away = stores.foreign.rename(stores.foreign.with_name("away.db"))
    with Store.open(stores.path) as store:
        assert (stores.is_unsettled, find_write_back(store)) == (True, None)
        away.rename(stores.foreign)
        store.journal.undo()
        assert stores.foreign_title == "Theirs"
    assert not stores.is_unsettled


def test_a_write_back_that_is_running_is_not_settled(stores: Stores) -> None:
    change = Change(FOREIGN_TABLE, {"locator": str(stores.foreign), "table": "sessions", "key": {}}, {}, {})
    with Store.open(stores.path) as store, store.journal.edit(WRITE_BACK) as edit:
        edit.add_foreign_change(change)
        intention = write_intention(store, edit)
        Store.open(stores.path).close()
        assert stores.is_unsettled
        intention.delete()
        intention.close()
    assert not stores.is_unsettled


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"kind": 1}'])
def test_a_damaged_file_is_deleted(stores: Stores, content: bytes) -> None:
    folder = unfinished_folder(stores.path)
    folder.mkdir()
    (folder / "x.json").write_bytes(content)
    (folder / "y.part").write_bytes(content)
    Store.open(stores.path).close()
    assert not stores.is_unsettled


# ── backups ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def pingu(store: Store, tmp_path: Path) -> WriteBackCase:
    path = make_database(tmp_path / "foreign.db", PINGU_SCHEMA + PINGU_MEMORIES_SCHEMA, wal=True)
    add_pingu_session(path, "s", ("hello", pingu_native_response({"type": "message", "content": "hi"})), title="Theirs")
    return WriteBackCase(store, path)


def leave_partial_backups(store: Store) -> list[Path]:
    """Leave what a killed backup leaves: a partial copy, and its journal."""
    folder = backup_folder(store.path) / "foreign"
    folder.mkdir(parents=True, mode=0o700)
    partials = [folder / "2026-01-01T000000.000000Z-pingu-1.part", folder / "2026-01-01T000000.000000Z.part-journal"]
    for partial in partials:
        partial.write_bytes(b"half")
    return partials


def test_the_next_write_back_deletes_the_partial_backups_of_killed_ones(store: Store, pingu: WriteBackCase) -> None:
    partials = leave_partial_backups(store)
    pingu.set_title()
    pingu.write()
    assert not any(partial.exists() for partial in partials)


def test_the_partial_backup_of_a_living_process_stays(store: Store, pingu: WriteBackCase) -> None:
    partials = leave_partial_backups(store)
    pingu.set_title()
    with atomic_backup_file(pingu.path, partials[0].with_name("another.db")) as own:
        partials[0].write_bytes(b"a third process writes it")
        pingu.write()
        assert own.exists()
        assert partials[0].exists()
