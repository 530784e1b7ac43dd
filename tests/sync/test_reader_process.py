"""Reading ahead in a process of its own gives what reading here gives, and dies alone."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
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
from store.sources.contract import Batch
from store.store import Store
from store.sync import child_process, refresh
from store.sync.session_writer import SessionWriter
from store.sync.targets import find_targets
from store.text.validate import decode


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    path = make_database(tmp_path / "rubichan.db", RUBICHAN_LATEST_SCHEMA)
    call = {"type": "tool_use", "id": "t1", "name": "shell", "input": {"command": "ls"}}
    result = {"type": "tool_result", "text": "a.go", "tool_use_id": "t1", "is_error": True}
    told: list[tuple[str, Any]] = [("user", "one"), ("assistant", [call]), ("user", [result]), ("assistant", "done")]
    add_rubichan_session(path, "a", *told, title="First", working_dir="/src")
    add_rubichan_session(path, "fork", *told, ("user", "another way"), forked_from="a")
    add_rubichan_session(path, "long", *[("user", f"message {number} " + "x" * 100) for number in range(1200)])
    add_rubichan_session(path, "empty")
    execute_sql(path, "insert into memories (working_dir, tag, content) values ('/src', 'a', 'remembered')")
    return path


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store counts as large."""
    monkeypatch.setattr(child_process, "LARGE_BYTES", 0)


def readers() -> list[int]:
    """The readers that this process has under way, and none of what else it may have started."""
    listed = (children.read_text().split() for children in Path("/proc/self/task").glob("*/children"))
    pids = (pid for found in listed for pid in found)
    return [int(pid) for pid in pids if b"store.sync.child_process" in Path("/proc", pid, "cmdline").read_bytes()]


OF = "(select id from sessions where sessions.key = session)"
"""Not by its key: what is skimmed first has another."""

TABLES = {
    "sessions": "id, parent_id, relation, forked_at, agent_title, first_prompt, model, cwd, turns, entries, tool_calls,"
    " errors, created_at, updated_at, gone, stamp",
    "entries": f"key, {OF}, parent, seq, record, turn, kind, role, author, model, text, inherited, created_at",
    "records": f"key, {OF}, place_key, position, digest, length, behind",
    "places": "key, name",
    "turns": f"{OF}, n, entry, first_seq, last_seq, started_at, ended_at",
    "tool_calls": f"{OF}, turn, call_id, name, status, entry, part, result_entry, result_part, inherited",
    "facts": "text, scope, category, foreign_place",
}


def everything(store: Store) -> dict[str, list[Any]]:
    """But for where records lie, which is another's affair."""
    told = {table: store.rows(f"select {columns} from {table} order by 1, 2") for table, columns in TABLES.items()}
    told["data"] = [store.records.get(key) for (key,) in store.rows("select key from records order by key")]
    parts = store.rows("select parts, record from entries order by key")
    return told | {"parts": [column and decode(store.records.load_parts(column, record)) for column, record in parts]}


def unclaimed(store: Store) -> list[int]:
    """Blocks in which something lies that no record has."""
    claimed = dict(store.rows("select block, sum(length + behind) from records group by block"))
    blocks = store.rows("select key, data from blocks")
    return [key for key, data in blocks if len(decompress_block(data)) != claimed.get(key)]


def test_it_is_the_same_as_reading_here(tmp_path: Path, foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for name, size in (("here", child_process.LARGE_BYTES), ("ahead", 0)):
        monkeypatch.setattr(child_process, "LARGE_BYTES", size)
        with Store.open(tmp_path / f"{name}.db") as store:
            report = sync_paths(store, foreign)
            assert (report.new, report.problems) == (4, [])
            told.append(everything(store))
            assert stored_texts(store, "long")[-1].startswith("message 1199")
    assert told[0] == told[1]


@pytest.mark.parametrize("kind", ["claude", "codex", "gemini", "pi", "chatgpt"])
def test_a_folder_is_read_ahead_the_same(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shutil.copytree(Path(__file__).parents[1] / "data" / kind, tmp_path / kind)
    told = []
    for name, size in (("here", child_process.LARGE_BYTES), ("ahead", 0)):
        monkeypatch.setattr(child_process, "LARGE_BYTES", size)
        with Store.open(tmp_path / f"{name}.db") as store:
            sync_paths(store, folder)
            told.append(everything(store))
            assert sync_paths(store, folder).new == 0
    assert told[0] == told[1]


HEADER = NewEntry(kind="header", record=NewRecord(b"{}"))


def many(name: str, size: int) -> Iterator[NewEntry]:
    """Whose records are worth a block."""
    for number in range(size):
        told = f"{name} {number} " + "x" * 100
        yield NewEntry(role="user", parts=(Text(told),), record=NewRecord(f'{{"said":"{told}"}}'.encode()))


def test_what_came_in_one_block_and_was_refused_is_not_kept_in_it(store: Store) -> None:
    """Whoever deletes a session must find all that there is of it."""
    parcels = BlockBuilder()
    here = parcels.add(derive_rows(list(many("walrus", 100))))
    refused = parcels.add(derive_rows([HEADER, *many("pelican", 100)]))
    parcels.finish_block()
    assert here.block is refused.block is not None
    session = store.create_session("one")
    with store.transaction():
        chain = SessionWriter(store, session, is_append=True)
        with pytest.raises(Refused):
            chain.write(Batch(derived_rows=refused))  # it has its header already
        chain.write(Batch(derived_rows=here))
    assert unclaimed(store) == []
    assert b"walrus 99" in store.records.get(store.row("select max(key) from records")[0])
    assert not any(b"pelican" in decompress_block(data) for (data,) in store.rows("select data from blocks"))
    assert doctor.check_store(store) == []


def test_what_came_together_and_is_kept_apart_is_all_there(store: Store) -> None:
    parcels = BlockBuilder()
    told = [parcels.add(derive_rows(list(many(name, 100)))) for name in ("walrus", "pelican", "salmon")]
    parcels.finish_block()
    chain = SessionWriter(store, store.create_session("one"), is_append=True)
    for rows in told[:2]:
        with store.transaction():
            chain.write(Batch(derived_rows=rows))
    with suppress(KeyboardInterrupt), store.transaction():
        with store.transaction():
            chain.write(Batch(derived_rows=told[2]))
        raise KeyboardInterrupt
    with store.transaction():
        chain.write(Batch(derived_rows=told[2]))
    assert unclaimed(store) == []
    said = [
        decode(data)["said"] for _, data in store.records.iter_session(store.get_session("one").key) if data != b"{}"
    ]
    assert [told.split()[0] for told in said] == [name for name in ("walrus", "pelican", "salmon") for _ in range(100)]
    assert doctor.check_store(store) == []


def test_a_block_that_is_not_committed_is_gone(store: Store) -> None:
    parcels = BlockBuilder()
    rows = parcels.add(derive_rows(list(many("walrus", 100))))
    parcels.finish_block()
    session = store.create_session("one")
    with suppress(KeyboardInterrupt), store.transaction():
        SessionWriter(store, session, is_append=True).write(Batch(derived_rows=rows))
        raise KeyboardInterrupt
    assert store.row("select count(*) from blocks")[0] == 0


@pytest.mark.usefixtures("large")
def test_what_is_read_ahead_and_interrupted_leaves_nothing_unclaimed(store: Store, foreign: Path) -> None:
    under_way = refresh.sync_targets(store, find_targets([str(foreign)]))
    next(under_way)
    under_way.close()  # type: ignore[attr-defined]
    assert unclaimed(store) == []
    sync_paths(store, foreign)
    assert unclaimed(store) == []
    assert store.row("select count(*) from blocks")[0] > 0


@pytest.mark.usefixtures("large")
def test_what_came_is_known_again_and_what_is_new_comes(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    os.utime(foreign)
    assert sync_paths(store, foreign).unchanged == 4
    add_rubichan_messages(foreign, "a", 4, ("user", "two"))
    report = sync_paths(store, foreign)
    assert (report.updated, report.unchanged) == (1, 3)
    assert stored_texts(store, "a")[-1] == "two"
    assert store.rows("select id from sessions where relation = 'superseded'") == []


@pytest.mark.usefixtures("large")
def test_a_bad_row_is_a_problem_and_its_neighbours_come(store: Store, foreign: Path) -> None:
    execute_sql(foreign, "update messages set content = '[{\"type' where session_id = 'a' and seq = 0")
    report = sync_paths(store, foreign)
    assert [problem.where for problem in report.problems] == ["messages:1"]
    assert report.new == 4


@pytest.mark.usefixtures("large")
def test_a_reader_that_dies_is_a_problem_and_what_came_stays(store: Store, foreign: Path) -> None:
    running = refresh.sync_targets(store, find_targets([str(foreign)]))
    report = next(running).report
    for reader in readers():
        os.kill(reader, signal.SIGKILL)
    for progress in running:
        report = progress.report
    assert report.problems == [] or "brought its reader down" in report.problems[0].reason
    assert sync_paths(store, foreign).problems == []
    assert len(stored_texts(store, "long")) == 1200
    assert not readers()


@pytest.mark.usefixtures("large")
def test_a_damaged_file_is_a_sentence(store: Store, foreign: Path) -> None:
    targets = find_targets([str(foreign)])
    data = bytearray(foreign.read_bytes())
    data[4096:12288] = os.urandom(8192)
    foreign.write_bytes(data)
    report = [progress.report for progress in refresh.sync_targets(store, targets)][-1]
    assert report.problems
    assert store.list_sessions(9) == []


@pytest.mark.usefixtures("large")
def test_a_sync_that_is_left_ends_its_reader(store: Store, foreign: Path) -> None:
    running = refresh.sync_targets(store, find_targets([str(foreign)]))
    next(running)
    running.close()
    assert not readers()
