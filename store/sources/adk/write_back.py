"""This module writes edits back into google-adk stores: states of apps, users and sessions, and deletions.

It never changes `update_time`. A running agent compares it and refuses a session that seems to have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from store.errors import BadValue
from store.formats.genai import format_state, parse_state
from store.model.entry import Json
from store.sources.adk.state import STATE_KEYS, parse_json_as, parse_state_place, rewrite_state, split_native_id
from store.sources.kit.write_plan import SYNC_FIRST, FactUpdate, ForeignRows, RowChange, WriteBackEdits, WritePlan
from store.text.validate import encode, replace_surrogates

_SESSION_CONDITION = "app_name = ? and user_id = ? and session_id = ?"

StateRow = tuple[str, tuple[str, ...]]
"""A table, and the key of a row in it."""


def plan_write_back(rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
    plan = WritePlan()
    key = tuple(split_native_id(edits.native_id))
    session = _find_row(rows, ("sessions", key))
    if session is None:
        if not edits.delete:
            name = "/".join(key)
            plan.conflicts.append(
                f"google-adk does not have the session {name!r} any more. Your edits stay in Backscroll."
            )
        return plan
    if edits.delete:
        plan.delete_rows(rows, "events", _SESSION_CONDITION, *key)
        plan.delete_row(rows, "sessions", session)
        return plan
    for what, edit in (("titles", edits.title), ("summaries", edits.summary), ("secrets", edits.secrets)):
        if edit:
            plan.unsupported.append(f"google-adk cannot store {what}. They stay in Backscroll.")
    for row, facts in _group_by_row(edits.facts).items():
        _plan_state(rows, row, facts, plan)
    return plan


def _find_row(rows: ForeignRows, row: StateRow) -> Mapping[str, Any] | None:
    table, key = row
    condition = " and ".join(f"{name} = ?" for name in STATE_KEYS[table])
    return next(iter(rows.select(table, condition, *key)), None)


def _group_by_row(facts: Iterable[FactUpdate]) -> dict[StateRow, dict[str, FactUpdate]]:
    """Group the facts by row and by name in its state.

    The rows are in the order in which google-adk locks them, so that neither waits for the other.
    """
    groups: dict[StateRow, dict[str, FactUpdate]] = {}
    for fact in facts:
        table, key, name = parse_state_place(fact.place)
        groups.setdefault((table, key), {})[name] = fact
    order = list(STATE_KEYS)
    return dict(sorted(groups.items(), key=lambda item: order.index(item[0][0])))


def _plan_state(rows: ForeignRows, row: StateRow, facts: Mapping[str, FactUpdate], plan: WritePlan) -> None:
    table, key = row
    found = _find_row(rows, row)
    before = found["state"] if found else "{}"
    try:
        state = parse_json_as(before, dict)
    except BadValue as reason:
        plan.conflicts.append(f"The state of {'/'.join(key)} in {table} cannot be read any more: {reason}")
        return
    values: dict[str, str | None] = {}
    written = {name: fact for name, fact in facts.items() if _plan_value(name, fact, state, values, plan)}
    if values:
        row_key = dict(zip(STATE_KEYS[table], key, strict=True))
        change = rows.normalize_change(
            RowChange(table, row_key, {"state": before}, {"state": rewrite_state(before, values)})
        )
        plan.changes.append(change)
        state = parse_json_as((change.after or {})["state"], dict)
    for name, fact in written.items():
        plan.fact_places[fact.place] = fact.place
        if (line := _format_state_line(name, state[name])) != fact.text:
            plan.fact_texts[fact.place] = line


def _plan_value(
    name: str, fact: FactUpdate, state: Mapping[str, Json], values: dict[str, str | None], plan: WritePlan
) -> bool:
    """Plan one value. Return whether the state will have the value that the person wrote."""
    if name not in state:
        if fact.text is not None:
            plan.unsupported.append(f"google-adk does not have {name!r} any more. Your correction stays in Backscroll.")
        return False
    value = None if fact.text is None else parse_state(name, fact.text)
    current = _format_state_line(name, state[name])
    line = None if fact.text is None else _format_state_line(name, value)
    if current not in (fact.seen, line):
        plan.conflicts.append(f"{name!r} was changed in google-adk. {SYNC_FIRST}")
        return False
    if current != line:
        try:
            values[name] = None if line is None else encode(value).decode()
        except BadValue as reason:
            plan.unsupported.append(
                f"Your value of {name!r} stays in Backscroll, because a state cannot store it. {reason}"
            )
            return False
    return line is not None


def _format_state_line(name: str, value: Json) -> str:
    """Return a value of a state as the reader shows it."""
    return replace_surrogates(format_state(name, value))
