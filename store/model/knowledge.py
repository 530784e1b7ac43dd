"""This module defines what a person keeps about conversations: facts, summaries, notes, secrets and edits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

FOREIGN_TABLE = "@foreign"
"""Is the table name in an edit that changed a row of a foreign store by write-back."""

REDACTIONS_TABLE = "redactions"
"""Is the table name in an edit that redacted values, or restored them."""


@dataclass(frozen=True, slots=True)
class Summary:
    key: int
    session_id: str
    text: str
    up_to_turn: int | None
    "Is the last turn that the summary covers, or None when that is unknown."
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


class Proposal(NamedTuple):
    """Is a fact that an agent proposed."""

    id: int
    text: str
    agent: str
    "Is the name that the agent gave. Nothing checks it."
    reason: str
    session_id: str | None
    turn: int | None
    created_at: str
    state: str
    "Is `waiting`, `accepted` or `rejected`."
    fact: int | None


class FactOrigin(NamedTuple):
    """Describes where a fact comes from: a conversation, another program, both or neither."""

    session_id: str = ""
    title: str = ""
    turn: int | None = None
    quote: str = ""
    program: str = ""
    member: str = ""
    "Is the member of the team who changed it last, if that is another member."
    is_disputed: bool = False
    "Is true if another member changed it at the same time, and no one has chosen between the values yet."


@dataclass(frozen=True, slots=True)
class Note:
    id: int
    session_id: str
    entry: str | None
    text: str
    created_at: str
    author: str = ""
    "Is the member of the team who wrote it as a comment. Is empty for one's own notes and comments."
    is_comment: bool = False
    "Is true if everybody sees it who can read the session."

    @property
    def signed_text(self) -> str:
        """The text, with its author if that is another member."""
        return f"{self.author}: {self.text}" if self.author else self.text

    @property
    def entry_seq(self) -> int | None:
        """The number of the entry that the note is on. Is None for a note on the session."""
        return int(self.entry.rpartition("#")[2]) if self.entry else None


@dataclass(frozen=True, slots=True)
class SecretInfo:
    "Describes a secret without its value."

    session_id: str
    key: str
    version: int
    created_at: str


class SecretUse(NamedTuple):
    """Describes a tool call that mentions the key of a secret."""

    turn: int
    tool: str
    entry: str | None
    "Is the public id of the entry with the call."


@dataclass(frozen=True, slots=True)
class ExposedSecret:
    "Describes where a foreign store holds an unsealed secret, without the value."

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
    "Describes what an edit did to one row: the changed columns before and after, or None where there was no row."

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
    "Is true when a purge removed the values of this edit."
    author: str = ""
    "Is the member of the team who made it elsewhere. Is empty for one's own edits."
    undone_kind: str = ""
    "Is the kind of the edit that an undo reversed, or of the one at the beginning of a chain of undos."
    is_redo: bool = False
    "Is true for the undo of an undo: what was undone is in force again."

    @property
    def is_redaction(self) -> bool:
        """Is true for a redaction and its undo. They change files, too."""
        return any(change.table == REDACTIONS_TABLE for change in self.changes)


class EditLabels(NamedTuple):
    """Holds the titles and texts by which a list of edits calls the changed rows."""

    titles: dict[str, str]
    "Holds the titles of sessions by session id."
    facts: dict[int, str]
    "Holds the current texts of facts, or their beginnings, by fact id."
    rows: dict[tuple[str, Any], str] = {}  # noqa: RUF012 (a tuple's field, never written to)
    "Holds the texts of proposals and the rules of leaks, by table and key."
    summaries: dict[int, str] = {}  # noqa: RUF012 (a tuple's field, never written to)
    "Holds the full texts of summary versions by key, if they were requested."


@dataclass(frozen=True, slots=True)
class Hit:
    session_id: str
    entry: str
    turn: int
    role: str
    field: str
    "Is text, thinking, tool_call or tool_result, or note. The entry of a note on a session is the session."
    at: str
    snippet: str
    highlights: tuple[tuple[int, int], ...] = ()
    "Holds the positions of the words in the snippet."


def user_scope(app: str, user: str) -> str:
    """Return the scope of facts about a user of an app.

    A slash in the app's name is escaped. Otherwise user `b/c` of app `a` would be user `c` of app `a/b`.
    """
    return f"user:{app.replace('%', '%25').replace('/', '%2F')}/{user}"


class KeptSummary(NamedTuple):
    """Holds a version of the summary of a session that was exported."""

    text: str
    up_to_turn: int | None
    origin: str
    current: bool
    created_at: str


class KeptValues(NamedTuple):
    """Holds what a person kept of a session that was exported."""

    title: str = ""
    pinned: bool = False
    archived: bool = False
    tags: tuple[str, ...] = ()
    notes: tuple[tuple[int | None, str, str], ...] = ()
    "Holds the entry, or None for the session, the text and the time of each note."
    summaries: tuple[KeptSummary, ...] = ()
