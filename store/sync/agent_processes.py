"""This module notes which sessions have a running process, for the agents that list their processes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from store import sources
from store.model.status import PROCESS_WINDOW
from store.search.sql import format_timestamp
from store.write_back.processes import is_running

if TYPE_CHECKING:
    from store.store import Store

_RECENT_SOURCES = "select distinct source from sessions where deleted = 0 and updated_at >= ?"
_SELECT_SESSIONS = """
    select key, native_id, process, activity from sessions where source = ?1 and relation is null
        and key in (select key from sessions where process is not null
            union select key from sessions where deleted = 0 and updated_at >= ?2)
"""
_UPDATE_PROCESS = "update sessions set process = ?, activity = ? where key = ?"


def update_processes(store: Store) -> None:
    """Compare the processes that agents list with the store, and write what differs.

    A session whose process ended has ended. Only sessions that changed within a day are looked at.
    """
    since = format_timestamp(datetime.now(UTC) - PROCESS_WINDOW)
    changes: list[tuple[int | None, str, int]] = []
    for (name,) in store.rows(_RECENT_SOURCES, since):
        source = sources.load_source(name)
        listed = source.list_processes() if source is not None else None
        if listed is not None:
            changes += _find_changes(store, name, since, dict(listed))
    if changes:
        with store.transaction(durable=False) as connection:
            connection.executemany(_UPDATE_PROCESS, changes)


def _find_changes(store: Store, source: str, since: str, listed: dict[str, int]) -> list[tuple[int | None, str, int]]:
    changes: list[tuple[int | None, str, int]] = []
    for key, native_id, process, activity in store.rows(_SELECT_SESSIONS, source, since):
        pid = listed.get(native_id)
        if pid is not None and is_running(pid):
            if pid != process:
                changes.append((pid, activity, key))
        elif process is not None or (pid is not None and activity not in ("ended", "failed")):
            changes.append((None, "failed" if activity == "failed" else "ended", key))
    return changes
