"""This module defines the methods of Store that agents call, with the names that the five documents give them.

The collections of the store do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, BinaryIO, Protocol, Unpack, cast

from store.errors import BadValue
from store.model.session import GLOBAL_SCOPE, Session, SessionFields, entry_id

if TYPE_CHECKING:
    import os
    import sqlite3
    from contextlib import AbstractContextManager
    from pathlib import Path

    from store.conversations.entries import Chains
    from store.conversations.records import Records
    from store.conversations.sessions import Sessions
    from store.edits.facts import Facts, LearnResult
    from store.edits.published import PublishedFiles
    from store.edits.summaries import Summaries
    from store.model.entry import Entry, Json, StoredMessage
    from store.model.knowledge import PublishedFile, Summary
    from store.secrets.secrets import Secrets


class AgentFields(SessionFields, total=False):
    "Adds the names that the documents use for some of the fields."

    title: str
    token_count: int
    working_dir: str


_COLUMN_NAMES = {"title": "agent_title", "token_count": "tokens_total", "working_dir": "cwd"}


def _to_session_fields(fields: AgentFields) -> SessionFields:
    return cast("SessionFields", {_COLUMN_NAMES.get(name, name): value for name, value in fields.items()})


class AgentApiStore(Protocol):
    "Describes the part of Store that these methods need."

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


class AgentMethods:
    """Is mixed into Store. The modules that convert messages are imported by the first method that needs them."""

    # ── turns of a Responses API, as Pingu keeps them ─────────────────────────────────────────────

    def ensure_session(self: AgentApiStore, session_id: str, **fields: Unpack[AgentFields]) -> Session:
        """Create a session, or update its fields and its time if it exists. The newest webhook wins."""
        return self.sessions.ensure(session_id, **_to_session_fields(fields))

    def save_turn(self: AgentApiStore, session_id: str, prompt: str | Sequence[Json], response: Json) -> range:
        """Append a prompt and the whole Response to it, which is a mapping, its JSON, or the SDK's object.

        The prompt may also be a list of input items, which is how an agent saves the outputs of its tools. Return the
        keys of the new entries.
        """
        from store.agent_api.convert import parse_prompt, parse_response

        session = self.sessions.get(session_id)
        return self.chains.append(session.key, [*parse_prompt(prompt), *parse_response(response)])

    def add_items(self: AgentApiStore, session_id: str, items: Sequence[Json]) -> range:
        """Append input items that have no Response yet, such as outputs of tools. Return the keys of the entries."""
        from store.agent_api.convert import parse_prompt

        if isinstance(items, str):
            raise BadValue("The items must be a list, not text. Save a prompt with `save_turn`.")
        return self.chains.append(self.sessions.get(session_id).key, parse_prompt(items))

    def load_input_history(self: AgentApiStore, session_id: str, limit: int | None = None) -> list[Json]:
        """Return the conversation as input items, with everything that the API returned.

        A limit is a number of turns, the newest ones, so that no call is separated from its output.
        """
        from store.rebuild import build_responses_input, decode_or_none

        with self.snapshot():
            session = self.sessions.get(session_id)
            first = -1 if limit is None else self.chains.first_of_newest_turns(session.key, limit)
            records = {key: decode_or_none(data) for key, data in self.records.iter_session(session.key, first)}
            return build_responses_input(self.chains.entries(session.key, first), records)

    # ── sessions and messages of blocks, as Rubichan keeps them ───────────────────────────────────

    def create_session(self: AgentApiStore, session_id: str | None = None, **fields: Unpack[AgentFields]) -> Session:
        """Create a session, with a random id if none is given."""
        return self.sessions.create(session_id, **_to_session_fields(fields))

    def get_session(self: AgentApiStore, session_id: str) -> Session:
        return self.sessions.get(session_id)

    def update_session(self: AgentApiStore, session_id: str, **fields: Unpack[AgentFields]) -> Session:
        return self.sessions.update(session_id, **_to_session_fields(fields))

    def delete_session(self: AgentApiStore, session_id: str) -> None:
        """Delete a session and its entries for good. Only the browser and the command line use the trash."""
        self.sessions.purge([self.sessions.get(session_id)], vacuum=False)

    def list_sessions(self: AgentApiStore, limit: int = 50) -> list[Session]:
        """Return the newest sessions, newest first, without the trash."""
        return self.sessions.newest(limit)

    def append_message(
        self: AgentApiStore,
        session_id: str,
        role: str,
        blocks: str | Sequence[Json],
        *,
        author: str = "",
        model: str = "",
    ) -> str:
        """Append a message and return the public id of its entry."""
        from store.agent_api.convert import build_message_entry

        session = self.sessions.get(session_id)
        entry = build_message_entry(role, blocks, author, model)
        with self.transaction():
            (key,) = self.chains.append(session.key, [entry])
            return entry_id(session.id, self.chains.entry_by_key(key)[1].seq)

    def get_messages(self: AgentApiStore, session_id: str, limit: int | None = None) -> list[StoredMessage]:
        """Return the messages in order, or only the newest, each with its content blocks as they were given.

        Text comes back as a text block.
        """
        from store.agent_api.convert import build_stored_messages

        with self.snapshot():
            session = self.sessions.get(session_id)
            first = -1 if limit is None else self.chains.first_of_newest_messages(session.key, limit)
            records = dict(self.records.iter_session(session.key, first))
            entries = self.chains.entries(session.key, first)
        return build_stored_messages(session.id, entries, records)

    def get_entry(self: AgentApiStore, entry_id: str) -> Entry:
        """Return one entry of any kind by its public id, such as `s1#0`. The header of a session has the number -1."""
        return self.chains.entry_by_id(entry_id)

    # ── summaries, secrets, facts and files, as Kiso keeps them ───────────────────────────────────

    def set_summary(self: AgentApiStore, session_id: str, text: str, up_to_turn: int | None = None) -> Summary:
        return self.summaries.set(self.sessions.get(session_id), text, up_to_turn=up_to_turn, origin="library")

    def get_summary(self: AgentApiStore, session_id: str) -> Summary | None:
        """Return the current summary, or None."""
        return self.summaries.current(self.sessions.get(session_id))

    def set_secret(self: AgentApiStore, session_id: str, key: str, value: str) -> None:
        self.secrets.set(self.sessions.get(session_id), key, value)

    def get_secret(self: AgentApiStore, session_id: str, key: str) -> str:
        return self.secrets.get(self.sessions.get(session_id), key)

    def list_secret_names(self: AgentApiStore, session_id: str) -> list[str]:
        """Return the names of the sealed secrets of a session. The vault may be locked."""
        return [secret.key for secret in self.secrets.names(self.sessions.get(session_id))]

    def learn(
        self: AgentApiStore,
        text: str,
        *,
        session_id: str | None = None,
        scope: str = GLOBAL_SCOPE,
        category: str = "",
        knowledge_max_lines: int | None = None,
        consolidate: Callable[[list[str]], str | Iterable[str]] | None = None,
    ) -> LearnResult:
        """Add a fact for each line of a text. Above the limit, `consolidate` is called and returns shorter lines."""
        return self.facts.learn(
            text,
            session=self.sessions.get(session_id) if session_id is not None else None,
            scope=scope,
            category=category,
            max_lines=knowledge_max_lines,
            consolidate=consolidate,
        )

    def publish(
        self: AgentApiStore, session_id: str, path: str | os.PathLike[str], *, allow_leaks: bool = False
    ) -> PublishedFile:
        """Publish a file of the session's folder under a random id, unless there are certain leaks in it."""
        return self.published.publish(self.sessions.get(session_id), path, allow_leaks=allow_leaks)

    def resolve(self: AgentApiStore, public_id: str) -> Path:
        """Return the path of a published file."""
        return self.published.resolve(public_id)

    def open_published(self: AgentApiStore, public_id: str) -> BinaryIO:
        """Open a published file for reading, so that it cannot be replaced before it is read."""
        return self.published.open_file(public_id)
