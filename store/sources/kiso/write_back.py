"""What Kiso's store takes back: description, summary, facts, secrets where the layout has them, and deletion.

No message is ever inserted: one that is not marked processed would be run by the server at its next start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from store.sources import source_label
from store.sources.contract import ForeignSummary
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
_META_FACT_PREFIX = "meta:facts:"
_TAGS_CONDITION = "fact_id in (select id from facts where {})"


def plan_write_back(rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
    made = WritePlan()
    session = made.find_session(rows, source_label("kiso"), "session", edits)
    if session is None:
        return made
    if edits.delete:
        _plan_delete(rows, session, made)
        return made
    key = {"session": edits.native_id}
    if edits.title and "description" in session:
        made.swap_title("sessions", key, "description", session["description"], edits.title)
    elif edits.title:
        made.unsupported.append("This layout of Kiso has no place for a title; yours stays here.")
    if edits.summary:
        told = TextUpdate(edits.summary.text, edits.summary_seen)
        if made.swap_text("sessions", key, "summary", session["summary"], told):
            made.summary = ForeignSummary(edits.summary.text)
    for fact in edits.facts:
        if not fact.place.startswith(_META_FACT_PREFIX):
            _plan_fact(rows, fact, made)
    _plan_meta_facts(rows, [fact for fact in edits.facts if fact.place.startswith(_META_FACT_PREFIX)], made)
    _plan_secrets(rows, edits, made)
    return made


def _plan_fact(rows: ForeignRows, fact: FactUpdate, made: WritePlan) -> None:
    if fact.text is None and rows.columns("fact_tags"):
        # A trigger takes them along, and no undo would bring them back.
        number = fact.place.removeprefix("facts:")
        made.delete_rows(rows, "fact_tags", _TAGS_CONDITION.format("id = ? and content = ?"), number, fact.seen)
    made.swap_fact(rows, fact)


def _plan_meta_facts(rows: ForeignRows, facts: Iterable[FactUpdate], made: WritePlan) -> None:
    """All facts of the documented layout are lines of one row; every other line stays as it is spelled."""
    wanted = {fact.seen: fact for fact in facts}
    found = rows.select("meta", "key = 'facts'") if wanted else []
    value = found[0]["value"] if found and isinstance(found[0]["value"], str) else ""
    lines = value.splitlines(keepends=True)
    said = {text_as_read(line.strip()) for line in lines}
    standing = said - wanted.keys()
    kept = []
    for line in lines:
        fact = wanted.get(text_as_read(line.strip()))
        if fact is None:
            kept.append(line)
        elif fact.text is not None:
            if fact.place not in made.fact_places:
                made.fact_places[fact.place] = (
                    "" if fact.text in standing else _META_FACT_PREFIX + sqlite.digest(fact.text)
                )
                standing.add(fact.text)
            if made.fact_places[fact.place]:
                kept.append(line.replace(line.strip(), fact.text))
    for fact in wanted.values():
        if fact.text is not None and fact.seen not in said:
            made.unsupported.append(f"Kiso does not say {fact.seen!r} any more; your correction of it stays here.")
    after = "".join(kept) if value.endswith("\n") else "".join(kept).rstrip("\r\n")
    if after != value:
        made.changes.append(RowChange("meta", {"key": "facts"}, {"value": value}, {"value": after}))


def _plan_secrets(rows: ForeignRows, wanted: WriteBackEdits, made: WritePlan) -> None:
    if wanted.secrets and not rows.columns("secrets"):
        made.unsupported.append("This layout of Kiso keeps no secrets in its database; yours stay here.")
        return
    for secret in wanted.secrets:
        key = {"session": wanted.native_id, "key": secret.key}
        found = rows.select("secrets", "session = ? and key = ?", *key.values())
        before = {"value": _stored_secret(found[0], made)} if found else None
        after = {"value": secret.unseal()}
        if before and secret.seen and before["value"] not in (secret.seen(), after["value"]):
            made.conflicts.append(
                f"The secret {secret.key!r} was changed in Kiso since it was read; `secrets seal` it, then set yours."
            )
        elif before != after:
            made.changes.append(RowChange("secrets", key, before, after))


def _stored_secret(row: Mapping[str, Any], made: WritePlan) -> SecretText:
    """What Kiso holds. What is not text could not be sealed, and so not be put back."""
    if not isinstance(row["value"], str):
        made.conflicts.append(f"The secret {row['key']!r} in Kiso is not text and cannot be sealed; correct it there.")
    return SecretText(sqlite.as_text(row["value"]), row["key"])


def _plan_delete(rows: ForeignRows, session: Mapping[str, Any], made: WritePlan) -> None:
    """As `kiso reset session` does: no foreign key takes the rest along."""
    name = session["session"]
    for row in rows.select("secrets", "session = ?", name):
        made.delete_row(rows, "secrets", {**row, "value": _stored_secret(row, made)})
    if rows.columns("fact_tags"):
        made.delete_rows(rows, "fact_tags", _TAGS_CONDITION.format("session = ?"), name)
    for table in _SESSION_TABLES:
        if "session" in rows.columns(table):
            made.delete_rows(rows, table, "session = ?", name)
    made.delete_row(rows, "sessions", session)
    if rows.select("cron_jobs", "session = ?", name):
        made.unsupported.append(
            "Kiso's scheduled jobs of this session stay, and would begin it anew; cancel them there."
        )
