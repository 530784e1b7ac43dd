"""This module writes edits back into a Rubichan store: title, summary, memories, and deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from store.errors import BadValue
from store.sources import source_label
from store.sources.contract import ForeignSummary
from store.sources.kit.write_plan import (
    SYNC_FIRST,
    ForeignRows,
    RowChange,
    WriteBackEdits,
    WritePlan,
    plan_session_edits,
)
from store.sources.rubichan.reader import RubichanSnapshot


def plan_write_back(rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
    label = source_label("rubichan")
    return plan_session_edits(rows, edits, label, plan_delete=_plan_delete, plan_summary=_plan_summary)


def _plan_summary(
    rows: ForeignRows, session: Mapping[str, Any], summary: ForeignSummary, seen: str, plan: WritePlan
) -> None:
    """Plan the summary at the start of the snapshot that resume loads. Without a snapshot there is none to change."""
    snapshots = rows.select("session_snapshots", "session_id = ?", session["id"])
    if not snapshots:
        plan.unsupported.append(
            "Rubichan keeps a summary only in a snapshot, and this session has none. Your summary stays in Backscroll."
        )
        return
    messages = sorted(rows.select("messages", "session_id = ?", session["id"]), key=lambda row: (row["seq"], row["id"]))
    try:
        snapshot = RubichanSnapshot(snapshots[0]["messages"], messages)
    except BadValue:
        plan.unsupported.append("Rubichan's snapshot of this session cannot be read. Your summary stays in Backscroll.")
        return
    if snapshot.summary not in (seen, summary.text):
        plan.conflicts.append(f"Rubichan has written a newer snapshot. {SYNC_FIRST}")
    elif not summary.text:
        plan.delete_row(rows, "session_snapshots", snapshots[0])
    else:
        after = snapshot.replace_summary(summary.text)
        if snapshot.summary != summary.text:
            change = {"messages": snapshots[0]["messages"]}, {"messages": after}
            plan.changes.append(RowChange("session_snapshots", {"session_id": session["id"]}, *change))
        written = RubichanSnapshot(after, messages)
        plan.summary = ForeignSummary(written.summary, written.count_covered_turns())


def _plan_delete(rows: ForeignRows, session: Mapping[str, Any], plan: WritePlan) -> None:
    """Plan to delete a session unless it has forks, which share its blobs. Rubichan itself refuses that too."""
    if "forked_from" in session and rows.select("sessions", "forked_from = ?", session["id"]):
        plan.conflicts.append("The session has forks in Rubichan that share its data; delete those first.")
        return
    plan.delete_row(rows, "sessions", session)
