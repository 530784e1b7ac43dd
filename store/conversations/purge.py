"""This module says what a purge would delete, and which backups still contain it afterwards."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from store.database.backup import list_backups
from store.database.connection import connect
from store.model.session import Session
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

_COUNTED_ROWS = {
    "note": "select count(*) from notes where session in (select value from json_each(?))",
    "summary": "select count(*) from summaries where current = 1 and session in (select value from json_each(?))",
    "secret": "select count(*) from secrets where current = 1 and session in (select value from json_each(?))",
    "published file": "select count(*) from published where session in (select value from json_each(?))",
}


def count_contents(store: Store, sessions: Sequence[Session]) -> dict[str, int]:
    """Return how much of each kind the sessions hold, e.g. `{"turn": 12, "note": 1}`, without what they do not hold."""
    keys = encode([session.key for session in sessions]).decode()
    counts = {
        "turn": sum(session.turns for session in sessions),
        "tool call": sum(session.tool_calls for session in sessions),
        **{name: store.row(sql, keys)[0] for name, sql in _COUNTED_ROWS.items()},
    }
    return {name: count for name, count in counts.items() if count}


def list_backups_of(store: Store, sessions: Sequence[Session]) -> list[Path]:
    """List the backups that still contain the sessions: of this store, and of the stores that they came from.

    Call it before the purge, because the purge forgets where the sessions came from.
    """
    ids = encode([session.id for session in sessions]).decode()
    keys = encode([session.source_key for session in sessions if session.source_key]).decode()
    rows = store.rows("select kind, locator from sources where key in (select value from json_each(?))", keys)
    foreign = (backup for row in rows for backup in store.write_back.list_backups(*row))
    return [*(backup for backup in list_backups(store.path) if _contains_any(backup, ids)), *foreign]


def _contains_any(backup: Path, ids: str) -> bool:
    """Return whether a backup contains one of the sessions, or cannot be read and may contain it."""
    with suppress(sqlite3.Error), closing(connect(backup)) as connection:
        sql = "select 1 from sessions where id in (select value from json_each(?)) limit 1"
        return connection.execute(sql, (ids,)).fetchone() is not None
    return True
