"""This module defines what a redaction shows: the places of a value before it is removed, and what was done afterwards.

A redaction is planned, shown, and run. It can be undone until its values are forgotten. No value is in any of these
types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from store.model.leak import Leak, NotScanned

RedactionState = Literal["running", "done", "undoing", "undone"]
"""Says where a redaction stands. A `running` or `undoing` one was interrupted, or some of its files could not be
written: it can be continued."""


class RedactionPlace(NamedTuple):
    """Is one thing that a redaction rewrites: a record, another text of the store, or a file of an agent."""

    kind: Literal["record", "text", "file", "database"]
    session_id: str | None = None
    entry: str | None = None
    field: str | None = None
    "Names the column of a text of the store."
    path: str | None = None
    times: int = 0
    "Counts how often values to redact occur there."
    problem: str = ""
    "Says why the place cannot be rewritten now. Is empty if it can."

    @property
    def is_foreign(self) -> bool:
        """Is true for a file of an agent, and false for what only this store has."""
        return self.path is not None


class RedactedValue(NamedTuple):
    """Describes a value without showing it."""

    fingerprint: str
    rule: str
    tier: str
    masked: str


@dataclass(frozen=True, slots=True)
class RedactionPreview:
    "Describes what a redaction would change. Nothing has been changed yet."

    values: tuple[RedactedValue, ...]
    places: tuple[RedactionPlace, ...]
    not_scanned: tuple[NotScanned, ...]
    "Lists what cannot be looked into: archives, base64 content, values that are not text."
    backups: tuple[str, ...]
    "Lists existing backups of this store and of agents' stores. They may hold the values, and are not changed."
    shared: tuple[str, ...] = ()
    "Lists sessions that were sent to a team. The copies of others may hold the values, and are not changed."

    @property
    def count(self) -> int:
        """Count how often the values occur in all places."""
        return sum(place.times for place in self.places)

    @property
    def problems(self) -> tuple[RedactionPlace, ...]:
        """Return the places that cannot be rewritten now."""
        return tuple(place for place in self.places if place.problem)


class RedactionProgress(NamedTuple):
    """Says how far a redaction is."""

    done: int
    total: int
    step: str
    "Says in a few words what is being done, such as the path of a file."


@dataclass(frozen=True, slots=True)
class RedactionReport:
    "Says what a redaction or its undo did, and what is left."

    id: int
    state: RedactionState
    count: int
    "Counts how often the values occurred before."
    left: tuple[RedactionPlace, ...]
    "Lists the places that still hold a value, or were not restored, each with the reason."
    remaining: tuple[Leak, ...]
    "Lists the leaks of these values that a new scan found. Is empty if nothing is left."
    backups: tuple[str, ...] = ()
    "Lists backups that may still hold the values."
    not_scanned: tuple[NotScanned, ...] = ()
    shared: tuple[str, ...] = ()
    "Lists sessions that were sent to a team, where copies may still hold the values."

    @property
    def left_count(self) -> int:
        return sum(place.times for place in self.left)


@dataclass(frozen=True, slots=True)
class Redaction:
    "Describes a redaction in the list of all."

    id: int
    at: str
    state: RedactionState
    values: tuple[RedactedValue, ...]
    count: int
    left: tuple[RedactionPlace, ...]
    edit: int | None
    "Is the number of its edit in the journal, by which it is undone."
    is_forgotten: bool
    "Is true when its values were forgotten, so that it cannot be undone."
