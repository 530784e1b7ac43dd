"""This module measures the first sync of a large Rubichan store, compared with a plain loop that reads the rows,
parses their JSON and indexes their text."""

from __future__ import annotations

import json
import random
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import orjson
from bench.table import ResultRow
from foreign_databases import RUBICHAN_SCHEMA

from store.store import Store
from store.sync import refresh
from store.sync.targets import find_targets

MESSAGES_PER_SESSION = 200
WORDS = (
    "upload retry test fails when file closed before second attempt reopen check status code handler queue parser"
    " timeout migration schema index session token cache branch commit review deploy"
).split()


def make_rubichan_database(path: Path, messages: int) -> None:
    """Write a Rubichan database with the same rows every time."""
    rng = random.Random(7)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(RUBICHAN_SCHEMA)
        for number in range(messages // MESSAGES_PER_SESSION):
            name = f"{number:08x}-0000-4000-8000-000000000000"
            connection.execute(
                "insert into sessions (id, title, model) values (?, ?, 'm')", (name, f"Session {number}")
            )
            connection.executemany(
                "insert into messages (session_id, seq, role, content) values (?, ?, ?, ?)",
                _make_messages(name, rng),
            )
        connection.commit()


def _make_messages(session: str, rng: random.Random) -> Iterator[tuple[str, int, str, str]]:
    for seq in range(MESSAGES_PER_SESSION):
        text_block = {"type": "text", "text": " ".join(rng.choices(WORDS, k=30))}
        match seq % 4:
            case 1:
                call = {"type": "tool_use", "id": f"t{seq}", "name": "shell", "input": {"command": "pytest -q"}}
                yield session, seq, "assistant", json.dumps([text_block, call])
            case 2:
                result = {"type": "tool_result", "text": text_block["text"] * 2, "tool_use_id": f"t{seq - 1}"}
                yield session, seq, "user", json.dumps([result])
            case _:
                yield session, seq, "assistant" if seq % 4 else "user", json.dumps([text_block])


def time_bare_loop(source: Path, target: Path) -> float:
    with closing(sqlite3.connect(source)) as rows, closing(sqlite3.connect(target, isolation_level=None)) as index:
        index.execute("pragma journal_mode = wal")
        index.execute("create virtual table texts using fts5(text)")
        started = time.perf_counter()
        index.execute("begin")
        index.executemany(
            "insert into texts (rowid, text) values (?, ?)",
            (
                (number, "\n".join(block.get("text", "") for block in orjson.loads(content)))
                for number, content in rows.execute("select id, content from messages")
            ),
        )
        index.execute("commit")
        return time.perf_counter() - started


def time_our_sync(store: Store, source: Path) -> float:
    started = time.perf_counter()
    for _ in refresh.sync_targets(store, find_targets([str(source)])):
        pass
    return time.perf_counter() - started


class SyncTimes(NamedTuple):
    bare: float
    first: float
    second: float
    entries: int
    megabytes: float


def measure_sync(folder: Path, messages: int) -> SyncTimes:
    source = folder / "rubichan.db"
    make_rubichan_database(source, messages)
    bare = time_bare_loop(source, folder / "bare.db")
    with Store.open(folder / "store.db") as store:
        first = time_our_sync(store, source)
        second = time_our_sync(store, source)
        (entries,) = store.row("select count(*) from entries where kind = 'message'")
    return SyncTimes(bare, first, second, entries, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measure(folder: Path, messages: int) -> list[ResultRow]:
    """Measure in a separate process, so that its memory is that of the sync alone."""
    command = [sys.executable, "-m", "bench.rubichan_sync", str(folder), str(messages)]
    times = SyncTimes(**json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    first = f"first sync of {times.entries:,} messages"
    return [
        ResultRow(name=first, ours=[times.first], baseline=[times.bare], baseline_name="plain loop", ratio=3.0),
        ResultRow(
            name="second, unchanged sync",
            ours=[times.second],
            baseline=[times.first],
            baseline_name="first",
            ratio=0.02,
        ),
        ResultRow(name="peak memory of the first sync", ours=[times.megabytes], unit="MB", limit=200),
    ]


if __name__ == "__main__":
    print(json.dumps(measure_sync(Path(sys.argv[1]), int(sys.argv[2]))._asdict(), indent=1))
