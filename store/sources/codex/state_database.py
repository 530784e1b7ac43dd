"""Codex lists the threads of its own database alone. A rollout that somebody else wrote is entered there as the thread
was that it was forked from; what Codex makes of it on the first resume is the same."""

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


def register_thread(root: Path, parent: str, thread: str, path: Path, at: datetime, first_prompt: str) -> None:
    """Where Codex knows the original; elsewhere the thread is listed once it was resumed."""
    seconds, moment = int(at.timestamp()), int(at.timestamp() * 1000)
    changes: dict[str, Json] = dict.fromkeys(_RESET_COLUMNS) | {
        "id": thread,
        "rollout_path": str(path),
        "source": "cli",
        "thread_source": "user",
        "archived": 0,
        "is_pinned": 0,
    }
    for name in ("created_at", "updated_at", "recency_at"):
        changes |= {name: seconds, f"{name}_ms": moment}
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
            return  # its owner would lose what it writes meanwhile
        connection.row_factory = sqlite3.Row
        connection.execute("begin immediate")
        row = connection.execute("select * from threads where id = ?", (parent,)).fetchone()
        if row is not None:
            told = dict(row) | {name: value for name, value in changes.items() if name in row.keys()}  # noqa: SIM118
            names = ", ".join(f'"{name}"' for name in told)
            marks = ", ".join("?" * len(told))
            connection.execute(f"insert into threads ({names}) values ({marks})", list(told.values()))
        connection.execute("commit")
