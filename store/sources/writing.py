"""What a source says when an edit is to be carried back into its store: which rows, from what, to what.

It writes nothing itself: one piece of code, shared by all, does that, shows it first, and can take it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from store.sources.shape import ForeignSummary


@dataclass(frozen=True, slots=True)
class WantedText:
    "A text as it should be, and as it was when it was read."

    new: str
    seen: str


@dataclass(frozen=True, slots=True)
class WantedFact:
    place: str
    "As the reader gave it, e.g. `memories:12`; empty for a fact that is not there yet."
    text: str | None
    "None: it is retired."
    seen: str
    category: str = ""


@dataclass(frozen=True, slots=True)
class WantedSecret:
    key: str
    value: str
    version: int
    "Of the sealed value: all that the journal may say of it."


@dataclass(frozen=True, slots=True)
class Wanted:
    "Everything that a person changed here and the foreign store does not know of yet."

    native_id: str
    title: WantedText | None = None
    summary: ForeignSummary | None = None
    summary_seen: str = ""
    facts: tuple[WantedFact, ...] = ()
    secrets: tuple[WantedSecret, ...] = ()
    delete: bool = False


@dataclass(frozen=True, slots=True)
class RowChange:
    "One row: the columns that matter, before and after; None where there is no row."

    table: str
    key: Mapping[str, Any]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    secret: WantedSecret | None = None
    "Set when the column `value` carries a secret, which is never shown or journaled."


class Rows(Protocol):
    "The foreign store, read row by row exactly as it is now."

    def columns(self, table: str) -> frozenset[str]: ...
    def primary_key(self, table: str) -> tuple[str, ...]: ...
    def select(self, sql: str, *values: Any) -> Sequence[Mapping[str, Any]]: ...


@dataclass(slots=True)
class WritePlan:
    changes: list[RowChange] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)
    "What the foreign store has no place for, in a sentence each."
    conflicts: list[str] = field(default_factory=list)
    "What was changed there since it was read."
    titled: bool = False
    "Whether the title has a place there."
    moves: dict[str, str] = field(default_factory=dict)
    "Facts whose place is what they say, and so is another one afterwards."

    def swap_title(self, table: str, key: Mapping[str, Any], column: str, found: Any, wanted: WantedText) -> None:
        self.titled = True
        self.swap_text(table, key, column, found, wanted)

    def swap_text(self, table: str, key: Mapping[str, Any], column: str, found: Any, wanted: WantedText) -> None:
        """One text column. NULL and text that is not UTF-8 count as what a reader showed in their place."""
        shown = (found or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if shown != wanted.seen:
            self.conflicts.append(f"The {column} of {table} was changed there since it was read.")
        else:
            self.changes.append(RowChange(table, key, {column: found}, {column: wanted.new}))

    def delete_rows(self, rows: Rows, table: str, condition: str, *values: Any) -> None:
        """Every row that fits, in the order the condition asks for; nothing where the store has no such table."""
        if not rows.columns(table):
            return
        key = rows.primary_key(table)
        for row in rows.select(f'select * from "{table}" where {condition}', *values):
            rest = {name: value for name, value in row.items() if name not in key}
            self.changes.append(RowChange(table, {name: row[name] for name in key}, rest, None))


@runtime_checkable
class Writable(Protocol):
    "A source whose stores take edits back."

    LIVE_WRITES: bool
    "Whether its program may be running meanwhile; where it may not, a file that is open anywhere is refused."

    def plan(self, rows: Rows, wanted: Wanted) -> WritePlan: ...
