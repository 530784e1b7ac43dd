"""The words an agent speaks to the store, as the five documents spell them, over the shelves that do the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, Unpack, cast

from store.model.session import GLOBAL, Session, SessionFields, entry_id

if TYPE_CHECKING:
    import os
    import sqlite3
    from contextlib import AbstractContextManager
    from pathlib import Path

    from store.conversations.entries import Chains
    from store.conversations.records import Records
    from store.conversations.sessions import Sessions
    from store.edits.facts import Facts, Learned
    from store.edits.published import PublishedFiles
    from store.edits.summaries import Summaries
    from store.model.entry import Json, StoredMessage
    from store.model.knowledge import Published, Summary
    from store.secrets.secrets import Secrets


class AgentFields(SessionFields, total=False):
    "The same with the documents' own names for some of it."

    title: str
    token_count: int
    working_dir: str


_IN_OUR_COLUMNS = {"title": "agent_title", "token_count": "tokens_total", "working_dir": "cwd"}


def _columns(fields: AgentFields) -> SessionFields:
    return cast("SessionFields", {_IN_OUR_COLUMNS.get(name, name): value for name, value in fields.items()})


class Shelves(Protocol):
    "The part of Store that the words need."

    def transaction(self) -> AbstractContextManager[sqlite3.Connection]: ...
    def snapshot(self) -> AbstractContextManager[None]: ...
    @property
    def sessions(self) -> Sessions: ...
    @property
    def chains(self) -> Chains: ...
    @property
    def records(self) -> Records: ...
    @property
    def summaries(self) -> Summaries: ...
    @property
    def facts(self) -> Facts: ...
    @property
    def secrets(self) -> Secrets: ...
    @property
    def published(self) -> PublishedFiles: ...


class Words:
    """Mixed into Store. What makes entries of what was said, and the other way round, comes with the first of them."""

    # ── the first document: turns of a Responses API ──────────────────────────────────────────────

    def ensure_session(self: Shelves, session_id: str, **fields: Unpack[AgentFields]) -> Session:
        """Made if new, touched if not; the newest webhook wins."""
        return self.sessions.ensure(session_id, **_columns(fields))

    def save_turn(self: Shelves, session_id: str, prompt: str | Sequence[Json], response: Json) -> range:
        """What was said and the whole Response to it: a mapping, its JSON, or the SDK's object.

        The prompt may also be the list of input items, which is how the outputs of tools are handed over.
        """
        from store.agent_api.convert import prompt_entries, response_entries

        session = self.sessions.get(session_id)
        return self.chains.append(session.key, [*prompt_entries(prompt), *response_entries(response)])

    def load_input_history(self: Shelves, session_id: str) -> list[Json]:
        """The conversation as input items, nothing lost of what the API gave."""
        from store.rebuild import lenient, responses_input

        with self.snapshot():
            session = self.sessions.get(session_id)
            records = {key: lenient(data) for key, data in self.records.of_session(session.key)}
            return responses_input(self.chains.entries(session.key), records)

    # ── the fourth document: sessions and messages of blocks ──────────────────────────────────────

    def create_session(self: Shelves, session_id: str | None = None, **fields: Unpack[AgentFields]) -> Session:
        return self.sessions.create(session_id, **_columns(fields))

    def get_session(self: Shelves, session_id: str) -> Session:
        return self.sessions.get(session_id)

    def update_session(self: Shelves, session_id: str, **fields: Unpack[AgentFields]) -> Session:
        return self.sessions.update(session_id, **_columns(fields))

    def delete_session(self: Shelves, session_id: str) -> None:
        """At once and for good, entries with it. The trash is the browser's and the command line's."""
        self.sessions.purge([self.sessions.get(session_id)], rewrite=False)

    def list_sessions(self: Shelves, limit: int = 50) -> list[Session]:
        return self.sessions.newest(limit)

    def append_message(
        self: Shelves,
        session_id: str,
        role: str,
        blocks: str | Sequence[Json],
        *,
        author: str = "",
        model: str = "",
    ) -> str:
        """Gives the entry's public id."""
        from store.agent_api.convert import message_entry

        session = self.sessions.get(session_id)
        entry = message_entry(role, blocks, author, model)
        with self.transaction():
            (key,) = self.chains.append(session.key, [entry])
            return entry_id(session.id, self.chains.entry_by_key(key)[1].seq)

    def get_messages(self: Shelves, session_id: str) -> list[StoredMessage]:
        """In order; content as the blocks that were given."""
        from store.agent_api.convert import stored_messages

        with self.snapshot():
            session = self.sessions.get(session_id)
            records = dict(self.records.of_session(session.key))
            entries = self.chains.entries(session.key)
        return stored_messages(session.id, entries, records)

    # ── the fifth document: what outlives a conversation ──────────────────────────────────────────

    def set_summary(self: Shelves, session_id: str, text: str, up_to_turn: int | None = None) -> Summary:
        return self.summaries.set(self.sessions.get(session_id), text, up_to_turn=up_to_turn, origin="library")

    def set_secret(self: Shelves, session_id: str, key: str, value: str) -> None:
        self.secrets.set(self.sessions.get(session_id), key, value)

    def get_secret(self: Shelves, session_id: str, key: str) -> str:
        return self.secrets.get(self.sessions.get(session_id), key)

    def learn(
        self: Shelves,
        text: str,
        *,
        session_id: str | None = None,
        scope: str = GLOBAL,
        category: str = "",
        knowledge_max_lines: int | None = None,
        consolidate: Callable[[list[str]], str | Iterable[str]] | None = None,
    ) -> Learned:
        """Adds to what all agents know, a fact a line; over the limit, `consolidate` is asked to say it shorter."""
        return self.facts.learn(
            text,
            session=self.sessions.get(session_id) if session_id is not None else None,
            scope=scope,
            category=category,
            max_lines=knowledge_max_lines,
            consolidate=consolidate,
        )

    def publish(self: Shelves, session_id: str, path: str | os.PathLike[str]) -> Published:
        return self.published.publish(self.sessions.get(session_id), path)

    def resolve(self: Shelves, public_id: str) -> Path:
        return self.published.resolve(public_id)
