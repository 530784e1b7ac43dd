"""These tests put links and other traps at the places where the program keeps its lock, its state and its store."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import CommandLine
from foreign_databases import PINGU_SCHEMA, add_pingu_session, make_database

from store.errors import WriteFailed
from store.paths import attempts_file, state_file
from store.secrets.attempts import AttemptLog
from store.store import Store
from store.sync.lock import sync_lock
from tui.settings import Settings

VICTIM_TEXT = "precious"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text(VICTIM_TEXT)
    path.chmod(0o644)
    return path


def lock_path(store: Store) -> Path:
    return store.path.with_name(f"{store.path.name}.sync")


def test_the_lock_follows_no_link(store: Store, tmp_path: Path, victim: Path) -> None:
    for target in (victim, tmp_path / "nothing"):
        lock_path(store).symlink_to(target)
        with (
            pytest.raises(WriteFailed, match=r"The lock file .* cannot be used: it is a link\. Remove it"),
            sync_lock(store),
        ):
            pass
        lock_path(store).unlink()
    assert victim.read_text() == VICTIM_TEXT
    assert not (tmp_path / "nothing").exists()


def test_a_folder_in_the_place_of_the_lock_is_named_by_the_command_line(store: Store, tmp_path: Path) -> None:
    database = tmp_path / "pingu.db"
    make_database(database, PINGU_SCHEMA)
    add_pingu_session(database, "a")
    lock_path(store).mkdir()
    result = CommandLine(store.path)("sync", str(database))
    assert result.status == 1
    assert f"The lock file {lock_path(store)} cannot be used: Is a directory. Remove it" in result.err


def test_a_pipe_in_the_place_of_the_lock_does_not_block(store: Store) -> None:
    os.mkfifo(lock_path(store))
    with sync_lock(store):
        pass


def save_theme() -> None:
    Settings().save_state(theme="nord")


def count_failure() -> None:
    AttemptLog(Path("store.db")).add_failure()


@pytest.mark.parametrize(("path", "write"), [(state_file, save_theme), (attempts_file, count_failure)])
def test_a_state_file_replaces_a_link(path: Callable[[], Path], write: Callable[[], None], victim: Path) -> None:
    folder = path().parent
    folder.mkdir(parents=True)
    for name in (path().name, path().with_suffix(".part").name, f".{path().name}.{os.getpid()}.part"):
        (folder / name).symlink_to(victim)
    write()
    assert victim.read_text() == VICTIM_TEXT
    assert not path().is_symlink()
    assert path().stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("suffix", ["-wal", "-journal", "-shm"])
def test_the_logs_of_the_store_follow_no_link(tmp_path: Path, blank: Path, victim: Path, suffix: str) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(blank.read_bytes())
    path.with_name(f"store.db{suffix}").symlink_to(victim)
    result = CommandLine(path)("title", "nothing", "x")
    assert result.status in (1, 3)
    assert "Traceback" not in result.err
    assert victim.read_text() == VICTIM_TEXT
