"""These tests cover full disks, missing permissions, and files that are damaged or not a store.

Each fault is reported in one sentence that says what to do. Nothing is written partially, and older data is kept.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from child_processes import ForkServer, Outcome, append_until_disk_full, open_and_append, text_digest
from command_line import CommandLine
from sqlite_utils import Database
from store_integrity import find_faults

from store.database.backup import list_backups
from store.database.connection import APPLICATION_ID, SCHEMA_VERSION
from store.database.migrations import migrations
from store.errors import Busy, StoreError, TooNew, Unreadable, WriteFailed
from store.paths import config_file
from store.store import Store

AS_ROOT = os.geteuid() == 0
"""Is true for root, whose permissions are not checked, so that a child process must give them up first."""

ADVICE = "check|choose|fix|free|must be|restore|run|try again|update"


def create_store(path: Path, entries: int = 40) -> dict[str, str]:
    """Create a store with entries, and return the digests of their texts."""
    with Store.open(path) as store:
        store.create_session("a")
        texts = [f"{n} " + os.urandom(600).hex() for n in range(entries)]
        return {store.append_message("a", "user", text): text_digest(text) for text in texts}


def read_texts(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("select id || '#' || seq, text from sessions join entries on session = sessions.key")
        return {entry: text_digest(text) for entry, text in rows if not entry.endswith("#-1")}


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files by path; links and folders have none."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def is_one_sentence(text: str) -> bool:
    return bool(re.fullmatch(rf"[^\n]*\b({ADVICE})\b[^\n]*\.", text, re.IGNORECASE)) and "Traceback" not in text


# ── a full disk ───────────────────────────────────────────────────────────────────────────────────

SIZES = [int(1_000 * 2.3**n) for n in range(11)]
"""Range from less than a page to more than is written."""


def acknowledged_texts(outcome: Outcome) -> dict[str, str]:
    return {entry: text_digest(text) for entry, text in outcome.messages}


def write_until_full(children: ForkServer, path: Path, size: int) -> Outcome:
    outcome = children.run(open_and_append, str(path), 300, 4_000, largest_file=size)
    assert outcome.crash == ""
    assert outcome.refusal.startswith("WriteFailed: ") == (len(outcome.messages) < 300)
    assert is_one_sentence(outcome.refusal) or not outcome.refusal
    return outcome


def test_a_new_store_on_a_disk_that_fills(tmp_path: Path, children: ForkServer) -> None:
    for size in SIZES:
        path = tmp_path / f"{size}.db"
        outcome = write_until_full(children, path, size)
        retry = children.run(open_and_append, str(path))
        assert retry.refusal + retry.crash == ""
        assert read_texts(path) == acknowledged_texts(outcome) | acknowledged_texts(retry)
        assert find_faults(path) == []


def test_a_store_on_a_disk_that_fills(tmp_path: Path, children: ForkServer) -> None:
    for size in SIZES:
        path = tmp_path / f"{size}.db"
        before = create_store(path)
        outcome = write_until_full(children, path, size)
        assert read_texts(path) == before | acknowledged_texts(outcome)
        assert find_faults(path) == []


def test_writing_works_again_when_there_is_space(small_disk: Path, children: ForkServer) -> None:
    """Repeat it with ten disks, each with a little more space."""
    for n in range(10):
        path, ballast = small_disk / "store.db", small_disk / "ballast"
        before = create_store(path, 10)
        ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - 60_000 - 20_000 * n))
        outcome = children.run(append_until_disk_full, str(path), str(ballast))
        assert outcome.refusal + outcome.crash == ""
        *appended, refusal, last = outcome.messages
        assert refusal.startswith("WriteFailed: ")
        assert is_one_sentence(refusal)
        assert read_texts(path) == before | dict([*appended, last])
        assert find_faults(path) == []
        for file in small_disk.iterdir():
            file.unlink()


def test_an_edit_on_a_full_disk_by_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    before = create_store(path)

    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))

    cli = CommandLine(path)
    result = subprocess.run(
        cli.command("title", "a", "new words"),
        capture_output=True,
        text=True,
        preexec_fn=limit_file_size,
        # Python would write truncated bytecode, and later processes would load it.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert is_one_sentence(result.stderr.removesuffix("\n"))
    assert read_texts(path) == before
    assert find_faults(path) == []
    assert "new words" not in cli("list").out
    assert cli("log").out == ""


# ── missing permissions ────────────────────────────────────────────────────────────────────────────────


def set_modes(folder: Path, folder_mode: int, file_mode: int) -> None:
    for path in folder.iterdir():
        path.chmod(file_mode)
    folder.chmod(folder_mode)


def test_no_store_can_be_made_in_a_read_only_folder(reachable: Path, children: ForkServer) -> None:
    set_modes(reachable, 0o555, 0o444)
    outcome = children.run(open_and_append, str(reachable / "store.db"), nobody=AS_ROOT)
    assert outcome.refusal.startswith("Unreadable: ")
    assert is_one_sentence(outcome.refusal)
    assert read_files(reachable) == {}


@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o555, 0o444), (0o555, 0o666), (0o755, 0o444), (0o555, 0o000)])
@pytest.mark.parametrize("log", ["wal", "delete"])
def test_a_store_that_may_not_be_written(
    reachable: Path, children: ForkServer, folder_mode: int, file_mode: int, log: str
) -> None:
    path = reachable / "store.db"
    create_store(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"pragma journal_mode = {log}")
    before = read_files(reachable)
    set_modes(reachable, folder_mode, file_mode)
    outcome = children.run(open_and_append, str(path), nobody=AS_ROOT)
    assert outcome.refusal.startswith(("Unreadable: ", "WriteFailed: "))
    assert is_one_sentence(outcome.refusal)
    set_modes(reachable, 0o755, 0o644)
    assert read_files(reachable) == before


# ── a store from another version ──────────────────────────────────────────────────────────────────


def create_old_store(path: Path) -> None:
    db = Database(path)
    migrations.apply(db, stop_before="m003_secrets")
    db.execute(f"pragma application_id = {APPLICATION_ID}")
    db.execute("pragma user_version = 2")
    db.table("sessions").insert_all(
        {"id": f"s{n}", "native_id": f"s{n}", "created_at": "2026", "updated_at": "2026"} for n in range(2_000)
    )
    db.close()


def check_refusal(path: Path, kind: type[StoreError]) -> None:
    """Check that the library and the command line refuse the file with one sentence, and change no file."""
    before = read_files(path.parent)
    with pytest.raises(StoreError) as caught:
        Store.open(path)
    assert isinstance(caught.value, kind)
    assert is_one_sentence(str(caught.value))
    assert read_files(path.parent) == before
    result = CommandLine(path)("list")
    assert (result.status, result.out) == (3 if issubclass(kind, Unreadable) else 1, "")
    assert is_one_sentence(result.err.removesuffix("\n"))
    assert read_files(path.parent) == before


def test_a_store_from_a_newer_version(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    create_store(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"pragma user_version = {SCHEMA_VERSION + 1}")
    check_refusal(path, TooNew)


def test_an_old_store_that_is_damaged_is_not_migrated(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    create_old_store(path)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 4_096 * 3)
        file.write(os.urandom(4_096 * 2))
    check_refusal(path, Unreadable)


def test_an_old_store_that_cannot_be_backed_up_is_not_migrated(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    create_old_store(path)
    path.with_name("store.db.backups").write_text("not a folder")
    check_refusal(path, WriteFailed)


def test_an_old_store_on_a_full_disk_is_unchanged_or_migrated(tmp_path: Path, children: ForkServer) -> None:
    first = tmp_path / "first.db"
    create_old_store(first)
    before = dump(first)
    for size in SIZES:
        path = Path(shutil.copy(first, tmp_path / f"{size}.db"))
        outcome = children.run(open_and_append, str(path), largest_file=size)
        assert outcome.crash == ""
        assert is_one_sentence(outcome.refusal) == (outcome.messages == [])
        assert dump(path) == before or read_version(path) == SCHEMA_VERSION
        assert all(dump(copy) == before for copy in list_backups(path))
    assert list(tmp_path.rglob("*.part")) == []


def read_version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("pragma user_version").fetchone()[0])


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        return list(connection.iterdump())


# ── files that are no store, or a damaged one ──────────────────────────────────────────────────────


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("Dear diary, " * 1_000)
    check_refusal(path, Unreadable)


def test_a_database_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("create table sessions (id text); insert into sessions values ('theirs')")
    check_refusal(path, Unreadable)


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.mkdir()
    check_refusal(path, Unreadable)


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("not a folder")
    check_refusal(tmp_path / "folder" / "store.db", Unreadable)


@pytest.mark.parametrize("share", [n / 21 for n in range(1, 21)])
def test_a_truncated_store(tmp_path: Path, share: float) -> None:
    path = tmp_path / "store.db"
    create_store(path)
    os.truncate(path, int(path.stat().st_size * share))
    check_refusal(path, Unreadable)


@pytest.mark.parametrize("size", [1, 10, 50, 99, 100, 511, 512, 4_095, 4_096, -1, -2_000, -4_096])
def test_a_store_truncated_to_almost_any_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "store.db"
    create_store(path)
    os.truncate(path, size if size > 0 else path.stat().st_size + size)
    check_refusal(path, Unreadable)


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    before = create_store(path)
    assert read_texts(path) == before


# ── locks, and the config file ─────────────────────────────────────────────────


def test_a_store_that_another_program_has_locked(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    before = create_store(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, Store.open(path, busy_timeout_ms=50) as store:
        other.execute("begin immediate")
        with pytest.raises(Busy) as caught:
            store.append_message("a", "user", "too late")
        assert is_one_sentence(str(caught.value))
        assert len(store.get_messages("a")) == len(before)
        other.execute("rollback")
        store.append_message("a", "user", "in time")
    assert len(read_texts(path)) == len(before) + 1


@pytest.mark.parametrize(
    "config", [b"[store", b"\xff\xfe", b"[store]\npath = 5\n", b'[store]\npath = "a\\u0000b"\n', None]
)
def test_a_config_file_that_cannot_be_read(config: bytes | None) -> None:
    path = config_file()
    path.parent.mkdir(parents=True)
    path.mkdir() if config is None else path.write_bytes(config)
    with pytest.raises(StoreError) as caught:
        Store.open()
    assert is_one_sentence(str(caught.value))
    result = subprocess.run([sys.executable, "-m", "store", "list"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) in ((1, ""), (3, ""))
    assert result.stderr == f"{caught.value}\n"
