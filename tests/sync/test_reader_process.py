"""This module tests reading in a process of its own: it has the same result, and a crash ends only that process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import (
    RUBICHAN_LATEST_SCHEMA,
    add_rubichan_messages,
    add_rubichan_session,
    execute_sql,
    make_database,
    stored_texts,
    sync_paths,
)

from store import doctor
from store.conversations.derive import derive_rows
from store.conversations.record_blocks import BlockBuilder, decompress_block
from store.errors import Refused
from store.model.entry import NewEntry, NewRecord, Text
from store.sources.claude_code.source import ClaudeCode
from store.sources.contract import Batch
from store.store import Store
from store.sync import child_process, reader_process, refresh
from store.sync.session_writer import SessionWriter
from store.sync.targets import find_targets
from store.text.validate import decode


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    path = make_database(tmp_path / "rubichan.db", RUBICHAN_LATEST_SCHEMA)
    call = {"type": "tool_use", "id": "t1", "name": "shell", "input": {"command": "ls"}}
    result = {"type": "tool_result", "text": "a.go", "tool_use_id": "t1", "is_error": True}
    messages: list[tuple[str, Any]] = [
        ("user", "one"),
        ("assistant", [call]),
        ("user", [result]),
        ("assistant", "done"),
    ]
    add_rubichan_session(path, "a", *messages, title="First", working_dir="/src")
    add_rubichan_session(path, "fork", *messages, ("user", "another way"), forked_from="a")
    add_rubichan_session(path, "long", *[("user", f"message {number} " + "x" * 100) for number in range(1200)])
    add_rubichan_session(path, "empty")
    execute_sql(path, "insert into memories (working_dir, tag, content) values ('/src', 'a', 'remembered')")
    return path


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store counts as large."""
    monkeypatch.setattr(child_process, "LARGE_BYTES", 0)


def reader_pids() -> list[int]:
    """Return the ids of the reader processes of this process, without other children."""
    child_lists = (path.read_text().split() for path in Path("/proc/self/task").glob("*/children"))
    pids = (pid for children in child_lists for pid in children)
    return [int(pid) for pid in pids if b"store.sync.child_process" in Path("/proc", pid, "cmdline").read_bytes()]


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "The condition never became true."
        time.sleep(0.01)


SESSION_ID = "(select id from sessions where sessions.key = {table}.session)"
"""Identifies a session in the dump. Keys differ, because two processes read, and the quick index lists other sessions
first."""

PLACE = "(select name from places where places.key = records.place_key)"


def sequence_number(column: str) -> str:
    """Return the SQL for the number of an entry within its session, by the column that has its key."""
    return f"(select named.seq from entries named where named.key = {column})"


TABLES = {
    "sessions": "id, parent_id, relation, forked_at, agent_title, first_prompt, model, cwd, turns, entries, tool_calls,"
    " errors, created_at, updated_at, gone, stamp",
    "entries": f"{SESSION_ID}, seq, {sequence_number('parent')}, turn, kind, role, author, model, text, inherited,"
    " created_at, (select position from records where records.key = entries.record)",
    "records": f"{PLACE}, cast(position as integer), {SESSION_ID}, digest, length, behind",
    "places": "name, '', ''",
    "turns": f"{SESSION_ID}, n, {sequence_number('entry')}, first_seq, last_seq, started_at, ended_at",
    "tool_calls": f"{SESSION_ID}, {sequence_number('entry')}, {sequence_number('result_entry')}, turn, call_id, name,"
    " status, part, result_part, inherited",
    "facts": "text, scope, category, foreign_place",
}


def load_tables(store: Store) -> dict[str, list[Any]]:
    """Return the rows of all tables, without keys and without the positions of records in blocks."""
    tables = {
        table: store.rows(f"select {columns.format(table=table)} from {table} order by 1, 2, 3")
        for table, columns in TABLES.items()
    }
    session = SESSION_ID.format(table="records")
    records = store.rows(f"select key from records order by {PLACE}, cast(position as integer), {session}")
    tables["data"] = [store.records.get(key) for (key,) in records]
    session = SESSION_ID.format(table="entries")
    parts = store.rows(f"select parts, record from entries order by {session}, seq")
    return tables | {"parts": [column and decode(store.records.load_parts(column, record)) for column, record in parts]}


def find_unclaimed_blocks(store: Store) -> list[int]:
    """Return the blocks that hold bytes that belong to no record."""
    claimed_bytes = dict(store.rows("select block, sum(length + behind) from records group by block"))
    blocks = store.rows("select key, data from blocks")
    return [key for key, data in blocks if len(decompress_block(data)) != claimed_bytes.get(key)]


def test_reading_in_a_process_has_the_same_result(
    tmp_path: Path, foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumps = []
    for name, size in (("here", child_process.LARGE_BYTES), ("process", 0)):
        monkeypatch.setattr(child_process, "LARGE_BYTES", size)
        with Store.open(tmp_path / f"{name}.db") as store:
            report = sync_paths(store, foreign)
            assert (report.new, report.problems) == (4, [])
            dumps.append(load_tables(store))
            assert stored_texts(store, "long")[-1].startswith("message 1199")
    assert dumps[0] == dumps[1]


@pytest.mark.parametrize("kind", ["claude", "codex", "gemini", "pi", "chatgpt"])
def test_reading_a_folder_in_a_process_has_the_same_result(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(Path(__file__).parents[1] / "data" / kind, tmp_path / kind)
    dumps = []
    for name, size in (("here", child_process.LARGE_BYTES), ("process", 0)):
        monkeypatch.setattr(child_process, "LARGE_BYTES", size)
        with Store.open(tmp_path / f"{name}.db") as store:
            sync_paths(store, folder)
            dumps.append(load_tables(store))
            assert sync_paths(store, folder).new == 0
    assert dumps[0] == dumps[1]


HEADER = NewEntry(kind="header", record=NewRecord(b"{}"))


def long_entries(name: str, size: int) -> Iterator[NewEntry]:
    """Yield entries whose records are large enough for a block."""
    for number in range(size):
        text = f"{name} {number} " + "x" * 100
        yield NewEntry(role="user", parts=(Text(text),), record=NewRecord(f'{{"said":"{text}"}}'.encode()))


def test_refused_records_do_not_stay_in_a_shared_block(store: Store) -> None:
    """Deleting a session must delete all of its bytes, so a block may not hold records that were refused."""
    builder = BlockBuilder()
    accepted = builder.add(derive_rows(list(long_entries("walrus", 100))))
    refused = builder.add(derive_rows([HEADER, *long_entries("pelican", 100)]))
    builder.finish_block()
    assert accepted.block is refused.block is not None
    session = store.create_session("one")
    with store.transaction():
        writer = SessionWriter(store, session, is_append=True)
        with pytest.raises(Refused):
            writer.write(Batch(derived_rows=refused))  # the session already has a header
        writer.write(Batch(derived_rows=accepted))
    assert find_unclaimed_blocks(store) == []
    assert b"walrus 99" in store.records.get(store.row("select max(key) from records")[0])
    assert not any(b"pelican" in decompress_block(data) for (data,) in store.rows("select data from blocks"))
    assert doctor.check_store(store) == []


def test_a_shared_block_can_be_written_in_several_transactions(store: Store) -> None:
    builder = BlockBuilder()
    batches = [builder.add(derive_rows(list(long_entries(name, 100)))) for name in ("walrus", "pelican", "salmon")]
    builder.finish_block()
    writer = SessionWriter(store, store.create_session("one"), is_append=True)
    for rows in batches[:2]:
        with store.transaction():
            writer.write(Batch(derived_rows=rows))
    with suppress(KeyboardInterrupt), store.transaction():
        with store.transaction():
            writer.write(Batch(derived_rows=batches[2]))
        raise KeyboardInterrupt
    with store.transaction():
        writer.write(Batch(derived_rows=batches[2]))
    assert find_unclaimed_blocks(store) == []
    texts = [
        decode(data)["said"] for _, data in store.records.iter_session(store.get_session("one").key) if data != b"{}"
    ]
    assert [text.split()[0] for text in texts] == [name for name in ("walrus", "pelican", "salmon") for _ in range(100)]
    assert doctor.check_store(store) == []


def test_a_block_that_is_not_committed_is_not_stored(store: Store) -> None:
    builder = BlockBuilder()
    rows = builder.add(derive_rows(list(long_entries("walrus", 100))))
    builder.finish_block()
    session = store.create_session("one")
    with suppress(KeyboardInterrupt), store.transaction():
        SessionWriter(store, session, is_append=True).write(Batch(derived_rows=rows))
        raise KeyboardInterrupt
    assert store.row("select count(*) from blocks")[0] == 0


@pytest.mark.usefixtures("large")
def test_an_interrupted_sync_leaves_no_unclaimed_bytes(store: Store, foreign: Path) -> None:
    sync = refresh.sync_targets(store, find_targets([str(foreign)]))
    next(sync)
    sync.close()  # type: ignore[attr-defined]
    assert find_unclaimed_blocks(store) == []
    sync_paths(store, foreign)
    assert find_unclaimed_blocks(store) == []
    assert store.row("select count(*) from blocks")[0] > 0


@pytest.mark.usefixtures("large")
def test_a_second_sync_imports_only_what_is_new(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    os.utime(foreign)
    assert sync_paths(store, foreign).unchanged == 4
    add_rubichan_messages(foreign, "a", 4, ("user", "two"))
    report = sync_paths(store, foreign)
    assert (report.updated, report.unchanged) == (1, 3)
    assert stored_texts(store, "a")[-1] == "two"
    assert store.rows("select id from sessions where relation = 'superseded'") == []


@pytest.mark.usefixtures("large")
def test_a_bad_row_is_a_problem_and_the_others_are_imported(store: Store, foreign: Path) -> None:
    execute_sql(foreign, "update messages set content = '[{\"type' where session_id = 'a' and seq = 0")
    report = sync_paths(store, foreign)
    assert [problem.where for problem in report.problems] == ["messages:1"]
    assert report.new == 4


@pytest.mark.usefixtures("large")
def test_a_killed_reader_is_a_problem_and_imported_sessions_stay(store: Store, foreign: Path) -> None:
    sync = refresh.sync_targets(store, find_targets([str(foreign)]))
    report = next(sync).report
    for pid in reader_pids():
        os.kill(pid, signal.SIGKILL)
    for progress in sync:
        report = progress.report
    assert report.problems == [] or "crashed" in report.problems[0].reason
    assert sync_paths(store, foreign).problems == []
    assert len(stored_texts(store, "long")) == 1200
    assert not reader_pids()


@pytest.mark.usefixtures("large")
def test_a_damaged_file_is_a_problem(store: Store, foreign: Path) -> None:
    targets = find_targets([str(foreign)])
    data = bytearray(foreign.read_bytes())
    data[4096:12288] = os.urandom(8192)
    foreign.write_bytes(data)
    report = [progress.report for progress in refresh.sync_targets(store, targets)][-1]
    assert report.problems
    assert store.list_sessions(9) == []


@pytest.mark.usefixtures("large")
def test_closing_a_sync_ends_its_reader(store: Store, foreign: Path) -> None:
    sync = refresh.sync_targets(store, find_targets([str(foreign)]))
    next(sync)
    sync.close()
    assert not reader_pids()


# ── processes that are prepared for a new store ───────────────────────────────────────────────────

PREPARE = """
import sys
from pathlib import Path
from store.sync import child_process
processes = child_process.ReaderProcesses()
processes.prepare([("claude", sys.argv[1], set())])
pipe = processes.take("claude", sys.argv[1])
child_process.wait_until_ready(pipe)
((kind, rows),) = pipe.recv()
children = Path("/proc/self/task").glob("*/children")
print(kind, len(rows), *(pid for path in children for pid in path.read_text().split()), flush=True)
sys.stdin.read()
"""
"""Lets processes read for a store that is never created, says what came, and waits."""


@pytest.fixture
def claude_home(tmp_path: Path) -> Path:
    return shutil.copytree(Path(__file__).parents[1] / "data/claude", tmp_path / "claude")


def test_prepared_processes_read_before_there_is_a_store_and_end_with_their_parent(claude_home: Path) -> None:
    expected = len(list(ClaudeCode().quick_read(str(claude_home), ())))
    command = [sys.executable, "-c", PREPARE, str(claude_home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        kind, count, *pids = parent.stdout.readline().split()
        assert (kind, int(count), len(pids)) == ("rows", expected, child_process.FIRST_IMPORT_READERS)
        output = [os.readlink(f"/proc/{pid}/fd/1") for pid in pids]
        parent.kill()
    assert output == [os.devnull] * len(pids), "a pipe that the parent writes to ends with the parent"
    wait_until(lambda: not any(Path("/proc", pid).exists() for pid in pids))


def test_a_process_with_threads_is_never_forked(claude_home: Path) -> None:
    stopped = threading.Event()
    thread = threading.Thread(target=stopped.wait)
    thread.start()
    try:
        with child_process.ReaderProcesses() as processes:
            processes.prepare([("claude", str(claude_home), set())])
            # They have a command line of their own.
            wait_until(lambda: len(reader_pids()) == child_process.FIRST_IMPORT_READERS)
    finally:
        stopped.set()
        thread.join()
    assert reader_pids() == []


def test_an_idle_process_helps_another_one_and_no_session_is_read_twice(
    claude_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, address = ClaudeCode(), str(claude_home)
    with source.open(address) as here:
        refs = list(here.scan_files())
        expected = sorted(ref.native_id for ref in here.scan())
    monkeypatch.setattr(reader_process, "MIN_LEFT_TO_SHARE", 2)
    with child_process.ReaderProcesses() as processes:
        busy, helper = processes.start(), processes.start()
        assert busy is not None
        assert helper is not None
        assert reader_process.open_store(busy, source, address)
        assert child_process.wait_until_ready(helper)
        reader_process.start_scan(busy, "none")
        idle = deque([helper])
        reader = reader_process.ProcessReader([busy], job=(source.name, address, None), idle=idle)
        reader.request_sessions([(ref, True) for ref in refs])
        read = [(ref.native_id, len(list(batches))) for ref, batches in reader.read_sessions()]
    assert sorted(native_id for native_id, _ in read) == expected
    assert all(batches for _, batches in read)
    assert set(idle) == {busy, helper}
