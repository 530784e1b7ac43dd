"""What a person knows, corrects and keeps beside the conversations: facts, summaries, notes, secrets, edits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

FOREIGN_TABLE = "@foreign"
"""The table an edit names when what changed is a row of a foreign store, carried back there."""


@dataclass(frozen=True, slots=True)
class Summary:
    key: int
    session_id: str
    text: str
    up_to_turn: int | None
    "The last turn it covers; None when it says nothing of what it covers."
    origin: str
    current: bool
    created_at: str


@dataclass(frozen=True, slots=True)
class Fact:
    id: int
    text: str
    scope: str
    category: str
    session_id: str | None
    entry: str | None
    foreign_place: str
    foreign_text: str
    created_at: str
    updated_at: str
    retired_at: str | None


class FactOrigin(NamedTuple):
    """The conversation that taught a fact, the program that had it, both or neither."""

    session_id: str = ""
    title: str = ""
    turn: int | None = None
    quote: str = ""
    program: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    id: int
    session_id: str
    entry: str | None
    text: str
    created_at: str


@dataclass(frozen=True, slots=True)
class SecretInfo:
    "What may be shown of a secret: everything but its value."

    session_id: str
    key: str
    version: int
    created_at: str


class SecretUse(NamedTuple):
    """A tool call that names a secret."""

    turn: int
    tool: str
    entry: str | None
    "The public id of the entry that called."


@dataclass(frozen=True, slots=True)
class ExposedSecret:
    "A secret that lies open in a foreign store: where, never what."

    session_id: str
    key: str
    locator: str
    place: str


@dataclass(frozen=True, slots=True)
class PublishedFile:
    id: str
    session_id: str
    filename: str
    path: str
    created_at: str


@dataclass(frozen=True, slots=True)
class Change:
    "What an edit did to one row: the columns it touched, before and after; None where there was no row."

    table: str
    key: Any
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Edit:
    id: int
    kind: str
    at: str
    session_ids: tuple[str, ...]
    changes: tuple[Change, ...]
    undoes: int | None
    undone_by: int | None
    blanked: bool = False
    "Purge removed what it spoke of."


class EditLabels(NamedTuple):
    """What the rows that edits speak of are called."""

    titles: dict[str, str]
    "Of sessions, by their id."
    facts: dict[int, str]
    "What a fact says now, or the beginning of it."
    summaries: dict[int, str] = {}  # noqa: RUF012 (a tuple's field, never written to)
    "Versions of summaries, whole; only where they were asked for."


@dataclass(frozen=True, slots=True)
class Hit:
    session_id: str
    entry: str
    turn: int
    role: str
    field: str
    "text, thinking, tool_call or tool_result."
    at: str
    snippet: str
    highlights: tuple[tuple[int, int], ...] = ()
    "Where in the snippet the words stand."


def user_scope(app: str, user: str) -> str:
    """A slash in the app's name is escaped, or user `b/c` of app `a` would be user `c` of app `a/b`."""
    return f"user:{app.replace('%', '%25').replace('/', '%2F')}/{user}"
