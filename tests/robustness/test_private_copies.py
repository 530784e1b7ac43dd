"""These tests cover the copies from which foreign databases are read: their size, full disks, and killed processes."""

from __future__ import annotations

import os
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from child_processes import ForkServer, read_foreign_sessions
from command_line import CommandLine
from foreign_databases import PINGU_SCHEMA, add_pingu_session, make_database, pingu_native_response, sync_paths

from store.errors import Busy, Refused
from store.sources.kit import private_copy as copies
from store.sources.kit.private_copy import MIN_ABANDONED_SECONDS, private_copy
from store.sources.kit.stamps import sidecar_path
from store.store import Store

HOLD_COPY = """
import signal, sys
from pathlib import Path
from store.errors import Refused
from store.sources.kit.private_copy import private_copy
with private_copy(Path(sys.argv[1])) as copy:
    print(copy.parent, flush=True)
    signal.pause()
"""


@pytest.fixture
def owner(home: Path) -> Path:
    """Provide a database where Pingu keeps it."""
    path = home / ".local/share/pingu/pingu.db"
    path.parent.mkdir(parents=True)
    make_database(path, PINGU_SCHEMA)
    add_pingu_session(path, "s", ("hello", pingu_native_response()))
    return path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the folder for temporary files of the processes that a test starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


# ── locks ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_database_that_its_owner_locks_and_writes_is_read_later(owner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "LOCK_TIMEOUT_SECONDS", 0.05)
    with closing(sqlite3.connect(owner, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table grown (n)")
        connection.execute("pragma locking_mode = exclusive")
        connection.execute("insert into grown values (0)")

        def copy_while_it_is_written(path: Path, copy: Path) -> None:
            copy_sparsely(path, copy)
            connection.execute("insert into grown values (1)")

        copy_sparsely = copies._copy_sparsely
        monkeypatch.setattr(copies, "_copy_sparsely", copy_while_it_is_written)
        with pytest.raises(Busy, match="is being written to; it will be read later"), private_copy(owner):
            pass


# ── size ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_database_of_a_terabyte_is_named_and_not_copied(owner: Path, tmp_path: Path, temporary: Path) -> None:
    os.truncate(owner, 1 << 40)
    cli = CommandLine(tmp_path / "store.db")
    reason = f"{owner} is larger than 64 GB, so it is not read."
    named = cli.run_process("sync", str(owner))
    assert (named.status, reason in named.err) == (3, True)
    found = cli.run_process("sync", "--json")
    assert [problem["reason"] for report in found.json["sources"] for problem in report["problems"]] == [reason]
    assert [*temporary.iterdir()] == []


def test_holes_are_not_copied(owner: Path, children: ForkServer) -> None:
    with owner.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.truncate(20 << 30)
    with private_copy(owner) as copy:
        assert copy.stat().st_size == 20 << 30
        assert copy.stat().st_blocks * 512 < 1 << 20
    outcome = children.run(read_foreign_sessions, str(owner))
    assert (outcome.crash, outcome.refusal, outcome.messages) == ("", "", [{"s": ["hello", "(reply not stored)"]}])
    assert outcome.seconds < 5


def test_a_database_for_which_there_is_no_room_is_named(
    owner: Path, tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_database(owner, "create table large (a); insert into large values (randomblob(12000000))")
    monkeypatch.setenv("TMPDIR", str(small_disk))
    result = CommandLine(tmp_path / "store.db").run_process("sync", str(owner))
    assert result.status == 3
    assert f"needs 11 MB in {small_disk} to be read, and 8 MB are free there. Make room" in result.err
    assert [*small_disk.iterdir()] == []


def test_a_copy_that_cannot_be_finished_is_deleted(owner: Path, temporary: Path) -> None:
    """A limit of the system stops the copy, as a full disk does."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))"
    copying = subprocess.run([sys.executable, "-c", f"{limit}\n{HOLD_COPY}", owner], capture_output=True, text=True)
    assert f"Unreadable: {owner} cannot be read: File too large." in copying.stderr
    assert [*temporary.iterdir()] == []


# ── journals ──────────────────────────────────────────────────────────────────────────────────────


def write_journal(owner: Path, named: Path) -> None:
    """Write a journal of a transaction over several databases, which names a file that SQLite deletes afterwards."""
    magic, page_size = bytes.fromhex("d9d505f920a163d7"), int.from_bytes(owner.read_bytes()[16:18], "big")
    header = magic + struct.pack(">5I", 0, 0, owner.stat().st_size // page_size, 512, page_size)
    name = str(named).encode()
    end = struct.pack(">I", 0x40000000 // page_size + 1) + name + struct.pack(">2I", len(name), sum(name)) + magic
    sidecar_path(owner, "-journal").write_bytes(header.ljust(512, b"\0") + end)


def test_a_journal_cannot_delete_another_file(owner: Path, tmp_path: Path, store: Store) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("Do not delete.")
    write_journal(owner, precious)
    assert sync_paths(store, owner).problems == []
    store.sessions.set_title(store.sessions.find("s"), "Mine")
    with pytest.raises(Refused, match="has an unfinished transaction over several files"):
        store.write_back.write(store.write_back.preview(store.sessions.find("s")))
    assert precious.read_text() == "Do not delete."


def test_a_journal_of_a_committed_transaction_is_ignored(owner: Path, tmp_path: Path, store: Store) -> None:
    write_journal(owner, tmp_path / "deleted-by-the-commit")
    assert sync_paths(store, owner).problems == []


@pytest.mark.parametrize("suffix", ["-wal", "-journal", "-shm"])
def test_a_pipe_beside_a_database(owner: Path, tmp_path: Path, suffix: str) -> None:
    os.mkfifo(sidecar_path(owner, suffix))
    command = CommandLine(tmp_path / "store.db").command("sync", str(owner))
    assert subprocess.run(command, capture_output=True, timeout=60).returncode in (0, 3)


# ── what a kill leaves ────────────────────────────────────────────────────────────────────────────


def age(folder: Path) -> None:
    past = time.time() - MIN_ABANDONED_SECONDS - 1
    os.utime(folder, (past, past))


@contextmanager
def holding_copy(path: Path) -> Iterator[Path]:
    """Give the folder of a copy that another process uses. The process is killed in the end."""
    with subprocess.Popen([sys.executable, "-c", HOLD_COPY, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_copies_of_killed_processes_are_deleted(owner: Path, tmp_path: Path, temporary: Path) -> None:
    with holding_copy(owner) as left:
        pass
    cli = CommandLine(tmp_path / "store.db")
    assert cli.run_process("sync").status == 0
    assert [*temporary.iterdir()] == [left]  # its owner might not have locked it yet
    age(left)
    with closing(sqlite3.connect(owner)) as connection:  # a sync that reads nothing does not look for copies
        connection.execute("update sessions set title = 'changed'")
        connection.commit()
    assert cli.run_process("sync").status == 0
    assert [*temporary.iterdir()] == []


def test_what_is_in_use_is_not_deleted(owner: Path, tmp_path: Path, temporary: Path) -> None:
    draft = temporary / "backscroll-draft"
    draft.mkdir()
    (draft / "note.md").write_text("a note that is being edited")
    link = temporary / "backscroll-link"
    link.symlink_to(owner.parent)
    with holding_copy(owner) as copy:
        age(copy)
        age(draft)
        assert CommandLine(tmp_path / "store.db").run_process("sync").status == 0
        assert {*temporary.iterdir()} == {copy, draft, link}
        assert (copy / "copy.db").exists()


def test_a_temporary_store_is_not_deleted(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with Store.memory() as store:
        age(store.path.parent)
        assert CommandLine(tmp_path / "store.db").run_process("sync").status == 0
        assert store.path.exists()
