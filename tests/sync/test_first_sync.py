"""What a machine has is there with the first picture of a first run; and nothing of it can keep the browser away."""

from __future__ import annotations

import shutil
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from command_line import CommandLine
from pty_terminal import Terminal

from store.store import Store
from store.sync import child_process, engine, refresh
from store.sync.first_look import begun_early, first_look

DATA = Path(__file__).parents[1] / "data"

RUN = "import sys; from tui.main import main; sys.exit(main())"

FIRST_SYNC = """
import sys, threading
from store.sync import child_process as second
from store.cli import run
{beside}
second.LARGE_BYTES = 0
fork, forks = second._fork, []
second._fork = lambda *what: forks.append(what) or fork(*what)
status = run(None, sys.argv[1:])
print("forks:", len(forks), file=sys.stderr)
sys.exit(status)
"""
ALONE = ""
BESIDE_A_THREAD = "threading.Thread(target=threading.Event().wait, daemon=True).start()"


@pytest.fixture
def history(home: Path) -> Path:
    """Of Claude Code, where it keeps it."""
    return shutil.copytree(DATA / "claude", home / ".claude")


def look(path: Path) -> None:
    with first_look(path) as wait:
        wait()


@pytest.mark.usefixtures("history")
def test_the_store_is_made_with_what_there_is(tmp_path: Path) -> None:
    look(tmp_path / "store.db")
    with Store.open(tmp_path / "store.db") as store:
        assert store.sessions.newest()
        assert all(
            progress.report.problems == [] for progress in refresh.sync_targets(store, refresh.discover_targets())
        )


def test_where_there_is_nothing_nobody_waits(tmp_path: Path) -> None:
    look(tmp_path / "store.db")
    with Store.open(tmp_path / "store.db") as store:
        assert store.sessions.newest() == []


@pytest.mark.usefixtures("history")
def test_what_cannot_be_a_store_is_left_to_whoever_opens_it(tmp_path: Path) -> None:
    look(tmp_path)
    assert list(tmp_path.glob("*.db")) == []


def test_a_large_archive_is_only_glimpsed_at(store: Store, history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "LARGE_BYTES", 0)
    targets = refresh.find_targets([str(history)])
    assert [progress.done for progress in engine.import_newest(store, targets)] == [0]
    assert {session.head for session in store.sessions.newest()} == {None}
    report = [progress.report for progress in refresh.sync_targets(store, targets)][-1]
    assert (report.problems, report.new) == ([], report.seen)
    assert None not in {session.head for session in store.sessions.newest()}


@pytest.mark.usefixtures("history")
def test_a_first_sync_is_looked_at_by_processes_that_were_begun_before_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "LARGE_BYTES", 0)
    begun: list[int] = []
    start = child_process.ReaderProcesses.start

    def watched(self: child_process.ReaderProcesses, *, early: bool = False) -> Connection | None:
        begun.append(path.exists())
        return start(self, early=early)

    monkeypatch.setattr(child_process.ReaderProcesses, "one", watched)
    path = tmp_path / "store.db"
    told = CommandLine(path)("sync", "--json").json["sources"]
    assert begun == [False]
    assert [source["source"] for source in told] == ["claude"]
    assert told[0]["seen"] == told[0]["new"] > 0
    assert told[0]["problems"] == []
    CommandLine(path)("sync")
    assert begun == [False]


def test_for_nothing_large_none_is_begun(history: Path) -> None:
    with begun_early() as processes:
        assert not processes._started
    assert history.exists()


@pytest.mark.parametrize("beside", [ALONE, BESIDE_A_THREAD], ids=["forked", "spawned"])
def test_forks_bring_what_processes_of_their_own_would(history: Path, tmp_path: Path, beside: str) -> None:
    shutil.copytree(DATA / "codex", history.with_name(".codex"))
    path = tmp_path / "store.db"
    command = [sys.executable, "-c", FIRST_SYNC.format(beside=beside), "--store", str(path), "sync"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, f"forks: {2 if beside == ALONE else 0}\n")
    with Store.open(path) as store, Store.memory() as read_here:
        for _ in refresh.sync_targets(read_here, refresh.discover_targets()):
            pass
        assert told(store) == told(read_here)


def told(store: Store) -> list[tuple[object, ...]]:
    sessions = sorted(store.sessions.newest(100), key=lambda one: one.id)
    return [(one.id, one.depth, one.title, one.turns, one.entries, one.updated_at) for one in sessions]


@pytest.mark.usefixtures("history")
def test_a_first_run_shows_rows_at_once_and_says_what_was_found() -> None:
    with Terminal(RUN) as terminal:
        terminal.wait_for_text("Found", "conversations on this machine", "Claude Code")
        assert b"There are no conversations here yet" not in terminal.raw
        terminal.press("q")
