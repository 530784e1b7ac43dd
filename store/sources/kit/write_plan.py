"""This module describes edits that are written back into a foreign store: which rows change, before and after.

A source only plans. The service in `store.write_back` shows the plan, writes it for all sources, and can undo it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Protocol, Self

from store.sources.contract import ForeignSummary
from store.sources.kit import sqlite
from store.text.validate import serialize

SYNC_FIRST = "Sync, then write back again."
"""Ends a conflict: the agent has changed what an edit would replace."""

MASK = "••••"


@dataclass(frozen=True, slots=True)
class TextUpdate:
    """Holds a new text and the text that was read before."""

    new: str
    seen: str


@dataclass(frozen=True, slots=True)
class FactUpdate:
    """Holds the new text of a fact."""

    place: str
    "Is the place that the reader returned, e.g. `memories:12`."
    text: str | None
    "Is None when the fact was retired."
    seen: str


@dataclass(frozen=True, slots=True)
class SecretUpdate:
    """Holds the new value of a secret, still sealed."""

    key: str
    version: int
    unseal: Callable[[], SecretText] = field(repr=False, compare=False)
    "Unseals it. It is called only if the foreign store can hold the secret, because the vault may be locked."
    seen: Callable[[], SecretText] | None = field(default=None, repr=False, compare=False)
    "Returns the value that the foreign store is known to have; None when it was never known."


class SecretText(str):
    """Is the value of a secret. It is shown as dots and journaled as the version under which it is sealed."""

    key: str
    version: int
    "Is 0 when it is not sealed yet."

    def __new__(cls, value: str, key: str, version: int = 0) -> Self:
        secret = super().__new__(cls, value)
        secret.key, secret.version = key, version
        return secret

    def __repr__(self) -> str:
        return MASK


@dataclass(frozen=True, slots=True)
class WriteBackEdits:
    """Holds everything that a person changed in Backscroll and that is not in the foreign store yet."""

    native_id: str
    title: TextUpdate | None = None
    summary: ForeignSummary | None = None
    "Has no text when it was removed."
    summary_seen: str = ""
    facts: tuple[FactUpdate, ...] = ()
    secrets: tuple[SecretUpdate, ...] = ()
    delete: bool = False


@dataclass(frozen=True, slots=True)
class RowChange:
    """Holds the changed columns of one row, before and after; None when there is no row."""

    table: str
    key: Mapping[str, Any]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    def inverted(self) -> RowChange:
        return RowChange(self.table, self.key, self.after, self.before)


@dataclass(frozen=True, slots=True)
class CascadeRule:
    """Names rows that are deleted together with the row that they refer to."""

    table: str
    columns: Mapping[str, str]
    "Maps their columns to the columns that they refer to."

    def find_rows(self, rows: ForeignRows, row: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        condition = " and ".join(f'"{name}" = ?' for name in self.columns)
        return rows.select(self.table, condition, *(row[name] for name in self.columns.values()))


class ForeignRows(Protocol):
    """Reads the rows of the foreign store as they are now."""

    def columns(self, table: str) -> Sequence[str]:
        """Return the columns in order; none when the table does not exist."""
        ...

    def primary_key(self, table: str) -> Sequence[str]: ...
    def cascade_rules(self, table: str) -> Sequence[CascadeRule]: ...
    def select(self, table: str, condition: str, *values: Any) -> Sequence[Mapping[str, Any]]:
        """Return complete rows, the newest first; none when the table does not exist."""
        ...

    def normalize_change(self, change: RowChange) -> RowChange:
        """Return a change with the values as the database will return them afterwards."""
        ...


@dataclass(slots=True)
class WritePlan:
    """Collects the changes that write edits back, and the reasons why some cannot be written."""

    changes: list[RowChange] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    "Lists the edits that the foreign store cannot hold, in a sentence each."
    conflicts: list[str] = field(default_factory=list)
    "Lists the reasons why nothing may be written, in a sentence each; mostly rows that changed since they were read."
    has_title: bool = False
    "Says whether the foreign store has the title afterwards."
    summary: ForeignSummary | None = None
    "Is the summary that a reader will find afterwards, if the store can hold one."
    fact_places: dict[str, str] = field(default_factory=dict)
    "Maps the places of facts that it can hold to their new places; empty when another fact has the same text."
    fact_texts: dict[str, str] = field(default_factory=dict)
    "Maps places of facts to the texts that a reader will find, where they differ from what the person wrote."
    _deleted: set[tuple[Any, ...]] = field(default_factory=set, repr=False)

    def normalize_changes(self, rows: ForeignRows) -> None:
        """Give the changes the values that the database will return afterwards, and drop those that change nothing."""
        changes = [rows.normalize_change(change) for change in self.changes]
        self.changes = [change for change in changes if change.before != change.after]

    def find_session(
        self, rows: ForeignRows, label: str, column: str, edits: WriteBackEdits
    ) -> Mapping[str, Any] | None:
        matches = rows.select("sessions", f'"{column}" = ?', edits.native_id)
        if not matches and not edits.delete:
            self.conflicts.append(
                f"{label} does not have the session {edits.native_id!r} any more. Your edits stay in Backscroll."
            )
        return matches[0] if matches else None

    def swap_title(self, table: str, key: Mapping[str, Any], column: str, current: Any, update: TextUpdate) -> None:
        self.has_title = self.swap_text(table, key, column, current, update)

    def swap_text(self, table: str, key: Mapping[str, Any], column: str, current: Any, update: TextUpdate) -> bool:
        """Plan the update of a text column, and return whether it has the new text afterwards.

        The current value is compared with the text that a reader returned for it.
        """
        if text_as_read(current) not in (update.seen, update.new):
            self.conflicts.append(f"The {column} of {table} was changed in the agent's store. {SYNC_FIRST}")
            return False
        if text_as_read(current) != update.new:
            self.changes.append(RowChange(table, key, {column: current}, {column: update.new}))
        return True

    def swap_fact(self, rows: ForeignRows, fact: FactUpdate, extra_columns: Mapping[str, Any] | None = None) -> None:
        """Plan the update of a fact that is a row of its own, named by its table and id.

        The extra columns change together with the text.
        """
        table, _, number = fact.place.partition(":")
        matches = rows.select(table, "id = ?", number)
        if not matches:
            if fact.text is not None:
                self.unsupported.append(f"{table} {number} no longer exists. Your correction stays in Backscroll.")
            return
        row = matches[0]
        if text_as_read(row["content"]) not in (fact.seen, fact.text):
            self.conflicts.append(f"{table} {number} was changed in the agent's store. {SYNC_FIRST}")
        elif fact.text is None:
            self.delete_rows(rows, table, "id = ?", number)
        else:
            self.fact_places[fact.place] = fact.place
            after = {
                name: value for name, value in {"content": fact.text, **(extra_columns or {})}.items() if name in row
            }
            if text_as_read(row["content"]) != fact.text:
                self.changes.append(RowChange(table, {"id": row["id"]}, {name: row[name] for name in after}, after))

    def delete_rows(self, rows: ForeignRows, table: str, condition: str, *values: Any) -> None:
        """Delete every row that matches, the newest first."""
        for row in rows.select(table, condition, *values):
            self.delete_row(rows, table, row)

    def delete_row(self, rows: ForeignRows, table: str, row: Mapping[str, Any]) -> None:
        """Delete a row, and before it the rows that the database would delete with it.

        So the plan shows all of them, and they can be restored.
        """
        key = {name: row[name] for name in rows.primary_key(table)}
        if (table, *key.values()) in self._deleted:
            return
        self._deleted.add((table, *key.values()))
        for rule in rows.cascade_rules(table):
            for dependent_row in rule.find_rows(rows, row):
                self.delete_row(rows, rule.table, dependent_row)
        columns = {name: value for name, value in row.items() if name not in key}
        self.changes.append(RowChange(table, key, columns, None))


def text_as_read(value: Any) -> str:
    """Return a text column as a reader returns it. Here, text that is not UTF-8 contains surrogates."""
    return sqlite.as_text(value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def format_value(value: Any) -> str:
    """Return a column's value as it is shown to people; a secret is shown as dots."""
    if isinstance(value, SecretText):
        return MASK
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"{len(value):,} bytes"
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return serialize(value).decode()


def plan_session_edits(
    rows: ForeignRows,
    edits: WriteBackEdits,
    label: str,
    *,
    plan_delete: Callable[[ForeignRows, Mapping[str, Any], WritePlan], None],
    plan_summary: Callable[[ForeignRows, Mapping[str, Any], ForeignSummary, str, WritePlan], None],
    fact_columns: Callable[[FactUpdate], Mapping[str, Any]] | None = None,
) -> WritePlan:
    """Plan the edits of a session for a store with titles, summaries and facts as rows, but without secrets.

    The store itself says how to delete a session, how to change its summary, and which columns depend on a fact's text.
    """
    plan = WritePlan()
    session = plan.find_session(rows, label, "id", edits)
    if session is None:
        return plan
    if edits.delete:
        plan_delete(rows, session, plan)
        return plan
    if edits.title:
        plan.swap_title("sessions", {"id": edits.native_id}, "title", session["title"], edits.title)
    if edits.summary:
        plan_summary(rows, session, edits.summary, edits.summary_seen, plan)
    for fact in edits.facts:
        plan.swap_fact(rows, fact, fact_columns(fact) if fact_columns else None)
    if edits.secrets:
        plan.unsupported.append(f"{label} cannot store secrets. They stay in Backscroll.")
    return plan
