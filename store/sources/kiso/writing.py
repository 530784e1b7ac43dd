"""What Kiso's store takes back: description, summary, facts, secrets where the layout has them, and deletion.

No message is ever inserted: one that is not marked processed would be run by the server at its next start.
"""

from __future__ import annotations

from store.sources import reading
from store.sources.writing import RowChange, Rows, Wanted, WantedFact, WantedSecret, WantedText, WritePlan

_OF_A_SESSION = ("tasks", "plans", "learnings", "facts", "published", "messages")
_META = "meta:facts:"


def plan(rows: Rows, wanted: Wanted) -> WritePlan:
    made = WritePlan()
    found = rows.select("select * from sessions where session = ?", wanted.native_id)
    if not found:
        made.conflicts.append(f"Kiso does not have the session {wanted.native_id!r} any more.")
        return made
    if wanted.delete:
        _plan_delete(rows, wanted.native_id, made)
        return made
    key = {"session": wanted.native_id}
    if wanted.title and "description" in rows.columns("sessions"):
        made.swap_title("sessions", key, "description", found[0]["description"], wanted.title)
    elif wanted.title:
        made.unplaced.append("This layout of Kiso has no place for a title; it stays here.")
    if wanted.summary:
        told = WantedText(wanted.summary.text, wanted.summary_seen)
        made.swap_text("sessions", key, "summary", found[0]["summary"], told)
    for fact in wanted.facts:
        if not fact.place.startswith(_META):
            _plan_fact(rows, fact, made)
    _plan_lines(rows, [fact for fact in wanted.facts if fact.place.startswith(_META)], made)
    if wanted.secrets:
        _plan_secrets(rows, wanted, made)
    return made


def _plan_fact(rows: Rows, fact: WantedFact, made: WritePlan) -> None:
    number = int(fact.place.removeprefix("facts:"))
    found = rows.select("select * from facts where id = ?", number)
    if found and found[0]["content"] != fact.seen:
        made.conflicts.append(f"Kiso has changed its fact {number}.")
    elif found and fact.text is None:
        made.delete_rows(rows, "facts", "id = ?", number)
    elif found:
        made.changes.append(RowChange("facts", {"id": number}, {"content": fact.seen}, {"content": fact.text}))


def _plan_lines(rows: Rows, facts: list[WantedFact], made: WritePlan) -> None:
    """All facts of the documented layout are lines of one row."""
    found = rows.select("select value from meta where key = 'facts'") if facts and rows.columns("meta") else []
    if not found:
        return
    wanted = {fact.seen: fact for fact in facts}
    lines = []
    for line in found[0]["value"].splitlines():
        fact = wanted.get(line.strip())
        if fact is None or fact.text is not None:
            lines.append(line if fact is None else str(fact.text))
        if fact is not None and fact.text is not None:
            made.moves[fact.place] = _META + reading.digest(fact.text)
    before, after = {"value": found[0]["value"]}, {"value": "\n".join(lines)}
    if before != after:
        made.changes.append(RowChange("meta", {"key": "facts"}, before, after))


def _plan_secrets(rows: Rows, wanted: Wanted, made: WritePlan) -> None:
    if not rows.columns("secrets"):
        made.unplaced.append("This layout of Kiso keeps no secrets in its database; yours stay here.")
        return
    for secret in wanted.secrets:
        key = {"session": wanted.native_id, "key": secret.key}
        found = rows.select("select value from secrets where session = ? and key = ?", *key.values())
        before = {"value": found[0]["value"]} if found else None
        after = {"value": secret.value}
        if before != after:
            made.changes.append(RowChange("secrets", key, before, after, secret))


def _plan_delete(rows: Rows, native_id: str, made: WritePlan) -> None:
    """As `kiso reset session` does: no foreign key takes the rest along."""
    for row in rows.select("select * from secrets where session = ?", native_id) if rows.columns("secrets") else []:
        key = {"session": native_id, "key": row["key"]}
        rest = {name: value for name, value in row.items() if name not in key}
        secret = WantedSecret(row["key"], row["value"], 0)
        made.changes.append(RowChange("secrets", key, rest, None, secret))
    for table in _OF_A_SESSION:
        if "session" in rows.columns(table):
            made.delete_rows(rows, table, "session = ? order by rowid desc", native_id)
    made.delete_rows(rows, "sessions", "session = ?", native_id)
