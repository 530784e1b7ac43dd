"""These tests let several processes use one store."""

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


def write_concurrently(path: Path, entries: int) -> list[list[tuple[str, str]]]:
    """Let several processes append while another one edits and searches, and return the entries of each writer."""
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


def check_store_contents(path: Path, acknowledged: list[list[tuple[str, str]]]) -> None:
    assert find_faults(path) == []
    with Store.open(path) as store:
        assert check_store(store) == []
        stored = {
            message.id: message.content[0]["text"]
            for session in store.list_sessions(100)
            for message in store.get_messages(session.id)
        }
        assert stored == {entry: text for entries_of_writer in acknowledged for entry, text in entries_of_writer}
        total = sum(map(len, acknowledged))
        assert store.search.find("says")[1] == total
        assert len(store.get_messages(SHARED_SESSION)) == total // 2
    for entries_of_writer in acknowledged:
        shared = [int(entry.rpartition("#")[2]) for entry, _ in entries_of_writer if entry.startswith(SHARED_SESSION)]
        assert shared == sorted(shared)


def test_four_processes_append_while_a_fifth_edits_and_searches(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    acknowledged = write_concurrently(path, ENTRIES)
    assert [len(entries_of_writer) for entries_of_writer in acknowledged] == [ENTRIES] * WRITERS
    check_store_contents(path, acknowledged)


@pytest.mark.long
def test_four_processes_append_for_a_long_time(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    acknowledged = write_concurrently(path, MANY_ENTRIES)
    assert [len(entries_of_writer) for entries_of_writer in acknowledged] == [MANY_ENTRIES] * WRITERS
    check_store_contents(path, acknowledged)


@pytest.mark.parametrize("restored", [False, True])
def test_processes_that_open_the_store_together_share_it(tmp_path: Path, restored: bool) -> None:
    """This covers a new file and a restored backup. SQLite does not wait for locks when it changes the journal mode."""
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
            assert sorted(entry for outcome in outcomes for entry, _ in outcome.messages) == [
                f"a#{i}" for i in range(6)
            ]
            assert find_faults(path) == []


def test_a_reader_never_sees_what_another_process_purged(tmp_path: Path) -> None:
    path, has_read, stop = tmp_path / "store.db", tmp_path / "read some", tmp_path / "stop"
    Store.open(path).close()
    with start_fork_server() as writers, start_fork_server() as readers:
        readers.submit(read_until_stopped, str(path), str(has_read), str(stop))
        written = writers.run(create_and_purge_sessions, str(path), 30, str(has_read))
        stop.touch()
        read = readers.receive()
    assert written.refusal + written.crash == ""
    assert read.refusal + read.crash == ""
    assert find_faults(path) == []
