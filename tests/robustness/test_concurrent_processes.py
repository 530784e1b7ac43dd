"""Several processes at one store."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from child_processes import (
    SHARED_SESSION,
    append_messages,
    create_and_purge_sessions,
    edit_and_search_until_stopped,
    open_and_append,
    read_until_stopped,
    start_fork_server,
)
from store_integrity import find_faults

from store.doctor import check_store
from store.store import Store

WRITERS = 4
MANY_ENTRIES = 5_000
ENTRIES = 150


def write_at_once(path: Path, entries: int) -> list[list[tuple[str, str]]]:
    """What each writer was told was kept; a person edits and searches meanwhile."""
    stop = path.with_name("stop")
    with ExitStack() as stack:
        *writers, person = [stack.enter_context(start_fork_server()) for _ in range(WRITERS + 1)]
        person.submit(edit_and_search_until_stopped, str(path), str(stop))
        for n, writer in enumerate(writers):
            writer.submit(append_messages, str(path), f"writer{n}", entries)
        outcomes = [writer.receive() for writer in writers]
        stop.touch()
        edited = person.receive()
    assert [outcome.refusal + outcome.crash for outcome in [*outcomes, edited]] == [""] * (WRITERS + 1)
    assert edited.messages[0] > 0
    return [[(entry, text) for entry, text in outcome.messages] for outcome in outcomes]


def check(path: Path, kept: list[list[tuple[str, str]]]) -> None:
    assert find_faults(path) == []
    with Store.open(path) as store:
        assert check_store(store) == []
        found = {
            message.id: message.content
            for session in store.list_sessions(100)
            for message in store.get_messages(session.id)
        }
        assert found == {entry: [text] for told in kept for entry, text in told}
        total = sum(map(len, kept))
        assert store.search.find("says")[1] == total
        assert len(store.get_messages(SHARED_SESSION)) == total // 2
    for told in kept:
        shared = [int(entry.rpartition("#")[2]) for entry, _ in told if entry.startswith(SHARED_SESSION)]
        assert shared == sorted(shared)


def test_four_processes_append_while_a_fifth_edits_and_searches(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    kept = write_at_once(path, ENTRIES)
    assert [len(told) for told in kept] == [ENTRIES] * WRITERS
    check(path, kept)


@pytest.mark.long
def test_four_processes_append_for_a_long_time(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    kept = write_at_once(path, MANY_ENTRIES)
    assert [len(told) for told in kept] == [MANY_ENTRIES] * WRITERS
    check(path, kept)


@pytest.mark.parametrize("restored", [False, True])
def test_processes_that_open_the_store_together_share_it(tmp_path: Path, restored: bool) -> None:
    """A new file, or a backup put back: to make either use a log is where SQLite itself does not wait for others."""
    backup = tmp_path / "backup.db"
    with Store.open(backup) as store:
        store.row("pragma journal_mode = delete")
    with ExitStack() as stack:
        openers = [stack.enter_context(start_fork_server()) for _ in range(6)]
        for n in range(6):
            path = tmp_path / f"{n}.db"
            if restored:
                shutil.copy(backup, path)
            for opener in openers:
                opener.submit(open_and_append, str(path))
            outcomes = [opener.receive() for opener in openers]
            assert [outcome.refusal + outcome.crash for outcome in outcomes] == [""] * len(openers)
            assert sorted(entry for outcome in outcomes for entry, _ in outcome.messages) == [f"a#{i}" for i in range(6)]
            assert find_faults(path) == []


def test_a_reader_never_sees_what_another_process_purged(tmp_path: Path) -> None:
    path, read_some, stop = tmp_path / "store.db", tmp_path / "read some", tmp_path / "stop"
    Store.open(path).close()
    with start_fork_server() as writers, start_fork_server() as readers:
        readers.submit(read_until_stopped, str(path), str(read_some), str(stop))
        written = writers.run(create_and_purge_sessions, str(path), 30, str(read_some))
        stop.touch()
        read = readers.receive()
    assert written.refusal + written.crash == ""
    assert read.refusal + read.crash == ""
    assert find_faults(path) == []
