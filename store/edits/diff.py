"""What an edit changed, as a person reads it: column by column, without what tells nothing and never with the value of
a secret. The command line prints it, the browser paints it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from store.model.entry import Json
from store.model.knowledge import FOREIGN_TABLE, Change, Edit
from store.text.validate import serialize

_HIDDEN_IN_UPDATES = {"updated_at"}
_HIDDEN_IN_FULL_ROWS = {"id", "key", "session", "current", "created_at", "updated_at"}
"""Columns that tell a reader of the journal nothing."""


class ColumnDiff(NamedTuple):
    table: str
    key: str
    "Without the session, where a key has several parts and begins with it."
    sign: Literal["+", "-", ""]
    "Whether the whole row came or went."
    column: str
    old: str
    new: str


class AddedOrRemovedRows(NamedTuple):
    """Rows that came into a table of another program's, or went from it."""

    table: str
    sign: Literal["+", "-"]
    keys: list[str]


def diff_own_rows(edit: Edit) -> Iterator[ColumnDiff]:
    """In our own tables."""
    for change in edit.changes:
        if change.table != FOREIGN_TABLE:
            yield from _diff_columns(change, _format_key(change.key))


def diff_foreign_rows(edit: Edit) -> Iterator[ColumnDiff]:
    """In rows of a foreign store that were there before and after."""
    for change in edit.changes:
        if change.table == FOREIGN_TABLE and change.before is not None and change.after is not None:
            yield from _diff_columns(
                Change(change.key["table"], None, change.before, change.after), _format_foreign_key(change)
            )


def list_added_and_removed_rows(edit: Edit) -> list[AddedOrRemovedRows]:
    moved: dict[tuple[str, Literal["+", "-"]], list[str]] = {}
    for change in edit.changes:
        if change.table == FOREIGN_TABLE and (change.before is None or change.after is None):
            sign: Literal["+", "-"] = "+" if change.before is None else "-"
            moved.setdefault((change.key["table"], sign), []).append(_format_foreign_key(change))
    return [AddedOrRemovedRows(table, sign, keys) for (table, sign), keys in moved.items()]


def list_locators(edit: Edit) -> list[str]:
    """The foreign stores it was carried into."""
    places: list[dict[str, Any]] = [change.key for change in edit.changes if change.table == FOREIGN_TABLE]
    return sorted({place["locator"] for place in places})


def _diff_columns(change: Change, key: str) -> Iterator[ColumnDiff]:
    before, after = change.before or {}, change.after or {}
    whole_row = change.before is None or change.after is None
    sign: Literal["+", "-", ""] = "+" if change.before is None else "-" if change.after is None else ""
    for name in dict.fromkeys([*before, *after]):
        old, new = format_value(before.get(name)), format_value(after.get(name))
        if old != new and name not in (_HIDDEN_IN_FULL_ROWS if whole_row else _HIDDEN_IN_UPDATES):
            yield ColumnDiff(change.table, key, sign, name, old, new)


def _format_key(key: Json) -> str:
    return " ".join(map(str, key[1:] if isinstance(key, list) else [key]))


def _format_foreign_key(change: Change) -> str:
    return " ".join(map(format_value, change.key["key"].values()))


def format_value(value: Json) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case {"$secret": [_, _, version]}:
            return f"sealed version {version}"
        case {"$base64": text}:
            return f"{len(base64.b64decode(text)):,} bytes"
    return serialize(value).decode()
