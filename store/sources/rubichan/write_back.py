"""This module writes edits back into a Rubichan store: title, summary, memories, and deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from store.errors import BadValue
from store.sources import source_label
from store.sources.contract import (
    ForeignSummary,
)
from store.sources.kit.write_plan import ForeignRows, RowChange, WriteBackEdits, WritePlan
from store.sources.rubichan.reader import RubichanSnapshot


def plan_write_back(rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
    """Title, the summary at the head of the snapshot that resume loads, memories, and the whole session."""
    made = WritePlan()
    session = made.find_session(rows, source_label("rubichan"), "id", edits)
    if session is None:
        return made
    if edits.delete:
        _plan_delete(rows, session, made)
        return made
    if edits.title:
        made.swap_title("sessions", {"id": edits.native_id}, "title", session["title"], edits.title)
    if edits.summary:
        _plan_summary(rows, session, edits.summary, edits.summary_seen, made)
    for fact in edits.facts:
        made.swap_fact(rows, fact)
    if edits.secrets:
        made.unsupported.append("Rubichan has no place for secrets; they stay here.")
    return made


def _plan_summary(
    rows: ForeignRows, session: Mapping[str, Any], wanted: ForeignSummary, seen: str, made: WritePlan
) -> None:
    """Only a snapshot holds one; without it, resume loads the whole conversation."""
    found = rows.select("session_snapshots", "session_id = ?", session["id"])
    if not found:
        made.unsupported.append(
            "Rubichan keeps a summary only in a snapshot, and this session has none; yours stays here."
        )
        return
    messages = sorted(rows.select("messages", "session_id = ?", session["id"]), key=lambda row: (row["seq"], row["id"]))
    try:
        snapshot = RubichanSnapshot(found[0]["messages"], messages)
    except BadValue:
        made.unsupported.append("Rubichan's snapshot of this session cannot be read; your summary stays here.")
        return
    if snapshot.summary not in (seen, wanted.text):
        made.conflicts.append("Rubichan has written a newer snapshot since it was read; sync first.")
    elif not wanted.text:
        made.delete_row(rows, "session_snapshots", found[0])
    else:
        after = snapshot.replace_summary(wanted.text)
        if snapshot.summary != wanted.text:
            change = {"messages": found[0]["messages"]}, {"messages": after}
            made.changes.append(RowChange("session_snapshots", {"session_id": session["id"]}, *change))
        told = RubichanSnapshot(after, messages)
        made.summary = ForeignSummary(told.summary, told.count_covered_turns())


def _plan_delete(rows: ForeignRows, session: Mapping[str, Any], made: WritePlan) -> None:
    """Not while it has forks, which share its blobs; Rubichan itself refuses that too."""
    if "forked_from" in session and rows.select("sessions", "forked_from = ?", session["id"]):
        made.conflicts.append("The session has forks in Rubichan that share its data; delete those first.")
        return
    made.delete_row(rows, "sessions", session)
