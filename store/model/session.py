"""A session and what identifies it.

These types are apart from `store.model.entry`, because the first screen of the browser needs nothing else.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypedDict

Relation = Literal["fork", "delegate", "sidechain", "superseded"]

LIBRARY_SOURCE = "library"
"""The source of a session that was made through the library rather than read from a foreign store."""

DELEGATE_SEPARATOR = ":delegate:"

GLOBAL_SCOPE = "global"
"""The scope of a fact that every agent may know."""


class Session(NamedTuple):
    """One conversation. A tuple, since a hundred are made for every page of the list and a tuple is made in C."""

    key: int
    id: str
    source: str
    source_key: int | None
    native_id: str
    parent_id: str | None
    relation: Relation | None
    forked_at: int | None
    channel: str
    channel_id: str
    user: str
    agent_title: str
    own_title: str
    first_prompt: str
    provider: str
    model: str
    cwd: str
    environment_name: str
    environment_type: str
    environment_path: str
    system_prompt: str
    webhook: str
    head: int | None
    tail: int | None
    turns: int
    entries: int
    tool_calls: int
    errors: int
    tokens_input: int
    tokens_output: int
    tokens_cached: int
    tokens_total: int
    cost: float | None
    created_at: str
    updated_at: str
    pinned: int
    archived: int
    deleted: int
    gone: int
    reader_version: int
    depth: str
    expires_at: str
    "When its agent will delete it, if it is not used until then; empty when nobody says."

    @property
    def title(self) -> str:
        return self.own_title or self.agent_title or self.first_prompt


class SessionFields(TypedDict, total=False):
    "What may be said of a session when it is made or updated."

    source: str
    native_id: str
    parent_id: str
    relation: Relation
    forked_at: int
    channel: str
    channel_id: str
    user: str
    agent_title: str
    provider: str
    model: str
    cwd: str
    environment_name: str
    environment_type: str
    environment_path: str
    system_prompt: str
    webhook: str
    tokens_input: int
    tokens_output: int
    tokens_cached: int
    tokens_total: int
    cost: float
    "In dollars, where the agent says it."
    created_at: str
    updated_at: str


def delegate_parent_id(session_id: str) -> str | None:
    """`{parent}:delegate:{agent}` names its parent; of nested ones, the nearest."""
    parent, mark, agent = session_id.rpartition(DELEGATE_SEPARATOR)
    return parent if mark and parent and agent else None


def entry_id(session_id: str, seq: int) -> str:
    return f"{session_id}#{seq}"
