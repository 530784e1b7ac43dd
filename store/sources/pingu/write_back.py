"""This module writes edits back into a Pingu store: title, summary, memories, and deletion."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from store.sources import source_label
from store.sources.contract import (
    ForeignSummary,
)
from store.sources.kit import sqlite
from store.sources.kit.write_plan import ForeignRows, RowChange, WriteBackEdits, WritePlan, text_as_read
from store.sources.pingu.reader import count_covered_turns


def plan_write_back(rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
    """Title, summary with its coverage, memories, and the whole session."""
    made = WritePlan()
    session = made.find_session(rows, source_label("pingu"), "id", edits)
    if session is None:
        return made
    if edits.delete:
        # A memory points to its session by no foreign key, and would stay behind; nor need a message.
        for table in ("memories", "messages", "turns"):
            made.delete_rows(rows, table, "session_id = ?", edits.native_id)
        made.delete_row(rows, "sessions", session)
        return made
    if edits.title:
        made.swap_title("sessions", {"id": edits.native_id}, "title", session["title"], edits.title)
    if edits.summary:
        _plan_summary(rows, session, edits.summary, edits.summary_seen, made)
    for fact in edits.facts:
        # The embedding belongs to the old words; without one Pingu makes it anew.
        digest = hashlib.sha256(fact.text.encode()).hexdigest() if fact.text is not None else None
        made.swap_fact(rows, fact, {"embedding": None, "content_hash": digest})
    if edits.secrets:
        made.unsupported.append("Pingu has no place for secrets; they stay here.")
    return made


def _plan_summary(
    rows: ForeignRows, session: Mapping[str, Any], wanted: ForeignSummary, seen: str, made: WritePlan
) -> None:
    if text_as_read(session["summary"]) not in (seen, wanted.text):
        made.conflicts.append("Pingu has written a newer summary since it was read; sync first.")
        return
    turns = rows.select("turns", "session_id = ?", session["id"])
    numbers = [turn["id"] for turn in sorted(turns, key=lambda turn: (sqlite.as_text(turn["created_at"]), turn["id"]))]
    before = {name: session[name] for name in ("summary", "summary_up_to")}
    after = {
        "summary": wanted.text or None,
        "summary_up_to": _last_covered_turn(wanted, numbers, before["summary_up_to"]),
    }
    if before != after:
        made.changes.append(RowChange("sessions", {"id": session["id"]}, before, after))
    made.summary = ForeignSummary(wanted.text, count_covered_turns(after["summary_up_to"], numbers))


def _last_covered_turn(wanted: ForeignSummary, numbers: list[int], before: Any) -> Any:
    """The id of the last turn covered, as text. Where nobody says how far it goes, as far as the one before."""
    if not wanted.text:
        return None
    if wanted.up_to_turn is None:
        return before
    return str(numbers[: wanted.up_to_turn][-1]) if numbers and wanted.up_to_turn else "0"
