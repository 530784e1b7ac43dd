"""This module describes what an edit changed, column by column, for the command line and the browser.

It leaves out columns that do not matter to a person, and never shows the value of a secret.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from store.model.entry import Json
from store.model.knowledge import FOREIGN_TABLE, Change, Edit
from store.search.saved_searches import KEY_PREFIX, read_search
from store.text.validate import serialize

SEARCH_TABLE = "search"
"""Names saved searches in a diff. They are rows of the table `meta`, which people need not know."""

_BOOKKEEPING_TABLE = "memory_blocks"
"""Says what was written into memory files. The files themselves are among the changes, too."""

_HIDDEN_IN_UPDATES = {"updated_at"}
_HIDDEN_IN_FULL_ROWS = {"id", "key", "session", "current", "created_at", "updated_at"}
"""Columns that do not matter to a reader of the journal."""


class ColumnDiff(NamedTuple):
    """Describes the change of one column."""

    table: str
    key: str
    "The key of the row. If the key has several parts, the session at its beginning is left out."
    sign: Literal["+", "-", ""]
    "Says whether the whole row was added or removed. Is empty for an update."
    column: str
    old: str
    new: str

    @property
    def is_key(self) -> bool:
        """True for the name of an added or removed row, e.g. a tag, which its key says already."""
        return bool(self.sign) and self.column == "name" and (self.new or self.old) == self.key


class AddedOrRemovedRows(NamedTuple):
    """Lists rows that were added to or removed from a table of a foreign store."""

    table: str
    sign: Literal["+", "-"]
    keys: list[str]


def diff_own_rows(edit: Edit) -> Iterator[ColumnDiff]:
    """Yield the changes of the rows in our own store."""
    for change in edit.changes:
        if change.table not in (FOREIGN_TABLE, _BOOKKEEPING_TABLE):
            shown = _show_saved_search(change)
            yield from _diff_columns(shown, _format_key(shown.key))


def diff_foreign_rows(edit: Edit) -> Iterator[ColumnDiff]:
    """Yield the changes of rows that were updated in a foreign store."""
    for change in edit.changes:
        if change.table == FOREIGN_TABLE and change.before is not None and change.after is not None:
            yield from _diff_columns(
                Change(change.key["table"], None, change.before, change.after), _format_foreign_key(change)
            )


def list_added_and_removed_rows(edit: Edit) -> list[AddedOrRemovedRows]:
    """Return the rows that were added to or removed from a foreign store, grouped by table."""
    keys_by_table: dict[tuple[str, Literal["+", "-"]], list[str]] = {}
    for change in edit.changes:
        if change.table == FOREIGN_TABLE and (change.before is None or change.after is None):
            sign: Literal["+", "-"] = "+" if change.before is None else "-"
            keys_by_table.setdefault((change.key["table"], sign), []).append(_format_foreign_key(change))
    return [AddedOrRemovedRows(table, sign, keys) for (table, sign), keys in keys_by_table.items()]


def list_locators(edit: Edit) -> list[str]:
    """Return the locators of the foreign stores that the edit was written back to."""
    keys: list[dict[str, Any]] = [change.key for change in edit.changes if change.table == FOREIGN_TABLE]
    return sorted({key["locator"] for key in keys})


def find_summary_texts(edit: Edit, texts: Mapping[int, str]) -> tuple[str, str] | None:
    """Return the summary before and after an edit, or None if the edit changed no summary.

    An edit writes a new version and marks it as the current one. `texts` holds the versions that it did not write.
    """
    versions = [change for change in edit.changes if change.table == "summaries"]
    if not versions:
        return None
    before = after = ""
    for change in versions:
        text = texts.get(change.key, "")
        if change.before is not None and change.before.get("current") == 1:
            before = change.before.get("text") or text
        if change.after is not None and change.after.get("current") == 1:
            after = change.after.get("text") or text
    return before, after


def _show_saved_search(change: Change) -> Change:
    """Return the change of a saved search with its query and pin as columns, instead of the JSON that stores them."""
    if change.table != "meta" or not str(change.key).startswith(KEY_PREFIX):
        return change
    is_update = change.before is not None and change.after is not None
    before, after = (_read_search_columns(change.key, row, is_update) for row in (change.before, change.after))
    return Change(SEARCH_TABLE, f"@{change.key.removeprefix(KEY_PREFIX)}", before, after)


def _read_search_columns(key: str, row: Mapping[str, Json] | None, is_update: bool) -> dict[str, Json] | None:
    """Return the columns of a saved search. That a new or deleted one is not pinned is left out."""
    if row is None:
        return None
    search = read_search(key, str(row.get("value") or ""))
    pinned: dict[str, Json] = {"pinned": int(search.pinned)} if search.pinned or is_update else {}
    return {"query": search.query, **pinned}


def _diff_columns(change: Change, key: str) -> Iterator[ColumnDiff]:
    before, after = change.before or {}, change.after or {}
    is_full_row = change.before is None or change.after is None
    sign: Literal["+", "-", ""] = "+" if change.before is None else "-" if change.after is None else ""
    for name in dict.fromkeys([*before, *after]):
        old, new = format_value(before.get(name)), format_value(after.get(name))
        is_hidden = name in (_HIDDEN_IN_FULL_ROWS if is_full_row else _HIDDEN_IN_UPDATES)
        if old != new and not is_hidden and (change.table, name) != ("fact_proposals", "fact"):
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
