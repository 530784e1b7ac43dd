"""This module defines the card of a session: everything that is known about it besides its turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from store.model.knowledge import Note, PublishedFile, Summary
from store.model.session import Session


class RelatedSession(NamedTuple):
    """Describes a parent or a child of a session. Its title is empty when the store does not have it."""

    id: str
    relation: str
    title: str


@dataclass(frozen=True, slots=True)
class SessionCard:
    session: Session
    head: str
    "Is the public id of the first entry. Is empty while the session is not read."
    tail: str
    system_prompt: str
    source_place: str
    "Is the file or the store that the session was read from. Is empty if the library made it."
    parent: RelatedSession | None = None
    children: tuple[RelatedSession, ...] = ()
    summary: Summary | None = None
    published_files: tuple[PublishedFile, ...] = ()
    secret_names: tuple[str, ...] = ()
    "Names the secrets, including those that lie open in the agent's store. A card never holds a value."
    tags: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    owner: str = ""
    "Is the member of the team who shares the session with this machine."
    shared_with: tuple[str, ...] = ()
    "Names the members with whom this machine shares it. `*` is everybody."
