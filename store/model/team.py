"""This module defines what is shown of a team: its machines, what is shared, and values that contradict each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from store.model.entry import Json


class TeamMachine(NamedTuple):
    """Describes one machine of a member."""

    machine: str
    "Is the id, and the fingerprint that people compare."
    name: str
    "Is what the member calls itself. Nothing prevents two members from having one name."
    is_own: bool
    trusted_at: str | None
    has_left: bool
    waiting: int
    "Counts the operations that were not read, because the machine is not trusted."


class Share(NamedTuple):
    """Describes a session that is shared, by this machine or with it."""

    id: str
    session_id: str | None
    "Is None while its key has not arrived."
    owner: str
    "Is the name of the member."
    machine: str
    is_own: bool
    audience: tuple[str, ...]
    held: str
    "Says why it is not sent at the moment."
    is_ended: bool


class ValueConflict(NamedTuple):
    """Describes a value that lost against another one, which was written at the same time elsewhere."""

    key: int
    share: str
    name: str
    "Is `title`, `summary`, or the name of a fact."
    session_id: str | None
    fact_id: int | None
    kept: Json
    lost: Json
    kept_author: str
    "Is the name of the member who wrote the value that counts."
    author: str
    "Is the name of the member who wrote the lost value."

    @property
    def kind(self) -> str:
        """Is `title`, `summary` or `fact`."""
        return self.name.partition(":")[0]

    @property
    def kept_text(self) -> str:
        return _write_value(self.kept)

    @property
    def lost_text(self) -> str:
        return _write_value(self.lost)


def _write_value(value: Json) -> str:
    match value:
        case {"text": str(text), "retired": retired}:
            return f"{text} (retired)" if retired else text
        case [str(text), *_] | str(text) if text:
            return text
    return "(none)"


RequestState = Literal["open", "approved", "declined"]


class TeamRequest(NamedTuple):
    """Describes that a member asks for a session, or for one turn of it."""

    number: str
    "Is what a person types to answer it."
    share: str
    asker: str
    to: str
    is_own: bool
    "Is true if this machine asks."
    session: str
    "Is how the asker names the session: its id, its native id, or the beginning of one."
    turn: int | None
    reason: str
    state: RequestState


class MetricsRow(NamedTuple):
    """Holds the figures of a folder, of a tool, or of everything."""

    name: str
    sessions: int
    turns: int
    tool_calls: int
    errors: int
    tokens: int
    cost: int | None
    "Is the API value in micro-dollars."


class MemberMetrics(NamedTuple):
    """Holds the figures that a machine shares about its last 30 days."""

    member: str
    machine: str
    day: str
    "Is the day on which they were summed up."
    total: MetricsRow
    folders: tuple[MetricsRow, ...]
    tools: tuple[MetricsRow, ...]


class TeamHit(NamedTuple):
    """Describes a session that the server of a plain team found."""

    session_id: str
    "Is the id that it would have here."
    title: str
    owner: str
    machine: str
    role: str
    "Is who said the text, or `title`."
    at: str
    snippet: str
    highlights: tuple[tuple[int, int], ...]


class TeamHits(NamedTuple):
    hits: list[TeamHit]
    total: int


@dataclass(frozen=True, slots=True)
class TeamStatus:
    "Describes the team of a store."

    locator: str
    name: str
    machine: str
    joined_at: str
    machines: tuple[TeamMachine, ...]
    shared: int
    "Counts the sessions that this machine shares."
    received: int
    "Counts the sessions of others."
    waiting: int
    "Counts the operations that are not pushed yet."
    held: tuple[Share, ...]
    conflicts: int
    refused: tuple[str, ...]
    "Says what other machines sent that was not accepted."
    shares_role: bool | None = None
    "Is true if the database cannot tell members apart. None if the server was not asked."
    is_plain: bool = False
    "Is true if the server can read and search what is said in shared sessions."
    requests: int = 0
    "Counts the requests of members that have no answer yet."


@dataclass(frozen=True, slots=True)
class TeamSync:
    "Says what a sync with the team did."

    pushed: int
    pulled: int
    new_sessions: tuple[str, ...]
    ended_sessions: tuple[str, ...]
    refused: tuple[str, ...]
    conflicts: int
