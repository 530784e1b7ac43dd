"""This module measures the store, compared with plain sqlite3 doing the same."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from bench.table import ResultRow

from store.formats.content_blocks import parse_blocks
from store.model.entry import NewEntry, NewRecord
from store.model.session import Session
from store.store import Store
from store.text.validate import encode

WORDS = (
    "the upload retry test fails when file is closed before second attempt so reopen it and check status code again "
    "handler queue parser timeout migration schema index session token cache branch commit review deploy"
).split()
AT = "2026-01-01T00:00:00.000000Z"


# ── made-up conversations ─────────────────────────────────────────────────────────────────────────


RoleAndBlocks = tuple[str, list[dict[str, object]]]


def make_messages(count: int) -> Iterator[RoleAndBlocks]:
    """Yield messages in groups of four: a prompt, an answer with a tool call, its result, a final answer."""
    for number in range(count):
        words = " ".join(WORDS[(number * 7 + step * step) % len(WORDS)] for step in range(40))
        match number % 4:
            case 0:
                yield "user", [{"type": "text", "text": f"{number}: {words}"}]
            case 1:
                call: dict[str, object] = {
                    "type": "tool_use",
                    "id": f"t{number}",
                    "name": "shell",
                    "input": {"command": f"pytest {number}"},
                }
                yield "assistant", [{"type": "text", "text": words}, call]
            case 2:
                yield "user", [{"type": "tool_result", "tool_use_id": f"t{number - 1}", "content": words * 3}]
            case _:
                yield "assistant", [{"type": "text", "text": words}]


def make_entries(messages: Iterable[RoleAndBlocks]) -> list[NewEntry]:
    return [
        NewEntry(
            role=role,
            parts=parse_blocks(blocks),
            record=NewRecord(encode({"role": role, "content": blocks})),
            created_at=AT,
        )
        for role, blocks in messages
    ]


# ── the same in plain sqlite3 ─────────────────────────────────────────────────────────────────────

BARE_SCHEMA = """
create table entries (
    id integer primary key, session integer not null, parent integer, seq integer not null, role text not null,
    text text not null, parts text not null, record blob not null, created_at text not null, unique (session, seq)
);
create unique index one_header on entries(session) where parent is null;
create unique index one_child on entries(parent) where parent is not null;
create table tool_calls (
    id integer primary key, call_id text, name text, entry integer, result_entry integer
);
create index tool_calls_call on tool_calls(call_id);
create virtual table conversation_fts using fts5(text, content='', tokenize='unicode61 remove_diacritics 2');
create virtual table tools_fts using fts5(text, content='', tokenize='unicode61 remove_diacritics 2');
"""


def bare_database(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.executescript(BARE_SCHEMA)
    connection.execute("insert into entries values (1, 1, null, -1, 'header', '', '[]', '', ?)", (AT,))
    return connection


BareRow = tuple[tuple[object, ...], str, str]


def bare_rows(messages: Iterable[RoleAndBlocks]) -> Iterator[BareRow]:
    for number, (role, blocks) in enumerate(messages, 2):
        text = "\n\n".join(str(block["text"]) for block in blocks if block["type"] == "text")
        tool = " ".join(str(block.get("content") or block.get("name", "")) for block in blocks)
        record = json.dumps({"role": role, "content": blocks})
        yield (number, 1, number - 1, number - 2, role, text, json.dumps(blocks), record, AT), text, tool


def bare_append(connection: sqlite3.Connection, rows: list[BareRow]) -> None:
    connection.execute("begin immediate")
    connection.executemany("insert into entries values (?, ?, ?, ?, ?, ?, ?, ?, ?)", [row for row, _, _ in rows])
    messages = [(row[0], text) for row, text, _ in rows if text]
    connection.executemany("insert into conversation_fts (rowid, text) values (?, ?)", messages)
    done = [(row[0], tool) for row, _, tool in rows if tool]
    connection.executemany("insert into tools_fts (rowid, text) values (?, ?)", done)
    calls = [(f"t{row[0]}", "shell", row[0], row[0]) for row, _, _ in rows if row[0] % 4 == 3]  # type: ignore[operator]
    connection.executemany("insert into tool_calls (call_id, name, entry, result_entry) values (?, ?, ?, ?)", calls)
    connection.execute("commit")


# ── measurements ──────────────────────────────────────────────────────────────────────────────────


def time_call(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def time_bulk_append(count: int) -> tuple[float, float]:
    """Time an append of many messages. Both sides start with the same blocks in memory and end with them stored, linked
    and searchable."""
    messages = list(make_messages(count))
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "store.db") as store:
        session = store.create_session("bench")
        ours = time_call(lambda: store.chains.append(session.key, make_entries(messages)))
    with tempfile.TemporaryDirectory() as folder, closing(bare_database(Path(folder))) as connection:
        return ours, time_call(lambda: bare_append(connection, list(bare_rows(messages))))


def time_single_appends(count: int) -> tuple[float, float]:
    messages = list(make_messages(count))
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "store.db") as store:
        session = store.create_session("bench")
        ours = time_call(lambda: [store.chains.append(session.key, [entry]) for entry in make_entries(messages)])
    with tempfile.TemporaryDirectory() as folder, closing(bare_database(Path(folder))) as connection:
        return ours, time_call(lambda: [bare_append(connection, [row]) for row in bare_rows(messages)])


def time_full_read(count: int) -> tuple[float, float]:
    messages = list(make_messages(count))
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "store.db") as store:
        session = store.create_session("bench")
        store.chains.append(session.key, make_entries(messages))
        ours = time_call(lambda: store.chains.entries(session.key))
    with tempfile.TemporaryDirectory() as folder, closing(bare_database(Path(folder))) as connection:
        bare_append(connection, list(bare_rows(messages)))

        def read() -> list[tuple[object, ...]]:
            rows = connection.execute("select * from entries where session = 1 order by seq").fetchall()
            return [(*row[:6], json.loads(row[6]), *row[7:]) for row in rows]

        return ours, time_call(read)


def time_session_list(count: int, repeats: int = 50) -> tuple[float, float]:
    """Time the session list. Both sides read the file of the store, so that only the work above SQLite differs."""
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "store.db") as store:
        with store.transaction(durable=False) as connection:
            connection.executemany(
                "insert into sessions (id, native_id, agent_title, model, cwd, created_at, updated_at)"
                " values (?, ?, ?, 'm', '/home/dev/code', ?, ?)",
                ((f"s{n}", f"s{n}", f"Title {n}", AT, f"2026-01-01T00:00:00.{n:06d}Z") for n in range(count)),
            )
        store.list_sessions(100)
        ours = time_call(lambda: [store.list_sessions(100) for _ in range(repeats)])
        with closing(sqlite3.connect(store.path)) as bare:
            columns = ", ".join(Session._fields)
            sql = f"select {columns} from sessions where deleted = 0 order by updated_at desc, key desc limit 100"
            bare.execute(sql).fetchall()
            return ours, time_call(lambda: [bare.execute(sql).fetchall() for _ in range(repeats)])


def measure(scale: int, runs: int) -> list[ResultRow]:
    plans: list[tuple[str, Callable[[], tuple[float, float]], float | None]] = [
        (f"append {10_000 // scale:,} entries in bulk", lambda: time_bulk_append(10_000 // scale), 2.0),
        (f"append {1_000 // scale:,} entries, a transaction each", lambda: time_single_appends(1_000 // scale), None),
        (f"read a session of {10_000 // scale:,} entries", lambda: time_full_read(10_000 // scale), None),
        (f"list 100 of {100_000 // scale:,} sessions, 50 times", lambda: time_session_list(100_000 // scale), 2.0),
    ]
    return [_result_row(name, [work() for _ in range(runs)], ratio) for name, work, ratio in plans]


def _result_row(name: str, pairs: list[tuple[float, float]], ratio: float | None) -> ResultRow:
    ours, bare = zip(*pairs, strict=True)
    return ResultRow(name=name, ours=ours, baseline=bare, baseline_name="sqlite3", ratio=ratio)
