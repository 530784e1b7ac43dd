"""What a source says when an edit is to be carried back into its store: which rows, from what, to what.

It writes nothing itself: one piece of code, shared by all, does that, shows it first, and can take it back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Protocol, Self

from store.sources.contract import ForeignSummary
from store.sources.kit import sqlite
from store.text.validate import serialize

MASK = "••••"


@dataclass(frozen=True, slots=True)
class TextUpdate:
    "A text as it should be, and as it was when it was read."

    new: str
    seen: str


@dataclass(frozen=True, slots=True)
class FactUpdate:
    place: str
    "As the reader gave it, e.g. `memories:12`."
    text: str | None
    "None: it is retired."
    seen: str


@dataclass(frozen=True, slots=True)
class SecretUpdate:
    key: str
    version: int
    unseal: Callable[[], SecretText] = field(repr=False, compare=False)
    "Unseals it; only where there is a place for it, since the vault may be locked."
    seen: Callable[[], SecretText] | None = field(default=None, repr=False, compare=False)
    "What is held there as far as we know; None where we never knew."


class SecretText(str):
    "A secret's value on its way: shown as dots, and journaled as the version under which it is sealed."

    key: str
    version: int
    "0 where it is not sealed yet."

    def __new__(cls, value: str, key: str, version: int = 0) -> Self:
        made = super().__new__(cls, value)
        made.key, made.version = key, version
        return made

    def __repr__(self) -> str:
        return MASK


@dataclass(frozen=True, slots=True)
class WriteBackEdits:
    "Everything that a person changed here and the foreign store does not know of yet."

    native_id: str
    title: TextUpdate | None = None
    summary: ForeignSummary | None = None
    "Without text when it was taken away."
    summary_seen: str = ""
    facts: tuple[FactUpdate, ...] = ()
    secrets: tuple[SecretUpdate, ...] = ()
    delete: bool = False


@dataclass(frozen=True, slots=True)
class RowChange:
    "One row: the columns that matter, before and after; None where there is no row."

    table: str
    key: Mapping[str, Any]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    def inverted(self) -> RowChange:
        return RowChange(self.table, self.key, self.after, self.before)


@dataclass(frozen=True, slots=True)
class CascadeRule:
    "Rows that go when the row goes to which they point."

    table: str
    columns: Mapping[str, str]
    "Theirs, and the ones they point to."

    def find_rows(self, rows: ForeignRows, row: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        pointing = " and ".join(f'"{name}" = ?' for name in self.columns)
        return rows.select(self.table, pointing, *(row[name] for name in self.columns.values()))


class ForeignRows(Protocol):
    "The foreign store, read row by row exactly as it is now."

    def columns(self, table: str) -> Sequence[str]:
        """In order; none where there is no such table."""
        ...

    def primary_key(self, table: str) -> Sequence[str]: ...
    def cascade_rules(self, table: str) -> Sequence[CascadeRule]: ...
    def select(self, table: str, condition: str, *values: Any) -> Sequence[Mapping[str, Any]]:
        """Whole rows, the newest first; none where there is no such table."""
        ...

    def normalize_change(self, change: RowChange) -> RowChange:
        """An update with the values that will be found afterwards, where the database spells them in its own way."""
        ...


@dataclass(slots=True)
class WritePlan:
    changes: list[RowChange] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    "What the foreign store has no place for, in a sentence each."
    conflicts: list[str] = field(default_factory=list)
    "Why nothing may be written, in a sentence each: most of all, what was changed there since it was read."
    has_title: bool = False
    "Whether it has the title then."
    summary: ForeignSummary | None = None
    "What a reader will be told then, if it takes the summary."
    fact_places: dict[str, str] = field(default_factory=dict)
    "The facts it takes, by their place, and their place then; empty when another fact says the same already."
    fact_texts: dict[str, str] = field(default_factory=dict)
    "What a reader will say of such a fact then, by its place, where it is not what the person wrote."
    _deleted: set[tuple[Any, ...]] = field(default_factory=set, repr=False)

    def find_session(
        self, rows: ForeignRows, label: str, column: str, edits: WriteBackEdits
    ) -> Mapping[str, Any] | None:
        found = rows.select("sessions", f'"{column}" = ?', edits.native_id)
        if not found and not edits.delete:
            self.conflicts.append(
                f"{label} does not have the session {edits.native_id!r} any more; your edits stay here."
            )
        return found[0] if found else None

    def swap_title(self, table: str, key: Mapping[str, Any], column: str, found: Any, wanted: TextUpdate) -> None:
        self.has_title = self.swap_text(table, key, column, found, wanted)

    def swap_text(self, table: str, key: Mapping[str, Any], column: str, found: Any, wanted: TextUpdate) -> bool:
        """One text column; whether it says what is wanted then. Compared with what a reader showed in its place."""
        if text_as_read(found) not in (wanted.seen, wanted.new):
            self.conflicts.append(f"The {column} of {table} was changed there since it was read; sync first.")
            return False
        if text_as_read(found) != wanted.new:
            self.changes.append(RowChange(table, key, {column: found}, {column: wanted.new}))
        return True

    def swap_fact(self, rows: ForeignRows, fact: FactUpdate, extra_columns: Mapping[str, Any] | None = None) -> None:
        """One that is a row of its own, named by its table and id; `also` are the columns that follow its words."""
        table, _, number = fact.place.partition(":")
        found = rows.select(table, "id = ?", number)
        if not found:
            if fact.text is not None:
                self.unsupported.append(f"{table} {number} is not there any more; your correction of it stays here.")
            return
        row = found[0]
        if text_as_read(row["content"]) not in (fact.seen, fact.text):
            self.conflicts.append(f"{table} {number} was changed there since it was read; sync first.")
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
        """Every row that fits, the newest first."""
        for row in rows.select(table, condition, *values):
            self.delete_row(rows, table, row)

    def delete_row(self, rows: ForeignRows, table: str, row: Mapping[str, Any]) -> None:
        """And before it what would go with it unseen, so that all of it is shown and can be put back."""
        key = {name: row[name] for name in rows.primary_key(table)}
        if (table, *key.values()) in self._deleted:
            return
        self._deleted.add((table, *key.values()))
        for hanging in rows.cascade_rules(table):
            for hung in hanging.find_rows(rows, row):
                self.delete_row(rows, hanging.table, hung)
        rest = {name: value for name, value in row.items() if name not in key}
        self.changes.append(RowChange(table, key, rest, None))


def text_as_read(value: Any) -> str:
    """What a reader makes of a text column, whatever it holds; here text that is not UTF-8 comes in surrogates."""
    return sqlite.as_text(value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def format_value(value: Any) -> str:
    """A column's value as a person is shown it; of a secret, dots."""
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
