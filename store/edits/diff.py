"""What an edit changed, as a person reads it: column by column, without what tells nothing and never with the value of
a secret. The command line prints it, the browser paints it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from store.model.entry import Json
from store.model.knowledge import FOREIGN, Change, Edit
from store.text.validate import spell

_OF_EVERY_CHANGE = {"updated_at"}
_OF_EVERY_ROW = {"id", "key", "session", "current", "created_at", "updated_at"}
"""Columns that tell a reader of the journal nothing."""


class ColumnChange(NamedTuple):
    table: str
    key: str
    "Without the session, where a key has several parts and begins with it."
    sign: Literal["+", "-", ""]
    "Whether the whole row came or went."
    column: str
    old: str
    new: str


class MovedRows(NamedTuple):
    """Rows that came into a table of another program's, or went from it."""

    table: str
    sign: Literal["+", "-"]
    keys: list[str]


def own_changes(edit: Edit) -> Iterator[ColumnChange]:
    """In our own tables."""
    for change in edit.changes:
        if change.table != FOREIGN:
            yield from _columns(change, _key(change.key))


def foreign_changes(edit: Edit) -> Iterator[ColumnChange]:
    """In rows of a foreign store that were there before and after."""
    for change in edit.changes:
        if change.table == FOREIGN and change.before is not None and change.after is not None:
            yield from _columns(Change(change.key["table"], None, change.before, change.after), _foreign_key(change))


def moved_rows(edit: Edit) -> list[MovedRows]:
    moved: dict[tuple[str, Literal["+", "-"]], list[str]] = {}
    for change in edit.changes:
        if change.table == FOREIGN and (change.before is None or change.after is None):
            sign: Literal["+", "-"] = "+" if change.before is None else "-"
            moved.setdefault((change.key["table"], sign), []).append(_foreign_key(change))
    return [MovedRows(table, sign, keys) for (table, sign), keys in moved.items()]


def locators(edit: Edit) -> list[str]:
    """The foreign stores it was carried into."""
    places: list[dict[str, Any]] = [change.key for change in edit.changes if change.table == FOREIGN]
    return sorted({place["locator"] for place in places})


def _columns(change: Change, key: str) -> Iterator[ColumnChange]:
    before, after = change.before or {}, change.after or {}
    whole_row = change.before is None or change.after is None
    sign: Literal["+", "-", ""] = "+" if change.before is None else "-" if change.after is None else ""
    for name in dict.fromkeys([*before, *after]):
        old, new = spelled(before.get(name)), spelled(after.get(name))
        if old != new and name not in (_OF_EVERY_ROW if whole_row else _OF_EVERY_CHANGE):
            yield ColumnChange(change.table, key, sign, name, old, new)


def _key(key: Json) -> str:
    return " ".join(map(str, key[1:] if isinstance(key, list) else [key]))


def _foreign_key(change: Change) -> str:
    return " ".join(map(spelled, change.key["key"].values()))


def spelled(value: Json) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case {"$secret": [_, _, version]}:
            return f"sealed version {version}"
        case {"$base64": text}:
            return f"{len(base64.b64decode(text)):,} bytes"
    return spell(value).decode()
