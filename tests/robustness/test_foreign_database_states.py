"""The states in which a program leaves its database, by a clean end or a crash, in folders that may be written or not.

The rows are right or the refusal is clear; and afterwards everything beside the file is as it was, to the byte.
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
"""Whose rights are not checked, so that a child must give them up first."""


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that a child without rights can get to."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


# ── how a file was left ───────────────────────────────────────────────────────────────────────────


def talk(path: Path, *, wal: bool = False) -> None:
    """One message, all of it in the file itself."""
    make_database(path, RUBICHAN_SCHEMA, wal=wal)
    add_rubichan_session(path, "s", ("user", "one"))


def crashed(path: Path, *endings: str) -> None:
    """What a crash leaves, which is what stands there in the middle of the work."""
    for ending in ("", *endings):
        shutil.copy(f"{path}.live{ending}", f"{path}{ending}")


def say_two(connection: sqlite3.Connection) -> None:
    connection.execute(
        "insert into messages (session_id, seq, role, content)"
        """ values ('s', 1, 'user', '[{"type": "text", "text": "two"}]')"""
    )


def rollback(path: Path) -> None:
    talk(path)
    add_rubichan_messages(path, "s", 1, ("user", "two"))


def wal_closed(path: Path) -> None:
    talk(path, wal=True)
    add_rubichan_messages(path, "s", 1, ("user", "two"))
    assert path.read_bytes()[18:20] == b"\x02\x02"


def _wal_crashed(path: Path, *endings: str) -> None:
    live = Path(f"{path}.live")
    talk(live, wal=True)
    with closing(sqlite3.connect(live, isolation_level=None)) as connection:
        say_two(connection)
        crashed(path, *endings)


def wal_with_shm(path: Path) -> None:
    _wal_crashed(path, "-wal", "-shm")


def wal_without_shm(path: Path) -> None:
    _wal_crashed(path, "-wal")


def _journal_left(path: Path, mode: str) -> None:
    """In the middle of a transaction too large for the memory it may use: the file is half rewritten."""
    live = Path(f"{path}.live")
    talk(live)
    with closing(sqlite3.connect(live, isolation_level=None)) as connection:
        connection.execute(f"pragma journal_mode = {mode}")
        connection.execute("pragma cache_size = 1")
        before = live.read_bytes()
        connection.execute("begin")
        connection.execute("""update messages set content = '[{"type": "text", "text": "half"}]'""")
        filler = "insert into messages (session_id, seq, role, content) values ('s', ?, 'user', '[]')"
        connection.executemany(filler, [(number,) for number in range(2, 2000)])
        assert live.read_bytes() != before
        crashed(path, "-journal")


def hot_journal(path: Path) -> None:
    _journal_left(path, "delete")


def hot_journal_that_persists(path: Path) -> None:
    _journal_left(path, "persist")


def cold_journal(path: Path) -> None:
    """Where the mode is to keep it, its header is blanked when all is done."""
    live = Path(f"{path}.live")
    talk(live)
    with closing(sqlite3.connect(live, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = persist")
        say_two(connection)
        crashed(path, "-journal")
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


# ── and what is made of it ────────────────────────────────────────────────────────────────────────


def left(folder: Path, build: Callable[[Path], None]) -> Path:
    """Nothing but what the program left, all of it a person's own."""
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


def seen(path: Path) -> dict[str, tuple[str, int]]:
    """Every file beside it: its bytes and when they changed."""
    return {
        file.name.removeprefix(path.name): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in path.parent.iterdir()
    }


@pytest.mark.parametrize("folder_mode", [0o755, 0o555], ids=["writable", "unwritable"])
@pytest.mark.parametrize("file_mode", [0o644, 0o444], ids=["file writable", "file unwritable"])
@pytest.mark.parametrize(("build", "said", "beside"), STATES)
def test_what_was_committed_is_read(
    reachable: Path, children: ForkServer, build: Callable[[Path], None], said: list[str], beside: set[str],
    folder_mode: int, file_mode: int,
) -> None:  # fmt: skip
    path = left(reachable, build)
    before = seen(path)
    assert before.keys() == {"", *beside}
    for file in path.parent.iterdir():
        file.chmod(file_mode)
    path.parent.chmod(folder_mode)
    outcome = children.run(read_foreign_sessions, str(path), nobody=AS_ROOT)
    path.parent.chmod(0o755)
    assert (outcome.messages, outcome.refusal, outcome.crash) == ([{"s": said}], "", "")
    assert seen(path) == before


@pytest.mark.parametrize(("build", "said", "beside"), STATES)
def test_what_may_not_be_read_is_refused(
    reachable: Path, children: ForkServer, build: Callable[[Path], None], said: list[str], beside: set[str]
) -> None:
    path = left(reachable, build)
    before = seen(path)
    for file in path.parent.iterdir():
        file.chmod(0o000)
    outcome = children.run(read_foreign_sessions, str(path), nobody=AS_ROOT)
    assert (outcome.messages, outcome.crash) == ([], "")
    assert outcome.refusal.startswith(f"Unreadable: {path} ")
    for file in path.parent.iterdir():
        file.chmod(0o644)
    assert seen(path) == before


@pytest.mark.parametrize(("build", "said", "beside"), [state for state in STATES if state[2]])
def test_what_stands_beside_may_not_be_read(
    reachable: Path, children: ForkServer, build: Callable[[Path], None], said: list[str], beside: set[str]
) -> None:
    """Half of the truth would be a lie."""
    path = left(reachable, build)
    for ending in beside:
        path.with_name(path.name + ending).chmod(0o000)
    outcome = children.run(read_foreign_sessions, str(path), nobody=AS_ROOT)
    assert (outcome.messages, outcome.crash) == ([], "")
    assert outcome.refusal.startswith(f"Unreadable: {path} ")


# ── while it is written ───────────────────────────────────────────────────────────────────────────


def _write_pairs(path: str, mode: str, ready: object, enough: object) -> None:
    """Two rows a transaction, now and then a great many, so that the file is rewritten before the end of it."""
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
            if enough.wait(0.01 if number % 5 else 0.2):  # type: ignore[attr-defined]
                return


@pytest.mark.parametrize("mode", ["wal", "delete", "persist"])
def test_what_is_read_is_one_moment(tmp_path: Path, mode: str) -> None:
    path = make_database(tmp_path / "r.db", RUBICHAN_SCHEMA)
    context = multiprocessing.get_context("spawn")
    ready, enough = context.Event(), context.Event()
    owner = context.Process(target=_write_pairs, args=(str(path), mode, ready, enough))
    owner.start()
    try:
        assert ready.wait(60)
        counts: set[int] = set()
        while len(counts) < 15:
            assert owner.is_alive()
            with suppress(Busy), sqlite.snapshot(path) as connection:
                counts.add(connection.execute("select count(*) from messages").fetchone()[0])
    finally:
        enough.set()
        owner.join()
    assert owner.exitcode == 0
    assert {count % 2 for count in counts} == {0}


@pytest.fixture
def restless(home: Path) -> Iterator[Path]:
    """A store where its program keeps it, which never holds still for as long as it takes to copy it."""
    (home / ".config/rubichan").mkdir(parents=True)
    path = home / ".config/rubichan/rubichan.db"
    talk(path)
    quiet = threading.Event()

    def stir() -> None:
        for moment in itertools.count(1):
            os.utime(path, ns=(moment, moment))
            if quiet.is_set():
                return

    stirring = threading.Thread(target=stir)
    stirring.start()
    yield path
    quiet.set()
    stirring.join()


def _look_often(path: Path) -> None:
    limit = time.monotonic() + TIMEOUT
    while time.monotonic() < limit:
        find_targets([str(path)])


def test_a_store_that_never_holds_still_is_busy_and_not_unknown(restless: Path, store: Store) -> None:
    # On a busy machine the one that stirs may itself be kept still for a while.
    with pytest.raises(Busy, match="is being written to"):
        _look_often(restless)
    (target,) = find_targets()
    problems: list[Problem] = []
    limit = time.monotonic() + TIMEOUT
    while not problems and time.monotonic() < limit:
        *_, last = refresh.sync_targets(store, [target])
        problems = last.report.problems
    assert problems[0].reason == f"{restless} is being written to; it will be read later."
