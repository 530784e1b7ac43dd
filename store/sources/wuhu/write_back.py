"""What Wuhu's store takes back: a session's own title, and its deletion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from store.sources import source_label
from store.sources.kit import sqlite
from store.sources.kit.write_plan import ForeignRows, WriteBackEdits, WritePlan


def plan_write_back(rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
    made = WritePlan()
    session = made.find_session(rows, source_label("wuhu"), "id", edits)
    if session is None:
        return made
    if session.get("executionStatus") == "running":
        made.conflicts.append("Wuhu is running this session; wait until it rests.")
    if edits.delete:
        _plan_delete(rows, session, made)
        return made
    if edits.title and "customTitle" in session:
        made.swap_title("sessions", {"id": edits.native_id}, "customTitle", session["customTitle"], edits.title)
    elif edits.title:
        made.unsupported.append("This version of Wuhu has no place for a title; yours stays here.")
    if edits.summary:
        made.unsupported.append(
            "Wuhu keeps its summaries inside the chain, which is never rewritten; yours stays here."
        )
    if edits.secrets:
        made.unsupported.append("Wuhu has no place for secrets; they stay here.")
    return made


def _plan_delete(rows: ForeignRows, session: Mapping[str, Any], made: WritePlan) -> None:
    entries = rows.select("session_entries", "sessionID = ?", session["id"])
    for entry in _sort_tail_first(entries):
        made.delete_row(rows, "session_entries", entry)
    made.delete_row(rows, "sessions", session)
    if any("blob:" in sqlite.as_text(entry["payload"]) for entry in entries):
        made.unsupported.append("The session's images are files of their own; they stay in Wuhu's folder of blobs.")


def _sort_tail_first(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Each is held by the one behind it, and goes after it; as a rule, but not always, that one is the newer."""
    behind = {entry["parentEntryID"]: entry for entry in entries}
    ordered: dict[int, Mapping[str, Any]] = {}
    for entry in entries:
        chain: dict[int, Mapping[str, Any]] = {}
        link: Mapping[str, Any] | None = entry
        while link is not None and link["id"] not in ordered and link["id"] not in chain:
            chain[link["id"]] = link
            link = behind.get(link["id"])
        ordered |= reversed(chain.items())
    return list(ordered.values())
