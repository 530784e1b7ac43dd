"""This module writes edits back into a Kiso store: description, summary, facts, secrets, and deletion.

It never inserts a message, because the server would run an unprocessed message at its next start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from store.sources import source_label
from store.sources.contract import ForeignSummary
from store.sources.kiso.tables import make_meta_place, parse_meta_key
from store.sources.kit import sqlite
from store.sources.kit.write_plan import (
    FactUpdate,
    ForeignRows,
    RowChange,
    SecretText,
    TextUpdate,
    WriteBackEdits,
    WritePlan,
    text_as_read,
)

_SESSION_TABLES = ("tasks", "plans", "learnings", "facts", "published", "messages")
_TAGS_CONDITION = "fact_id in (select id from facts where {})"


def plan_write_back(rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
    plan = WritePlan()
    session = plan.find_session(rows, source_label("kiso"), "session", edits)
    if session is None:
        return plan
    if edits.delete:
        _plan_delete(rows, session, plan)
        return plan
    key = {"session": edits.native_id}
    if edits.title and "description" in session:
        plan.swap_title("sessions", key, "description", session["description"], edits.title)
    elif edits.title:
        plan.unsupported.append("This layout of Kiso cannot store a title. Your title stays in Backscroll.")
    if edits.summary:
        update = TextUpdate(edits.summary.text, edits.summary_seen)
        if plan.swap_text("sessions", key, "summary", session["summary"], update):
            plan.summary = ForeignSummary(edits.summary.text)
    meta_facts: dict[str, list[FactUpdate]] = {}
    for fact in edits.facts:
        meta_key = parse_meta_key(fact.place)
        if meta_key is None:
            _plan_fact(rows, fact, plan)
        else:
            meta_facts.setdefault(meta_key, []).append(fact)
    for meta_key, facts in meta_facts.items():
        _plan_meta_facts(rows, meta_key, facts, plan)
    _plan_secrets(rows, edits, plan)
    return plan


def _plan_fact(rows: ForeignRows, fact: FactUpdate, plan: WritePlan) -> None:
    if fact.text is None and rows.columns("fact_tags"):
        # A trigger would delete the tags too, and an undo would not bring them back.
        fact_id = fact.place.removeprefix("facts:")
        plan.delete_rows(rows, "fact_tags", _TAGS_CONDITION.format("id = ? and content = ?"), fact_id, fact.seen)
    plan.swap_fact(rows, fact)


def _plan_meta_facts(rows: ForeignRows, key: str, facts: Iterable[FactUpdate], plan: WritePlan) -> None:
    """Plan the facts of the documented layout, which are lines of a row. All other lines keep their spelling."""
    updates = {fact.seen: fact for fact in facts}
    found = rows.select("meta", "key = ?", key)
    value = found[0]["value"] if found and isinstance(found[0]["value"], str) else ""
    lines = value.splitlines(keepends=True)
    texts = {text_as_read(line.strip()) for line in lines}
    remaining_texts = texts - updates.keys()
    kept_lines = []
    for line in lines:
        fact = updates.get(text_as_read(line.strip()))
        if fact is None:
            kept_lines.append(line)
        elif fact.text is not None:
            if fact.place not in plan.fact_places:
                plan.fact_places[fact.place] = "" if fact.text in remaining_texts else make_meta_place(key, fact.text)
                remaining_texts.add(fact.text)
            if plan.fact_places[fact.place]:
                kept_lines.append(line.replace(line.strip(), fact.text))
    for fact in updates.values():
        if fact.text is not None and fact.seen not in texts:
            plan.unsupported.append(f"Kiso does not have {fact.seen!r} any more. Your correction stays in Backscroll.")
    after = "".join(kept_lines) if value.endswith("\n") else "".join(kept_lines).rstrip("\r\n")
    if after != value:
        plan.changes.append(RowChange("meta", {"key": key}, {"value": value}, {"value": after}))


def _plan_secrets(rows: ForeignRows, edits: WriteBackEdits, plan: WritePlan) -> None:
    if edits.secrets and not rows.columns("secrets"):
        plan.unsupported.append(
            "This layout of Kiso cannot store secrets in its database. Your secrets stay in Backscroll."
        )
        return
    for secret in edits.secrets:
        key = {"session": edits.native_id, "key": secret.key}
        found = rows.select("secrets", "session = ? and key = ?", *key.values())
        before = {"value": _stored_secret(found[0], plan)} if found else None
        after = {"value": secret.unseal()}
        if before and secret.seen and before["value"] not in (secret.seen(), after["value"]):
            plan.conflicts.append(
                f"The secret {secret.key!r} has changed in Kiso. Run `secrets seal`, then set it again."
            )
        elif before != after:
            plan.changes.append(RowChange("secrets", key, before, after))


def _stored_secret(row: Mapping[str, Any], plan: WritePlan) -> SecretText:
    """Return the secret in Kiso. A value that is not text is a conflict, because it cannot be sealed and restored."""
    if not isinstance(row["value"], str):
        plan.conflicts.append(
            f"The secret {row['key']!r} in Kiso is not text and cannot be sealed; correct it in Kiso."
        )
    return SecretText(sqlite.as_text(row["value"]), row["key"])


def _plan_delete(rows: ForeignRows, session: Mapping[str, Any], plan: WritePlan) -> None:
    """Plan to delete a session as `kiso reset session` does. No foreign key deletes its other rows."""
    session_id = session["session"]
    for row in rows.select("secrets", "session = ?", session_id):
        plan.delete_row(rows, "secrets", {**row, "value": _stored_secret(row, plan)})
    if rows.columns("fact_tags"):
        plan.delete_rows(rows, "fact_tags", _TAGS_CONDITION.format("session = ?"), session_id)
    for table in _SESSION_TABLES:
        if "session" in rows.columns(table):
            plan.delete_rows(rows, table, "session = ?", session_id)
    plan.delete_row(rows, "sessions", session)
    if rows.select("cron_jobs", "session = ?", session_id):
        plan.unsupported.append(
            "Kiso's scheduled jobs of this session stay and would start it again; cancel them in Kiso."
        )
