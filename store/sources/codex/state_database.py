"""This module enters a fork in the database of Codex, which lists only the threads that are there. The row is a copy of
the parent's row; Codex itself would write the same at the first resume."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

from store.model.entry import Json
from store.sources.codex.layout import find_databases
from store.sources.kit import sqlite

_LOCK_TIMEOUT_SECONDS = 2.0
_RESET_COLUMNS = (
    "name",
    "archived_at",
    "agent_nickname",
    "agent_role",
    "agent_path",
    "thread_section_id",
    "section_position",
    "section_entered_at_ms",
    "attached_thread_parent_id",
)


def register_thread(root: Path, parent: str, thread: str, path: Path, time: datetime, first_prompt: str) -> None:
    """Enter a new thread in the database, if its parent is there. If not, Codex lists it after its first resume."""
    seconds, milliseconds = int(time.timestamp()), int(time.timestamp() * 1000)
    changes: dict[str, Json] = dict.fromkeys(_RESET_COLUMNS) | {
        "id": thread,
        "rollout_path": str(path),
        "source": "cli",
        "thread_source": "user",
        "archived": 0,
        "is_pinned": 0,
    }
    for name in ("created_at", "updated_at", "recency_at"):
        changes |= {name: seconds, f"{name}_ms": milliseconds}
    if first_prompt:
        changes |= dict.fromkeys(("title", "first_user_message", "preview"), first_prompt)
    for database in find_databases(root)[-1:]:
        with suppress(*sqlite.SQLITE_ERRORS):
            _copy_row(database, parent, changes)


def _copy_row(database: Path, parent: str, changes: dict[str, Json]) -> None:
    uri = f"{database.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_LOCK_TIMEOUT_SECONDS)) as connection:
        connection.execute("pragma trusted_schema = off")
        if connection.execute("pragma journal_mode").fetchone() != ("wal",):
            return  # without WAL, Codex could lose what it writes at the same time
        connection.row_factory = sqlite3.Row
        connection.execute("begin immediate")
        row = connection.execute("select * from threads where id = ?", (parent,)).fetchone()
        if row is not None:
            copy = dict(row) | {name: value for name, value in changes.items() if name in row.keys()}  # noqa: SIM118
            names = ", ".join(f'"{name}"' for name in copy)
            placeholders = ", ".join("?" * len(copy))
            connection.execute(f"insert into threads ({names}) values ({placeholders})", list(copy.values()))
        connection.execute("commit")
