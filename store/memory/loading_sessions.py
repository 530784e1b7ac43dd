"""This module finds the sessions that loaded a memory file since one of its lines was written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from store.model.memory import LoadingSession, MemoryUse

if TYPE_CHECKING:
    from store.store import Store

MAX_LISTED = 20
"""Limits the sessions that are listed, and in which the line is looked for."""

CONTEXT_ENTRIES = 12
"""Is how many entries at the beginning of a session can hold what the agent loaded."""

_IN_FOLDER = "(source = ? and (cwd = ? or substr(cwd, 1, ?) = ?))"
_SELECT_SESSIONS = """
    select key, id, source, coalesce(nullif(own_title, ''), nullif(agent_title, ''), first_prompt), created_at
    from sessions where deleted = 0 and relation is null and created_at >= ? and ({conditions})
    order by created_at desc
"""


def find_loading_sessions(
    store: Store, uses: Iterable[MemoryUse], since: str, texts: Sequence[str]
) -> tuple[int, tuple[LoadingSession, ...]]:
    """Return how many sessions loaded a file that is used so, and the newest of them."""
    conditions, values = [], list[object]()
    for use in uses:
        if use.when != "start":
            continue
        if use.folder:
            conditions.append(_IN_FOLDER)
            below = use.folder.rstrip("/") + "/"
            values += [use.agent, use.folder, len(below), below]
        else:
            conditions.append("source = ?")
            values.append(use.agent)
    if not conditions:
        return 0, ()
    rows = store.rows(_SELECT_SESSIONS.format(conditions=" or ".join(conditions)), since, *values)
    found = tuple(
        LoadingSession(session_id, agent, title, at, _is_recorded(store, key, texts))
        for key, session_id, agent, title, at in rows[:MAX_LISTED]
    )
    return len(rows), found


def _is_recorded(store: Store, session: int, texts: Sequence[str]) -> bool:
    """Return whether the beginning of a conversation holds one of the texts, as that of Codex does."""
    entries = store.chains.entries(session, -1, CONTEXT_ENTRIES)
    return any(text in entry.text for entry in entries for text in texts)
