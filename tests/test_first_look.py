"""What a machine has is there with the first picture of a first run; and nothing of it can keep the browser away."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tui_terminal import Terminal

from store import ahead, sync
from store.first_look import first_look
from store.store import Store

DATA = Path(__file__).parent / "data"

RUN = "import sys; from tui.main import main; sys.exit(main())"


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
        assert all(progress.report.problems == [] for progress in sync.sync(store, sync.found()))


def test_where_there_is_nothing_nobody_waits(tmp_path: Path) -> None:
    look(tmp_path / "store.db")
    with Store.open(tmp_path / "store.db") as store:
        assert store.sessions.newest() == []


@pytest.mark.usefixtures("history")
def test_what_cannot_be_a_store_is_left_to_whoever_opens_it(tmp_path: Path) -> None:
    look(tmp_path)
    assert list(tmp_path.glob("*.db")) == []


def test_a_large_archive_is_only_glimpsed_at(store: Store, history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "LARGE", 0)
    targets = sync.targets([str(history)])
    assert [progress.done for progress in sync.glimpse(store, targets)] == [0]
    assert {session.head for session in store.sessions.newest()} == {None}
    report = [progress.report for progress in sync.sync(store, targets)][-1]
    assert (report.problems, report.new) == ([], report.seen)
    assert None not in {session.head for session in store.sessions.newest()}


@pytest.mark.usefixtures("history")
def test_a_first_run_shows_rows_at_once_and_says_what_was_found() -> None:
    with Terminal(RUN) as terminal:
        terminal.until_shown("Found", "conversations on this machine", "Claude Code")
        assert b"There are no conversations here yet" not in terminal.raw
        terminal.press("q")
