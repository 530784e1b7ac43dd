"""What google-adk's stores take back: the state of an app, a user or a session, key by key, and a session's deletion.

`update_time` is never touched: an agent that is at work compares it, and refuses a session that seems to have moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from store.errors import BadValue
from store.formats.genai import format_state, parse_state
from store.model.entry import Json
from store.sources.adk.state import STATE_KEYS, parse_json_as, parse_state_place, rewrite_state, split_native_id
from store.sources.kit.write_plan import FactUpdate, ForeignRows, RowChange, WriteBackEdits, WritePlan
from store.text.validate import encode, replace_surrogates

_SESSION_CONDITION = "app_name = ? and user_id = ? and session_id = ?"

StateRow = tuple[str, tuple[str, ...]]
"""A table, and the key of one of its rows."""


def plan_write_back(rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
    made = WritePlan()
    places = tuple(split_native_id(edits.native_id))
    session = _find_row(rows, ("sessions", places))
    if session is None:
        if not edits.delete:
            name = "/".join(places)
            made.conflicts.append(f"google-adk does not have the session {name!r} any more; your edits stay here.")
        return made
    if edits.delete:
        made.delete_rows(rows, "events", _SESSION_CONDITION, *places)
        made.delete_row(rows, "sessions", session)
        return made
    for what, told in (("titles", edits.title), ("summaries", edits.summary), ("secrets", edits.secrets)):
        if told:
            made.unsupported.append(f"google-adk has no place for {what}; yours stay here.")
    for row, facts in _group_by_row(edits.facts).items():
        _plan_state(rows, row, facts, made)
    return made


def _find_row(rows: ForeignRows, row: StateRow) -> Mapping[str, Any] | None:
    table, places = row
    names = " and ".join(f"{name} = ?" for name in STATE_KEYS[table])
    return next(iter(rows.select(table, names, *places)), None)


def _group_by_row(facts: Iterable[FactUpdate]) -> dict[StateRow, dict[str, FactUpdate]]:
    """By the names in their state. In the order of google-adk's own locks, so that neither waits for the other."""
    gathered: dict[StateRow, dict[str, FactUpdate]] = {}
    for fact in facts:
        table, places, name = parse_state_place(fact.place)
        gathered.setdefault((table, places), {})[name] = fact
    order = list(STATE_KEYS)
    return dict(sorted(gathered.items(), key=lambda item: order.index(item[0][0])))


def _plan_state(rows: ForeignRows, row: StateRow, facts: Mapping[str, FactUpdate], made: WritePlan) -> None:
    table, places = row
    found = _find_row(rows, row)
    before = found["state"] if found else "{}"
    try:
        state = parse_json_as(before, dict)
    except BadValue as reason:
        made.conflicts.append(f"The state of {'/'.join(places)} in {table} cannot be read any more: {reason}")
        return
    values: dict[str, str | None] = {}
    told = {name: fact for name, fact in facts.items() if _plan_value(name, fact, state, values, made)}
    if values:
        key = dict(zip(STATE_KEYS[table], places, strict=True))
        change = rows.normalize_change(
            RowChange(table, key, {"state": before}, {"state": rewrite_state(before, values)})
        )
        made.changes.append(change)
        state = parse_json_as((change.after or {})["state"], dict)
    for name, fact in told.items():
        made.fact_places[fact.place] = fact.place
        if (line := _format_state_line(name, state[name])) != fact.text:
            made.fact_texts[fact.place] = line


def _plan_value(
    name: str, fact: FactUpdate, state: Mapping[str, Json], values: dict[str, str | None], made: WritePlan
) -> bool:
    """Whether the state says then what the person does."""
    if name not in state:
        if fact.text is not None:
            made.unsupported.append(f"google-adk does not keep {name!r} any more; your correction of it stays here.")
        return False
    value = None if fact.text is None else parse_state(name, fact.text)
    said, line = _format_state_line(name, state[name]), None if fact.text is None else _format_state_line(name, value)
    if said not in (fact.seen, line):
        made.conflicts.append(f"{name!r} was changed there since it was read; sync first.")
        return False
    if said != line:
        try:
            values[name] = None if line is None else encode(value).decode()
        except BadValue as reason:
            made.unsupported.append(f"What {name!r} is to be stays here, since a state cannot hold it. {reason}")
            return False
    return line is not None


def _format_state_line(name: str, value: Json) -> str:
    """As a reader tells it."""
    return replace_surrogates(format_state(name, value))
