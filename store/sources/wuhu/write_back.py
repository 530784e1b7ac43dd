"""This module writes edits back into a Wuhu store: the title of a session, and its deletion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from store.sources import source_label
from store.sources.kit import sqlite
from store.sources.kit.write_plan import ForeignRows, WriteBackEdits, WritePlan


def plan_write_back(rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
    plan = WritePlan()
    session = plan.find_session(rows, source_label("wuhu"), "id", edits)
    if session is None:
        return plan
    if session.get("executionStatus") == "running":
        plan.conflicts.append("Wuhu is running this session; wait until it stops.")
    if edits.delete:
        _plan_delete(rows, session, plan)
        return plan
    if edits.title and "customTitle" in session:
        plan.swap_title("sessions", {"id": edits.native_id}, "customTitle", session["customTitle"], edits.title)
    elif edits.title:
        plan.unsupported.append("This version of Wuhu cannot store a title. Your title stays in Backscroll.")
    if edits.summary:
        plan.unsupported.append(
            "Wuhu keeps summaries inside the chain, which is never rewritten. Your summary stays in Backscroll."
        )
    if edits.secrets:
        plan.unsupported.append("Wuhu cannot store secrets. They stay in Backscroll.")
    return plan


def _plan_delete(rows: ForeignRows, session: Mapping[str, Any], plan: WritePlan) -> None:
    entries = rows.select("session_entries", "sessionID = ?", session["id"])
    for entry in _sort_tail_first(entries):
        plan.delete_row(rows, "session_entries", entry)
    plan.delete_row(rows, "sessions", session)
    if any("blob:" in sqlite.as_text(entry["payload"]) for entry in entries):
        plan.unsupported.append("The images of the session are separate files; they stay in Wuhu's blobs folder.")


def _sort_tail_first(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Sort the entries so that each comes after the entry that refers to it. Sorting by id is not enough for this."""
    child_by_parent = {entry["parentEntryID"]: entry for entry in entries}
    ordered: dict[int, Mapping[str, Any]] = {}
    for entry in entries:
        chain: dict[int, Mapping[str, Any]] = {}
        link: Mapping[str, Any] | None = entry
        while link is not None and link["id"] not in ordered and link["id"] not in chain:
            chain[link["id"]] = link
            link = child_by_parent.get(link["id"])
        ordered |= reversed(chain.items())
    return list(ordered.values())
