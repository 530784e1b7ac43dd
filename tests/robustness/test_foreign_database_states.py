"""These tests read databases in every state in which a program can leave them, in writable and read-only folders.

The rows are correct or the database is refused, and no file in the folder is changed.
"""

from __future__ import annotations

import hashlib
import itertools
import multiprocessing
import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from browser_driver import TIMEOUT
from child_processes import NOBODY, ForkServer, read_foreign_sessions
from foreign_databases import RUBICHAN_SCHEMA, add_rubichan_messages, add_rubichan_session, make_database

from store.errors import Busy
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.store import Store
from store.sync import refresh
from store.sync.targets import find_targets

AS_ROOT = os.geteuid() == 0
"""Is true for root, whose permissions are not checked, so that a child process must give them up first."""


# ── states of a database ───────────────────────────────────────────────────────────────────────────


def create_database(path: Path, *, wal: bool = False) -> None:
    """Create a database with one message, without a journal."""
    make_database(path, RUBICHAN_SCHEMA, wal=wal)
    add_rubichan_session(path, "s", ("user", "one"))


def copy_crashed(path: Path, *suffixes: str) -> None:
    """Copy the files of an open database, which are what a crash would leave."""
    for suffix in ("", *suffixes):
        shutil.copy(f"{path}.live{suffix}", f"{path}{suffix}")


def insert_second_message(connection: sqlite3.Connection) -> None:
    connection.execute(
        "insert into messages (session_id, seq, role, content)"
        """ values ('s', 1, 'user', '[{"type": "text", "text": "two"}]')"""
    )


def rollback(path: Path) -> None:
    create_database(path)
    add_rubichan_messages(path, "s", 1, ("user", "two"))


def wal_closed(path: Path) -> None:
    create_database(path, wal=True)
    add_rubichan_messages(path, "s", 1, ("user", "two"))
    assert path.read_bytes()[18:20] == b"\x02\x02"


def crash_with_wal(path: Path, *suffixes: str) -> None:
    live = Path(f"{path}.live")
    create_database(live, wal=True)
    with closing(sqlite3.connect(live, isolation_level=None)) as connection:
        insert_second_message(connection)
        copy_crashed(path, *suffixes)


def wal_with_shm(path: Path) -> None:
    crash_with_wal(path, "-wal", "-shm")


def wal_without_shm(path: Path) -> None:
    crash_with_wal(path, "-wal")


def leave_journal(path: Path, mode: str) -> None:
    """Copy the files during a transaction that is too large for the cache, so that the file is half rewritten."""
    live = Path(f"{path}.live")
    create_database(live)
    with closing(sqlite3.connect(live, isolation_level=None)) as connection:
        connection.execute(f"pragma journal_mode = {mode}")
        connection.execute("pragma cache_size = 1")
        before = live.read_bytes()
        connection.execute("begin")
        connection.execute("""update messages set content = '[{"type": "text", "text": "half"}]'""")
        filler = "insert into messages (session_id, seq, role, content) values ('s', ?, 'user', '[]')"
        connection.executemany(filler, [(number,) for number in range(2, 2000)])
        assert live.read_bytes() != before
        copy_crashed(path, "-journal")


def hot_journal(path: Path) -> None:
    leave_journal(path, "delete")


def hot_journal_that_persists(path: Path) -> None:
    leave_journal(path, "persist")


def cold_journal(path: Path) -> None:
    """Leave a journal whose header was cleared at the end of the transaction."""
    live = Path(f"{path}.live")
    create_database(live)
    with closing(sqlite3.connect(live, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = persist")
        insert_second_message(connection)
        copy_crashed(path, "-journal")
    assert Path(f"{path}-journal").stat().st_size > 0


BOTH, FIRST = ["one", "two"], ["one"]
STATES: list[tuple[Callable[[Path], None], list[str], set[str]]] = [
    (rollback, BOTH, set()),
    (wal_closed, BOTH, set()),
    (wal_with_shm, BOTH, {"-wal", "-shm"}),
    (wal_without_shm, BOTH, {"-wal"}),
    (hot_journal, FIRST, {"-journal"}),
    (hot_journal_that_persists, FIRST, {"-journal"}),
    (cold_journal, BOTH, {"-journal"}),
]


# ── reading them ────────────────────────────────────────────────────────────────────────


def build_state(folder: Path, build: Callable[[Path], None]) -> Path:
    """Build the database in a folder of another user, and return its path."""
    path = folder / "theirs" / "r.db"
    path.parent.mkdir()
    with tempfile.TemporaryDirectory() as workshop:
        build(Path(workshop) / "r.db")
        for file in Path(workshop).glob("r.db*"):
            if ".live" not in file.name:
                shutil.copy2(file, path.parent)
    for file in (path.parent, *path.parent.iterdir()):
        os.chown(file, *((NOBODY, NOBODY) if AS_ROOT else (-1, -1)))
    return path


def file_states(path: Path) -> dict[str, tuple[str, int]]:
    """Return the digest and the modification time of every file in the folder."""
    return {
        file.name.removeprefix(path.name): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in path.parent.iterdir()
    }


@pytest.mark.parametrize("folder_mode", [0o755, 0o555], ids=["writable", "unwritable"])
@pytest.mark.parametrize("file_mode", [0o644, 0o444], ids=["file writable", "file unwritable"])
@pytest.mark.parametrize(("build", "texts", "suffixes"), STATES)
def test_committed_rows_are_read_without_changing_any_file(
    reachable: Path, children: ForkServer, build: Callable[[Path], None], texts: list[str], suffixes: set[str],
    folder_mode: int, file_mode: int,
) -> None:  # fmt: skip
    path = build_state(reachable, build)
    before = file_states(path)
    assert before.keys() == {"", *suffixes}
    for file in path.parent.iterdir():
        file.chmod(file_mode)
    path.parent.chmod(folder_mode)
    outcome = children.run(read_foreign_sessions, str(path), nobody=AS_ROOT)
    path.parent.chmod(0o755)
    assert (outcome.messages, outcome.refusal, outcome.crash) == ([{"s": texts}], "", "")
    assert file_states(path) == before


@pytest.mark.parametrize(("build", "texts", "suffixes"), STATES)
def test_an_unreadable_database_is_refused(
    reachable: Path, children: ForkServer, build: Callable[[Path], None], texts: list[str], suffixes: set[str]
) -> None:
    path = build_state(reachable, build)
    before = file_states(path)
    for file in path.parent.iterdir():
        file.chmod(0o000)
    outcome = children.run(read_foreign_sessions, str(path), nobody=AS_ROOT)
    assert (outcome.messages, outcome.crash) == ([], "")
    assert outcome.refusal.startswith(f"Unreadable: {path} ")
    for file in path.parent.iterdir():
        file.chmod(0o644)
    assert file_states(path) == before


@pytest.mark.parametrize(("build", "texts", "suffixes"), [state for state in STATES if state[2]])
def test_an_unreadable_journal_is_refused(
    reachable: Path, children: ForkServer, build: Callable[[Path], None], texts: list[str], suffixes: set[str]
) -> None:
    """The database alone would give wrong rows."""
    path = build_state(reachable, build)
    for suffix in suffixes:
        path.with_name(path.name + suffix).chmod(0o000)
    outcome = children.run(read_foreign_sessions, str(path), nobody=AS_ROOT)
    assert (outcome.messages, outcome.crash) == ([], "")
    assert outcome.refusal.startswith(f"Unreadable: {path} ")


# ── while it is being written ───────────────────────────────────────────────────────────────────────────


def _write_pairs(path: str, mode: str, ready: object, stop: object) -> None:
    """Insert two rows per transaction, and sometimes so many that the file is written before the commit."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        connection.execute(f"pragma journal_mode = {mode}")
        connection.execute("pragma cache_size = 5")
        connection.execute("pragma wal_autocheckpoint = 5")
        for number in range(100_000):
            connection.execute("begin immediate")
            for seq in range(2 if number % 8 else 200):
                row = (f"{number}", seq, "x" * 900)
                connection.execute(
                    "insert into messages (session_id, seq, role, content) values (?, ?, 'user', ?)", row
                )
            if number % 50 == 49:
                connection.execute("delete from messages")
            connection.execute("commit")
            ready.set()  # type: ignore[attr-defined]
            if stop.wait(0.01 if number % 5 else 0.2):  # type: ignore[attr-defined]
                return


@pytest.mark.parametrize("mode", ["wal", "delete", "persist"])
def test_a_snapshot_never_contains_half_a_transaction(tmp_path: Path, mode: str) -> None:
    path = make_database(tmp_path / "r.db", RUBICHAN_SCHEMA)
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    owner = context.Process(target=_write_pairs, args=(str(path), mode, ready, stop))
    owner.start()
    try:
        assert ready.wait(60)
        counts: set[int] = set()
        while len(counts) < 15:
            assert owner.is_alive()
            with suppress(Busy), sqlite.snapshot(path) as connection:
                counts.add(connection.execute("select count(*) from messages").fetchone()[0])
    finally:
        stop.set()
        owner.join()
    assert owner.exitcode == 0
    assert {count % 2 for count in counts} == {0}


@pytest.fixture
def changing_database(home: Path) -> Iterator[Path]:
    """Give a database in its usual place that changes faster than it can be copied."""
    (home / ".config/rubichan").mkdir(parents=True)
    path = home / ".config/rubichan/rubichan.db"
    create_database(path)
    stopped = threading.Event()

    def touch_repeatedly() -> None:
        for time_ns in itertools.count(1):
            os.utime(path, ns=(time_ns, time_ns))
            if stopped.is_set():
                return

    thread = threading.Thread(target=touch_repeatedly)
    thread.start()
    yield path
    stopped.set()
    thread.join()


def find_targets_repeatedly(path: Path) -> None:
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        find_targets([str(path)])


def test_a_database_that_changes_all_the_time_is_busy(changing_database: Path, store: Store) -> None:
    # On a busy machine the thread that changes the file may pause for a while.
    with pytest.raises(Busy, match="is being written to"):
        find_targets_repeatedly(changing_database)
    (target,) = find_targets()
    problems: list[Problem] = []
    deadline = time.monotonic() + TIMEOUT
    while not problems and time.monotonic() < deadline:
        *_, last = refresh.sync_targets(store, [target])
        problems = last.report.problems
    assert problems[0].reason == f"{changing_database} is being written to; it will be read later."
