"""These tests read files of other programs, damaged files, malicious schemas and wrong values.

Each file is read or reported as one problem, and everything else in it is read.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shutil
import socket
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from child_processes import ForkServer, import_file, import_folder
from corruptible_stores import (
    ANSWER_TEXT,
    CORRUPTED,
    NEIGHBOUR,
    PROMPT_TEXT,
    STORE_KINDS,
    WRONG_VALUES,
    StoreKind,
    corrupt_column,
    drop_constraints,
    neighbour_texts,
    sample_wrong_values,
)
from foreign_databases import RUBICHAN_LATEST_SCHEMA, add_rubichan_session, execute_sql, make_database, sync_paths

from store.errors import Unreadable
from store.sources.kit import sqlite
from store.store import Store
from store.sync.targets import find_targets

FLIPS = 200
SECONDS = 2.0
LATEST_KINDS = [kind for kind in STORE_KINDS if "first" not in kind.name and "1.19" not in kind.name]
OURS = [kind for kind in STORE_KINDS if kind.name in ("pingu", "rubichan")]


@pytest.fixture
def built(tmp_path: Path, kind: StoreKind) -> Path:
    path = tmp_path / "owner.db"
    kind.build(path)
    return path


# ── files that are no store ───────────────────────────────────────────────────────────────────────────────


def make_empty_file(path: Path) -> None:
    path.touch()


def make_text_file(path: Path) -> None:
    path.write_text("Dear diary, ")


def make_header_only(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def make_zeros(path: Path) -> None:
    path.write_bytes(bytes(8192))


def make_other_database(path: Path) -> None:
    make_database(path, "create table places (id integer primary key, url text); create table sessions (id, title)")


def make_own_store(path: Path) -> None:
    Store.open(path).close()


def make_folder(path: Path) -> None:
    path.mkdir()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as opened:
        opened.bind(str(path))


def make_broken_link(path: Path) -> None:
    path.symlink_to("nowhere")


def make_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    "make_file",
    [
        *(make_empty_file, make_text_file, make_header_only, make_zeros, make_other_database, make_own_store),
        *(make_folder, make_pipe, make_socket, make_broken_link, make_link_to_itself),
    ],
)
def test_files_that_are_no_conversation_store_are_refused_in_one_sentence(tmp_path: Path, make_file: Any) -> None:
    path = tmp_path / "x"
    make_file(path)
    with pytest.raises(Unreadable) as caught:
        find_targets([str(path)])
    assert re.fullmatch(
        r"\S*/x is [^\n]*\.|\S*/x cannot be read: [^\n]*\.|No such file or folder: \S*/x\.", str(caught.value)
    )


@pytest.mark.parametrize("missing", [1, 100, 4096, 30_000])
def test_a_truncated_store(tmp_path: Path, store: Store, missing: int) -> None:
    owner = make_database(tmp_path / "x.db", RUBICHAN_LATEST_SCHEMA)
    add_rubichan_session(owner, NEIGHBOUR, ("user", PROMPT_TEXT), ("assistant", ANSWER_TEXT))
    add_rubichan_session(owner, CORRUPTED, ("user", "hello " * 10_000))
    os.truncate(owner, owner.stat().st_size - missing)
    reasons = import_file(store, str(owner))
    if not any(reason.startswith(str(owner)) for reason in reasons):
        assert neighbour_texts(store, owner) == [PROMPT_TEXT, ANSWER_TEXT]


# ── damage ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", LATEST_KINDS, ids=str)
def test_files_with_changed_bytes(tmp_path: Path, built: Path, kind: StoreKind, children: ForkServer) -> None:
    """Change one byte in most files and more in some. Half of the changes are in the first page with the schema."""
    original, rng, folder = built.read_bytes(), random.Random(7), tmp_path / "flipped"
    folder.mkdir()
    for number in range(FLIPS):
        corrupted = bytearray(original)
        for _ in range(1 if number % 4 else rng.choice([2, 8, 64])):
            corrupted[rng.randrange(len(corrupted) if number % 2 else 4096)] ^= rng.randrange(1, 256)
        (folder / f"{number:03}.db").write_bytes(corrupted)
    outcome = children.run(import_folder, str(folder), SECONDS)
    assert (outcome.crash, outcome.refusal) == ("", "")
    assert [name for name, _ in outcome.messages] == sorted(os.listdir(folder))
    reasons = [reason for _, reasons in outcome.messages for reason in reasons]
    assert [reason for reason in reasons if not reason.endswith(".") or "\n" in reason] == []
    opened = sum(not reasons for _, reasons in outcome.messages)
    assert 0 < opened < FLIPS


# ── schemas ───────────────────────────────────────────────────────────────────────────────────────

ENDLESS = "with recursive endless(n) as (select 1 union all select n + 1 from endless)"
DISGUISED = """
pragma writable_schema = on;
update sqlite_master set sql = replace(sql, 'CREATE VIRTUAL', 'CREATE /* */ VIRTUAL') where name = 'memories';
"""


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    path = make_database(tmp_path / "owner.db", RUBICHAN_LATEST_SCHEMA)
    add_rubichan_session(path, CORRUPTED, ("user", "one"), ("assistant", "first"))
    add_rubichan_session(path, NEIGHBOUR, ("user", PROMPT_TEXT), ("assistant", ANSWER_TEXT))
    return path


@pytest.mark.parametrize("view", ["select * from real_sessions", f"{ENDLESS} select n as id from endless"])
def test_a_view_in_place_of_a_table_is_refused(owner: Path, view: str) -> None:
    make_database(owner, f"alter table sessions rename to real_sessions; create view sessions as {view}")
    with pytest.raises(Unreadable, match="is not a conversation store"):
        find_targets([str(owner)])


VIRTUAL = """
create virtual table memories using fts5(id, working_dir, tag, content, created_at, updated_at);
insert into memories (content) values ('This is no fact.');
"""


@pytest.mark.parametrize(
    "replacement",
    [
        f"create view memories as {ENDLESS} select n as id, n as working_dir, n as tag, n as content,"
        " n as created_at, n as updated_at from endless",
        VIRTUAL,
        VIRTUAL + DISGUISED,
        "create table memories (id integer primary key, content text); insert into memories values (1, 'Nor this.')",
    ],
    ids=["endless view", "virtual table", "virtual table in disguise", "another's table"],
)
def test_views_and_foreign_tables_in_place_of_a_table_are_ignored(owner: Path, store: Store, replacement: str) -> None:
    make_database(owner, f"drop table memories; {replacement}")
    assert sync_paths(store, owner).problems == []
    assert neighbour_texts(store, owner) == [PROMPT_TEXT, ANSWER_TEXT]
    assert store.facts.current(None) == []


def test_a_table_without_rowids_is_a_problem(owner: Path, store: Store) -> None:
    columns = "id text primary key, working_dir, tag, content, created_at, updated_at"
    make_database(owner, f"drop table memories; create table memories ({columns}) without rowid")
    (problem,) = sync_paths(store, owner).problems
    assert "no such column: rowid" in problem.reason
    assert neighbour_texts(store, owner) == [PROMPT_TEXT, ANSWER_TEXT]


def test_triggers_never_run(owner: Path, store: Store) -> None:
    for event in ("insert", "update", "delete"):
        for table in ("sessions", "messages"):
            make_database(
                owner,
                f"create trigger {event}_{table} before {event} on {table} begin delete from messages;"
                " select load_extension('x'), raise(abort, 'ran'); end",
            )
    assert sync_paths(store, owner).problems == []
    assert neighbour_texts(store, owner) == [PROMPT_TEXT, ANSWER_TEXT]


def test_generated_columns_are_not_computed(owner: Path, store: Store) -> None:
    """Sixty of them would take 2.4 GB per row."""
    for number in range(60):
        execute_sql(
            owner, f"alter table messages add column bomb{number} as (hex(zeroblob(20000000)) || content) virtual"
        )
    assert sync_paths(store, owner).problems == []
    assert neighbour_texts(store, owner) == [PROMPT_TEXT, ANSWER_TEXT]
    (record,) = store.row("select max(record) from entries")
    assert json.loads(store.records.get(record))["bomb0"] is None


@pytest.mark.parametrize("spelling", ["CREATE TABLE", "CREATE /* */ TABLE"])
def test_opening_computes_no_generated_column(owner: Path, spelling: str, children: ForkServer) -> None:
    """The check of a database would compute this one for every row, for minutes."""
    computed = "b as (length(hex(zeroblob(30000000 + a)))) not null"
    make_database(
        owner,
        "create table bomb (a integer primary key, b); create table '5' (a);"
        "with recursive n(a) as (select 1 union all select a + 1 from n where a < 2000)"
        " insert into bomb (a) select a from n;"
        "pragma writable_schema = on;"
        f"update sqlite_master set sql = '{spelling} bomb (a integer primary key, {computed})' where name = 'bomb'",
    )
    outcome = children.run(import_folder, str(owner.parent), SECONDS)
    assert (outcome.crash, outcome.messages) == ("", [[owner.name, []]])


@pytest.mark.usefixtures("clock_advances_at_every_call")
def test_opening_has_one_deadline(owner: Path) -> None:
    rows = "with recursive n(a) as (select 1 union all select a + 1 from n where a < 50000) select a from n"
    make_database(owner, f"create table numbers (a not null); insert into numbers {rows}")
    with pytest.raises(Unreadable, match=r"takes longer than \d+ seconds"), sqlite.snapshot(owner):
        pass


def test_a_generated_column_does_not_replace_a_real_one(owner: Path) -> None:
    make_database(
        owner,
        "alter table messages rename column content to hidden;"
        "alter table messages add column content as (hex(zeroblob(20000000))) virtual",
    )
    with pytest.raises(Unreadable, match="is not a conversation store"):
        find_targets([str(owner)])


def test_a_row_that_violates_a_check_constraint_is_read(tmp_path: Path, store: Store) -> None:
    """The constraint is not evaluated, because that could take forever."""
    schema = RUBICHAN_LATEST_SCHEMA.replace(
        "content text not null", "content text not null check (length(content) < 9)", 1
    )
    owner = make_database(tmp_path / "x.db", schema)
    with closing(sqlite3.connect(owner)) as connection, connection:
        connection.execute("pragma ignore_check_constraints = on")
        connection.execute("insert into sessions (id, model) values (?, 'm')", (NEIGHBOUR,))
        message = "insert into messages (session_id, seq, role, content) values (?, 0, 'user', ?)"
        connection.execute(message, (NEIGHBOUR, json.dumps([{"type": "text", "text": PROMPT_TEXT}])))
    assert sync_paths(store, owner).problems == []
    assert neighbour_texts(store, owner) == [PROMPT_TEXT]


def test_column_names_that_are_not_utf_8(owner: Path, store: Store) -> None:
    execute_sql(owner, "alter table messages add column strange text")
    original = owner.read_bytes()
    owner.write_bytes(original.replace(b"strange text", b"str\xffnge text"))
    problems = sync_paths(store, owner).problems
    assert {problem.where for problem in problems} == {NEIGHBOUR, CORRUPTED}


@pytest.mark.parametrize(
    "statement",
    [
        "attach 'elsewhere.db' as elsewhere",
        "vacuum into 'elsewhere.db'",
        "create table more (id)",
        "create temp table more (id)",
        "delete from sessions",
        "update sessions set title = 'x'",
        "insert into sessions (id, model) values ('x', 'y')",
        "drop table sessions",
        "pragma writable_schema = on",
        "pragma trusted_schema = on",
        "pragma query_only = off",
        "pragma journal_mode = wal",
        "begin immediate",
        "select load_extension('x')",
    ],
)
def test_statements_other_than_reads_are_refused(owner: Path, statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(owner.parent)
    with sqlite.snapshot(owner) as connection, pytest.raises(sqlite3.Error):
        connection.execute(statement)
    assert os.listdir() == [owner.name]


@pytest.fixture
def clock_advances_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the clock by one second whenever it is read."""
    monkeypatch.setattr(time, "monotonic", itertools.count().__next__)


@pytest.mark.usefixtures("clock_advances_at_every_call")
def test_an_endless_statement_is_interrupted(owner: Path) -> None:
    with pytest.raises(Unreadable, match="interrupted"), sqlite.snapshot(owner) as connection:
        connection.execute(f"{ENDLESS} select n from endless where n < 0").fetchone()


@pytest.mark.usefixtures("clock_advances_at_every_call")
def test_a_slow_statement_that_returns_rows_is_not_interrupted(owner: Path) -> None:
    slow_select = f"select role, ({ENDLESS} select max(n) from (select n from endless limit 60000)) as n from messages"
    with sqlite.snapshot(owner) as connection:
        assert len(connection.execute(" union all ".join([slow_select] * 5)).fetchall()) == 20


# ── values ────────────────────────────────────────────────────────────────────────────────────────

TEXT_TABLES = ("sessions", "messages", "turns", "events", "session_entries")


@pytest.mark.parametrize("kind", LATEST_KINDS, ids=str)
def test_a_wrong_value_in_any_column(tmp_path: Path, built: Path, kind: StoreKind, store: Store) -> None:
    for number, (table, column) in enumerate(drop_constraints(built)):
        for value in sample_wrong_values(number):
            path = tmp_path / f"{table}.{column}.{WRONG_VALUES.index(value)}.db"
            shutil.copy(built, path)
            corrupt_column(path, table, column, value)
            report = sync_paths(store, path)
            assert all(problem.where and problem.reason.endswith(".") for problem in report.problems)
            assert neighbour_texts(store, path, kind.neighbour_id) == [PROMPT_TEXT, ANSWER_TEXT], (table, column, value)
            path.unlink()


def find_text_columns(path: Path) -> list[tuple[str, str]]:
    """Return the columns that contain text."""
    with closing(sqlite3.connect(path)) as connection:
        columns = connection.execute(
            "select tables.name, columns.name from sqlite_master as tables, pragma_table_info(tables.name) as columns"
            " where tables.type = 'table' and tables.name not like '%_fts%'"
        ).fetchall()
        text = "select 1 from {} where typeof({}) in ('text', 'blob')"
        return [column for column in columns if connection.execute(text.format(*column)).fetchone()]


@pytest.mark.parametrize("kind", LATEST_KINDS, ids=str)
def test_a_value_too_large_to_hold(
    tmp_path: Path, built: Path, kind: StoreKind, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MAX_VALUE_BYTES", 100_000)
    for table, column in find_text_columns(built):
        path = tmp_path / f"{table}.{column}.db"
        shutil.copy(built, path)
        corrupt_column(path, table, column, "x" * 200_000)
        report = sync_paths(store, path)
        if table in TEXT_TABLES and column != "session_id":
            assert report.problems, (table, column)
        if kind in OURS:
            assert neighbour_texts(store, path, kind.neighbour_id) == [PROMPT_TEXT, ANSWER_TEXT], (table, column)


def test_a_row_too_large_to_hold_is_left_out_of_its_session(
    owner: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MAX_VALUE_BYTES", 100_000)
    add_rubichan_session(owner, "large", ("user", "before"), ("assistant", "x" * 200_000), ("user", "after"))
    (problem,) = sync_paths(store, owner).problems
    assert (problem.where, problem.session) == ("messages:6", "large")
    assert "is left out" in problem.reason
    entries = store.chains.entries(store.sessions.find("large").key, first=0)
    assert [entry.text for entry in entries] == ["before", "after"]
    execute_sql(owner, "update messages set content = '[]' where id = 6")
    assert sync_paths(store, owner).problems == []
