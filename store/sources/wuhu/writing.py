"""What Wuhu's store takes back: a session's own title, and its deletion."""

from __future__ import annotations

from store.sources.writing import Rows, Wanted, WritePlan

# Everything that hangs on a session; which of them a store has depends on its version.
_HANGING = (
    "tool_call_status",
    "user_queue_pending",
    "user_queue_journal",
    "system_queue_pending",
    "system_queue_journal",
    "session_child_status",
    "mounts",
)


def plan(rows: Rows, wanted: Wanted) -> WritePlan:
    made = WritePlan()
    found = rows.select("select * from sessions where id = ?", wanted.native_id)
    if not found:
        made.conflicts.append(f"Wuhu does not have the session {wanted.native_id!r} any more.")
        return made
    if found[0].get("executionStatus") == "running":
        made.conflicts.append("Wuhu is running this session.")
    if wanted.delete:
        _plan_delete(rows, wanted.native_id, made)
        return made
    if wanted.title and "customTitle" in rows.columns("sessions"):
        made.swap_title("sessions", {"id": wanted.native_id}, "customTitle", found[0]["customTitle"], wanted.title)
    elif wanted.title:
        made.unplaced.append("This version of Wuhu has no place for a title; it stays here.")
    if wanted.summary:
        made.unplaced.append("Wuhu keeps its summaries inside the chain, which is never rewritten; yours stays here.")
    if wanted.secrets:
        made.unplaced.append("Wuhu has no place for secrets; they stay here.")
    return made


def _plan_delete(rows: Rows, native_id: str, made: WritePlan) -> None:
    """Entries from the tail: each is held by the one behind it."""
    for table in _HANGING:
        if "sessionID" in rows.columns(table):
            made.delete_rows(rows, table, "sessionID = ?", native_id)
    made.delete_rows(rows, "session_entries", "sessionID = ? order by id desc", native_id)
    made.delete_rows(rows, "sessions", "id = ?", native_id)
