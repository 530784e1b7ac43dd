"""Files that nobody should trust: another program's, damaged ones, schemas that do harm, values of every wrong kind.

Each either opens or is one clear problem; what can be read beside the trouble is read.
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
OF_EACH = [kind for kind in STORE_KINDS if "first" not in kind.name and "1.19" not in kind.name]
OURS = [kind for kind in STORE_KINDS if kind.name in ("pingu", "rubichan")]


@pytest.fixture
def built(tmp_path: Path, kind: StoreKind) -> Path:
    path = tmp_path / "owner.db"
    kind.build(path)
    return path


# ── no store at all ───────────────────────────────────────────────────────────────────────────────


def of_nothing(path: Path) -> None:
    path.touch()


def of_words(path: Path) -> None:
    path.write_text("Dear diary, ")


def of_a_header(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def of_zeros(path: Path) -> None:
    path.write_bytes(bytes(8192))


def of_another_program(path: Path) -> None:
    make_database(path, "create table places (id integer primary key, url text); create table sessions (id, title)")


def of_our_own(path: Path) -> None:
    Store.open(path).close()


def a_folder(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as opened:
        opened.bind(str(path))


def a_broken_link(path: Path) -> None:
    path.symlink_to("nowhere")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    "made",
    [
        *(of_nothing, of_words, of_a_header, of_zeros, of_another_program, of_our_own),
        *(a_folder, a_pipe, a_socket, a_broken_link, a_link_to_itself),
    ],
)
def test_what_is_no_conversation_store_is_refused_in_a_sentence(tmp_path: Path, made: Any) -> None:
    path = tmp_path / "x"
    made(path)
    with pytest.raises(Unreadable) as caught:
        find_targets([str(path)])
    assert re.fullmatch(r"\S*/x is [^\n]*\.|\S*/x cannot be read: [^\n]*\.", str(caught.value))


@pytest.mark.parametrize("missing", [1, 100, 4096, 30_000])
def test_a_store_that_is_cut_short(tmp_path: Path, store: Store, missing: int) -> None:
    owner = make_database(tmp_path / "x.db", RUBICHAN_LATEST_SCHEMA)
    add_rubichan_session(owner, NEIGHBOUR, ("user", PROMPT_TEXT), ("assistant", ANSWER_TEXT))
    add_rubichan_session(owner, CORRUPTED, ("user", "hello " * 10_000))
    os.truncate(owner, owner.stat().st_size - missing)
    reasons = import_file(store, str(owner))
    if not any(reason.startswith(str(owner)) for reason in reasons):
        assert neighbour_texts(store, owner) == [PROMPT_TEXT, ANSWER_TEXT]


# ── damage ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", OF_EACH, ids=str)
def test_bytes_that_flipped(tmp_path: Path, built: Path, kind: StoreKind, children: ForkServer) -> None:
    """One byte in each of many files, half of them among the first, where all that matters stands; and more in some."""
    whole, chance, folder = built.read_bytes(), random.Random(7), tmp_path / "flipped"
    folder.mkdir()
    for number in range(FLIPS):
        spoiled = bytearray(whole)
        for _ in range(1 if number % 4 else chance.choice([2, 8, 64])):
            spoiled[chance.randrange(len(spoiled) if number % 2 else 4096)] ^= chance.randrange(1, 256)
        (folder / f"{number:03}.db").write_bytes(spoiled)
    outcome = children.run(import_folder, str(folder), SECONDS)
    assert (outcome.crash, outcome.refusal) == ("", "")
    assert [name for name, _ in outcome.messages] == sorted(os.listdir(folder))
    assert all(reason.endswith(".") and "\n" not in reason for _, reasons in outcome.messages for reason in reasons)
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
def test_a_view_is_no_table(owner: Path, view: str) -> None:
    make_database(owner, f"alter table sessions rename to real_sessions; create view sessions as {view}")
    with pytest.raises(Unreadable, match="is not a conversation store"):
        find_targets([str(owner)])


VIRTUAL = """
create virtual table memories using fts5(id, working_dir, tag, content, created_at, updated_at);
insert into memories (content) values ('This is no fact.');
"""


@pytest.mark.parametrize(
    "instead",
    [
        f"create view memories as {ENDLESS} select n as id, n as working_dir, n as tag, n as content,"
        " n as created_at, n as updated_at from endless",
        VIRTUAL,
        VIRTUAL + DISGUISED,
        "create table memories (id integer primary key, content text); insert into memories values (1, 'Nor this.')",
    ],
    ids=["endless view", "virtual table", "virtual table in disguise", "another's table"],
)
def test_what_stands_in_a_table_s_place_is_left_alone(owner: Path, store: Store, instead: str) -> None:
    make_database(owner, f"drop table memories; {instead}")
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


def test_columns_that_are_computed_are_not(owner: Path, store: Store) -> None:
    """Sixty of them would take 2.4 GB a row."""
    for number in range(60):
        execute_sql(
            owner, f"alter table messages add column bomb{number} as (hex(zeroblob(20000000)) || content) virtual"
        )
    assert sync_paths(store, owner).problems == []
    assert neighbour_texts(store, owner) == [PROMPT_TEXT, ANSWER_TEXT]
    (record,) = store.row("select max(record) from entries")
    assert json.loads(store.records.get(record))["bomb0"] is None


def test_a_column_that_is_computed_stands_for_no_other(owner: Path) -> None:
    make_database(
        owner,
        "alter table messages rename column content to hidden;"
        "alter table messages add column content as (hex(zeroblob(20000000))) virtual",
    )
    with pytest.raises(Unreadable, match="is not a conversation store"):
        find_targets([str(owner)])


def test_a_row_that_breaks_a_rule_of_its_table_is_no_damage(tmp_path: Path, store: Store) -> None:
    """And what the rule says is not worked out: it may take for ever."""
    ruled = RUBICHAN_LATEST_SCHEMA.replace(
        "content text not null", "content text not null check (length(content) < 9)", 1
    )
    owner = make_database(tmp_path / "x.db", ruled)
    with closing(sqlite3.connect(owner)) as connection, connection:
        connection.execute("pragma ignore_check_constraints = on")
        connection.execute("insert into sessions (id, model) values (?, 'm')", (NEIGHBOUR,))
        message = "insert into messages (session_id, seq, role, content) values (?, 0, 'user', ?)"
        connection.execute(message, (NEIGHBOUR, json.dumps([{"type": "text", "text": PROMPT_TEXT}])))
    assert sync_paths(store, owner).problems == []
    assert neighbour_texts(store, owner) == [PROMPT_TEXT]


def test_names_that_are_no_text(owner: Path, store: Store) -> None:
    execute_sql(owner, "alter table messages add column strange text")
    whole = owner.read_bytes()
    owner.write_bytes(whole.replace(b"strange text", b"str\xffnge text"))
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
def test_nothing_but_reading_is_possible(owner: Path, statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(owner.parent)
    with sqlite.snapshot(owner) as connection, pytest.raises(sqlite3.Error):
        connection.execute(statement)
    assert os.listdir() == [owner.name]


@pytest.fixture
def a_second_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever somebody looks at the clock, a second has gone by."""
    monkeypatch.setattr(time, "monotonic", itertools.count().__next__)


@pytest.mark.usefixtures("a_second_a_look")
def test_a_statement_without_an_end_is_given_up(owner: Path) -> None:
    with pytest.raises(Unreadable, match="interrupted"), sqlite.snapshot(owner) as connection:
        connection.execute(f"{ENDLESS} select n from endless where n < 0").fetchone()


@pytest.mark.usefixtures("a_second_a_look")
def test_a_statement_that_gives_row_after_row_is_not(owner: Path) -> None:
    slow = f"select role, ({ENDLESS} select max(n) from (select n from endless limit 60000)) as n from messages"
    with sqlite.snapshot(owner) as connection:
        assert len(connection.execute(" union all ".join([slow] * 5)).fetchall()) == 20


# ── values ────────────────────────────────────────────────────────────────────────────────────────

PLACES_OF_WORDS = ("sessions", "messages", "turns", "events", "session_entries")


@pytest.mark.parametrize("kind", OF_EACH, ids=str)
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


def texts_of(path: Path) -> list[tuple[str, str]]:
    """Every column that holds text somewhere."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(
            "select tables.name, columns.name from sqlite_master as tables, pragma_table_info(tables.name) as columns"
            " where tables.type = 'table' and tables.name not like '%_fts%'"
        ).fetchall()
        text = "select 1 from {} where typeof({}) in ('text', 'blob')"
        return [place for place in found if connection.execute(text.format(*place)).fetchone()]


@pytest.mark.parametrize("kind", OF_EACH, ids=str)
def test_a_value_too_large_to_hold(
    tmp_path: Path, built: Path, kind: StoreKind, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MAX_VALUE_BYTES", 100_000)
    for table, column in texts_of(built):
        path = tmp_path / f"{table}.{column}.db"
        shutil.copy(built, path)
        corrupt_column(path, table, column, "x" * 200_000)
        report = sync_paths(store, path)
        if table in PLACES_OF_WORDS and column != "session_id":
            assert report.problems, (table, column)
        if kind in OURS:
            assert neighbour_texts(store, path, kind.neighbour_id) == [PROMPT_TEXT, ANSWER_TEXT], (table, column)
        path.unlink()


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
