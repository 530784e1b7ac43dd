"""These tests cover backups: which are kept, what is said about them, and that nobody can lead them elsewhere."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from child_processes import NOBODY
from foreign_databases import make_database
from sqlite_utils import Database

from store.database import backup, progress
from store.database.backup import MAX_BACKUPS, backup_folder, create_backup, list_backups
from store.database.connection import APPLICATION_ID
from store.database.migrations import migrations
from store.errors import WriteFailed
from store.store import Store
from store.write_back import sqlite as foreign

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    """Provide the path of a store of the second version."""
    path = tmp_path / "shared" / "store.db"
    path.parent.mkdir()
    db = Database(path)
    migrations.apply(db, stop_before="m003_secrets")
    db.execute(f"pragma application_id = {APPLICATION_ID}")
    db.execute("pragma user_version = 2")
    db.table("sessions").insert_all(
        {"id": f"s{n}", "native_id": f"s{n}", "created_at": "2026", "updated_at": "2026"} for n in range(200)
    )
    db.close()
    return path


def read_version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("pragma user_version").fetchone()[0])


# ── which are kept ────────────────────────────────────────────────────────────────────────────────


def make_backups_of_the_future(folder: Path, ending: str) -> list[Path]:
    folder.mkdir(parents=True)
    paths = [folder / f"2099-01-0{n}T000000.000000Z{ending}" for n in range(1, 8)]
    for path in paths:
        path.touch()
    return paths


def test_a_new_backup_is_kept_after_the_clock_was_set_back(store: Store) -> None:
    make_backups_of_the_future(backup_folder(store.path), ".db")
    backups = []
    for number in range(MAX_BACKUPS):
        store.create_session(f"s{number}")
        backups.append(create_backup(store.path, store.connection))
        assert list_backups(store.path)[0] == backups[-1]
        assert len(list_backups(store.path)) == MAX_BACKUPS
    assert list_backups(store.path) == backups[::-1]


def test_a_new_backup_of_a_foreign_store_is_kept_after_the_clock_was_set_back(tmp_path: Path) -> None:
    folder, database = tmp_path / "store.db.backups" / "foreign", tmp_path / "agent.db"
    make_backups_of_the_future(folder, "-agent-agent.db")
    make_database(database, "create table sessions (id)")
    newest = foreign.back_up(folder, "agent", str(database), ())
    assert foreign.list_backups(folder, "agent")[0] == newest
    assert len(foreign.list_backups(folder, "agent")) == foreign.BACKUPS_KEPT


def test_a_backup_replaces_one_with_the_same_contents(store: Store) -> None:
    first = create_backup(store.path, store.connection)
    second = create_backup(store.path, store.connection)
    assert list_backups(store.path) == [second]
    store.create_session("a")
    third = create_backup(store.path, store.connection)
    assert list_backups(store.path) == [third, second]
    assert not first.exists()


# ── what is said ──────────────────────────────────────────────────────────────────────────────────


def test_the_space_and_the_progress_of_a_backup_are_said(old_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(backup, "PAGES_PER_STEP", 4)
    notices: list[str] = []
    Store.open(old_store, notify=notices.append).close()
    assert notices[0] == f"Backing up {old_store} to {list_backups(old_store)[0]}: 1 MB."
    percentages = [int(notice.split()[0]) for notice in notices if notice.endswith(" % are backed up.")]
    assert len(percentages) > 2
    assert percentages == sorted(percentages)
    assert percentages[-1] == 100
    assert "199 of 200 sessions are in the search index." in notices


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_backup_that_does_not_fit_is_not_begun(old_store: Path, small_disk: Path) -> None:
    path = small_disk / "store.db"
    path.write_bytes(old_store.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("update sessions set system_prompt = hex(randomblob(3000))")
    before = path.read_bytes()
    with pytest.raises(WriteFailed, match=r"The backup needs 2 MB, and 1 MB are free, .* Free some space\."):
        Store.open(path)
    assert path.read_bytes() == before
    assert read_version(path) == 2


# ── what others plant ─────────────────────────────────────────────────────────────────────────────


def give_to_another_user(path: Path) -> None:
    """Make a file, a folder or a link that of another user, in a folder where everybody may make some."""
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    path.parent.chmod(0o1777)


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """Provide a folder with files that have the names of backups and of partial backups."""
    folder = tmp_path / "treasure"
    folder.mkdir()
    for n in range(9):
        (folder / f"{n}.db").write_text("precious")
        (folder / f"{n}.part").write_text("precious")
    return folder


def read_all(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@only_root
def test_a_link_that_another_user_made_at_the_place_of_the_backups(old_store: Path, treasure: Path) -> None:
    before = read_all(treasure)
    backup_folder(old_store).symlink_to(treasure)
    give_to_another_user(backup_folder(old_store))
    with pytest.raises(WriteFailed, match=r"store\.db\.backups was made by another user, .* Remove it\."):
        Store.open(old_store)
    assert read_all(treasure) == before
    assert read_version(old_store) == 2


@only_root
def test_a_folder_that_another_user_made_for_the_backups(old_store: Path) -> None:
    folder = backup_folder(old_store)
    folder.mkdir()
    give_to_another_user(folder)
    with pytest.raises(WriteFailed, match="was made by another user"):
        Store.open(old_store)
    assert list(folder.iterdir()) == []


@only_root
def test_backups_of_foreign_stores_follow_no_link_of_another_user(tmp_path: Path, treasure: Path) -> None:
    database, backups = tmp_path / "agent.db", tmp_path / "shared" / "store.db.backups"
    make_database(database, "create table sessions (id)")
    backups.parent.mkdir()
    backups.symlink_to(treasure)
    give_to_another_user(backups)
    with pytest.raises(WriteFailed, match="was made by another user"):
        foreign.back_up(backups / "foreign", "agent", str(database), ())
    assert not (treasure / "foreign" / "agent.db").exists()


def test_a_link_of_the_person_to_another_disk_is_followed(old_store: Path, tmp_path: Path) -> None:
    (tmp_path / "large_disk").mkdir()
    backup_folder(old_store).symlink_to(tmp_path / "large_disk")
    Store.open(old_store).close()
    assert len(list((tmp_path / "large_disk").glob("*.db"))) == 1


def test_an_existing_file_is_never_written_as_a_backup(tmp_path: Path) -> None:
    victim, target = tmp_path / "victim", tmp_path / "backups" / "now.db"
    victim.write_text("precious")
    target.parent.mkdir()
    target.with_suffix(".part").symlink_to(victim)
    with pytest.raises(WriteFailed, match="exists"), backup.atomic_backup_file("store.db", target) as partial:
        partial.write_text("overwritten")
    assert victim.read_text() == "precious"


@only_root
def test_a_link_that_another_user_made_at_the_place_of_a_new_store(tmp_path: Path) -> None:
    path, victim = tmp_path / "shared" / "store.db", tmp_path / "victim"
    path.parent.mkdir()
    path.symlink_to(victim)
    give_to_another_user(path)
    with pytest.raises(WriteFailed, match="was made by another user"):
        Store.open(path)
    assert not victim.exists()


def test_a_store_behind_a_link_of_the_person_is_private(tmp_path: Path) -> None:
    path, real = tmp_path / "store.db", tmp_path / "disk" / "store.db"
    real.parent.mkdir()
    path.symlink_to(real)
    Store.open(path).close()
    assert real.stat().st_mode & 0o077 == 0
