"""This test checks that a program has no failed write while we read its database repeatedly."""

from __future__ import annotations

import multiprocessing
import sqlite3
import time
from pathlib import Path

import pytest
from foreign_databases import RUBICHAN_SCHEMA, add_rubichan_session, make_database, stored_texts

from store.errors import StoreError
from store.store import Store
from store.sync import refresh
from store.sync.targets import find_targets

WRITES = 400


def write_repeatedly(path: str, ready: object, results: object) -> None:
    """Write every few milliseconds without waiting for locks, and report the number of failed writes."""
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    connection.execute("pragma busy_timeout = 0")
    failed = 0
    ready.set()  # type: ignore[attr-defined]
    for number in range(WRITES):
        try:
            connection.execute(
                "insert into messages (session_id, seq, role, content) values ('live', ?, 'user', ?)",
                (number, f'[{{"type": "text", "text": "message {number}"}}]'),
            )
        except sqlite3.OperationalError:
            failed += 1
        time.sleep(0.004)
    connection.close()
    results.put(failed)  # type: ignore[attr-defined]


@pytest.mark.parametrize("wal", [True, False], ids=["wal", "rollback journal"])
def test_the_owner_has_no_failed_write_during_syncs(store: Store, tmp_path: Path, wal: bool) -> None:
    path = make_database(tmp_path / "rubichan.db", RUBICHAN_SCHEMA, wal=wal)
    add_rubichan_session(path, "live")
    for number in range(20):
        add_rubichan_session(path, f"old{number}", *[("user", "x" * 500)] * 50)
    context = multiprocessing.get_context("spawn")
    ready, results = context.Event(), context.Queue()
    owner = context.Process(target=write_repeatedly, args=(str(path), ready, results))
    owner.start()
    assert ready.wait(60)
    syncs = 0
    while owner.is_alive():
        try:
            for _ in refresh.sync_targets(store, find_targets([str(path)])):
                pass
            syncs += 1
        except StoreError:  # the database is busy
            time.sleep(0.01)
    assert results.get(timeout=60) == 0
    owner.join()
    for _ in refresh.sync_targets(store, find_targets([str(path)])):
        pass
    assert syncs > 0
    assert stored_texts(store, "live") == [f"message {number}" for number in range(WRITES)]
