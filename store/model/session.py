"""This module defines a session and its ids.

These types are separate from `store.model.entry`, because the first screen of the browser needs nothing else.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal, NamedTuple, TypedDict

Relation = Literal["fork", "delegate", "sidechain", "superseded"]

LIBRARY_SOURCE = "library"
"""Is the source of a session that was created through the library rather than read from a foreign store."""

EXPORTED_SOURCE = "backscroll"
"""Is the source of a session that was read from an exported file."""

UNKNOWN_USER = "unknown_user"
"""Is the author of a prompt whose author is not known."""

DELEGATE_SEPARATOR = ":delegate:"

GLOBAL_SCOPE = "global"
"""Is the scope of a fact that every agent may know."""

TEAM_SCOPE = "team"
"""Is the scope of a fact that every agent may know, on the machines of the whole team."""

_INLINE_MARKDOWN = re.compile(r"^#{1,6} +|\*\*([^*]{1,200})\*\*|`([^`]{1,200})`")
"""Matches what Markdown adds to the words of a title: the signs of a heading, of bold text and of code."""


def strip_markdown(title: str) -> str:
    return _INLINE_MARKDOWN.sub(lambda found: found[1] or found[2] or "", title)


class Session(NamedTuple):
    """Describes one conversation.

    It is a tuple, because every page of the list creates a hundred of them, and tuples are created quickly.
    """

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
    "Counts what was read from a cache and what was written to one."
    tokens_cache_write: int | None
    "Is None when version 0.1.0 stored the session, which did not keep the two apart."
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
    "Is the time at which its agent deletes the session if it is not used. Is empty when that is unknown."
    activity: str = ""
    "Is what its last entries say: `working`, `waiting`, `ended`, or nothing. See `store.model.status`."
    process: int | None = None
    "Is the process that works on the session, if its agent says which one."

    @property
    def tokens_cache_read(self) -> int | None:
        return None if self.tokens_cache_write is None else self.tokens_cached - self.tokens_cache_write

    @property
    def title(self) -> str:
        return self.own_title or self.agent_title or self.first_prompt

    @property
    def plain_title(self) -> str:
        """The title as a person reads it: one that an agent wrote, or a prompt, is shown without Markdown signs."""
        return self.own_title or strip_markdown(self.agent_title or self.first_prompt)

    def describe(self, agent: str) -> str:
        """Return the title. A session without a title and without turns is named by its agent and day."""
        if self.title or self.turns or self.depth == "text":
            return self.plain_title
        try:
            day = datetime.fromisoformat(self.created_at).astimezone()
        except (ValueError, OverflowError):
            return f"empty, {agent}"
        return f"empty, {agent}, {day.day} {day:%b}"

    @property
    def working_dir(self) -> str:
        """Return the folder under the name that Rubichan gives it."""
        return self.cwd

    @property
    def masked_webhook(self) -> str:
        """Return the address without its user and the values of its query, which often contain a token."""
        scheme, separator, rest = self.webhook.rpartition("://")
        place, question_mark, _ = rest.partition("?")
        host, slash, path = place.partition("/")
        return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}" + ("?***" if question_mark else "")

    @property
    def token_count(self) -> int:
        """Return all tokens under the name that Rubichan gives them."""
        return self.tokens_total


class SessionFields(TypedDict, total=False):
    "Names the fields that can be given when a session is created or updated."

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
    tokens_cache_write: int
    tokens_total: int
    cost: float
    "Is in dollars, if the agent reports it."
    created_at: str
    updated_at: str


def delegate_parent_id(session_id: str) -> str | None:
    """Return the parent of a session whose id is `{parent}:delegate:{agent}`; of nested ones, the nearest."""
    parent, separator, agent = session_id.rpartition(DELEGATE_SEPARATOR)
    return parent if separator and parent and agent else None


def entry_id(session_id: str, seq: int) -> str:
    return f"{session_id}#{seq}"
