"""This module writes edits back into a Pingu store: title, summary, memories, and deletion."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from store.sources import source_label
from store.sources.contract import ForeignSummary
from store.sources.kit import sqlite
from store.sources.kit.write_plan import (
    SYNC_FIRST,
    FactUpdate,
    ForeignRows,
    RowChange,
    WriteBackEdits,
    WritePlan,
    plan_session_edits,
    text_as_read,
)
from store.sources.pingu.reader import count_covered_turns


def plan_write_back(rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
    return plan_session_edits(
        rows,
        edits,
        source_label("pingu"),
        plan_delete=_plan_delete,
        plan_summary=_plan_summary,
        fact_columns=_dependent_columns,
    )


def _plan_delete(rows: ForeignRows, session: Mapping[str, Any], plan: WritePlan) -> None:
    # Memories and messages would stay, because no foreign key deletes them with the session.
    for table in ("memories", "messages", "turns"):
        plan.delete_rows(rows, table, "session_id = ?", session["id"])
    plan.delete_row(rows, "sessions", session)


def _dependent_columns(fact: FactUpdate) -> Mapping[str, Any]:
    """Return the columns that depend on the text of a memory. Pingu computes a missing embedding again."""
    digest = hashlib.sha256(fact.text.encode()).hexdigest() if fact.text is not None else None
    return {"embedding": None, "content_hash": digest}


def _plan_summary(
    rows: ForeignRows, session: Mapping[str, Any], summary: ForeignSummary, seen: str, plan: WritePlan
) -> None:
    if text_as_read(session["summary"]) not in (seen, summary.text):
        plan.conflicts.append(f"Pingu has written a newer summary. {SYNC_FIRST}")
        return
    turns = rows.select("turns", "session_id = ?", session["id"])
    turn_ids = [turn["id"] for turn in sorted(turns, key=lambda turn: (sqlite.as_text(turn["created_at"]), turn["id"]))]
    before = {name: session[name] for name in ("summary", "summary_up_to")}
    after = {
        "summary": summary.text or None,
        "summary_up_to": _last_covered_turn(summary, turn_ids, before["summary_up_to"]),
    }
    if before != after:
        plan.changes.append(RowChange("sessions", {"id": session["id"]}, before, after))
    plan.summary = ForeignSummary(summary.text, count_covered_turns(after["summary_up_to"], turn_ids))


def _last_covered_turn(summary: ForeignSummary, turn_ids: list[int], before: Any) -> Any:
    """Return the id of the last covered turn, as text. A summary that names none covers as much as the one before."""
    if not summary.text:
        return None
    if summary.up_to_turn is None:
        return before
    return str(turn_ids[: summary.up_to_turn][-1]) if turn_ids and summary.up_to_turn else "0"
