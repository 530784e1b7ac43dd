"""The words an agent speaks to the store, as the five documents spell them, over the shelves that do the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Unpack, cast

from store.blocks import block_of_part, part_of_item, parts_of_blocks, response_tokens
from store.coding import decode, encode, shallow
from store.errors import BadValue
from store.model import (
    GLOBAL,
    Json,
    NewEntry,
    NewRecord,
    Published,
    Session,
    SessionFields,
    StoredMessage,
    entry_id,
)
from store.rebuild import lenient, responses_input

if TYPE_CHECKING:
    import os
    import sqlite3
    from contextlib import AbstractContextManager
    from pathlib import Path

    from store.chains import Chains
    from store.facts import Facts, Learned
    from store.model import Summary
    from store.published import PublishedFiles
    from store.records import Records
    from store.secrets import Secrets
    from store.sessions import Sessions
    from store.summaries import Summaries


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
    """Mixed into Store."""

    # ── the first document: turns of a Responses API ──────────────────────────────────────────────

    def ensure_session(self: Shelves, session_id: str, **fields: Unpack[AgentFields]) -> Session:
        """Made if new, touched if not; the newest webhook wins."""
        return self.sessions.ensure(session_id, **_columns(fields))

    def save_turn(self: Shelves, session_id: str, prompt: str | Sequence[Json], response: Json) -> range:
        """What was said and the whole Response to it: a mapping, its JSON, or the SDK's object.

        The prompt may also be the list of input items, which is how the outputs of tools are handed over.
        """
        session = self.sessions.get(session_id)
        return self.chains.append(session.key, [*prompt_entries(prompt), *response_entries(response)])

    def load_input_history(self: Shelves, session_id: str) -> list[Json]:
        """The conversation as input items, nothing lost of what the API gave."""
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
        session = self.sessions.get(session_id)
        data = encode({"role": role, "content": blocks})
        # As they will be read again: what is taken out of the index one day must be what went in.
        kept = blocks if isinstance(blocks, str) else decode(data)["content"]
        entry = NewEntry(role=role, parts=parts_of_blocks(kept), author=author, model=model, record=NewRecord(data))
        with self.transaction():
            (key,) = self.chains.append(session.key, [entry])
            return entry_id(session.id, self.chains.entry_by_key(key)[1].seq)

    def get_messages(self: Shelves, session_id: str) -> list[StoredMessage]:
        """In order; content as the blocks that were given."""
        with self.snapshot():
            session = self.sessions.get(session_id)
            records = dict(self.records.of_session(session.key))
            entries = self.chains.entries(session.key)
        return [
            StoredMessage(
                entry_id(session.id, entry.seq),
                session.id,
                entry.seq,
                entry.role,
                _given_blocks(records.get(entry.record or 0)) or [block_of_part(part) for part in entry.parts],
                entry.created_at,
            )
            for entry in entries
            if entry.kind == "message"
        ]

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


# ── Responses into entries ────────────────────────────────────────────────────────────────────────


def prompt_entries(prompt: str | Sequence[Json]) -> list[NewEntry]:
    if isinstance(prompt, str):
        items: Sequence[Json] = [{"role": "user", "content": prompt}]
    else:
        items = prompt
    record = NewRecord(encode({"input": list(items)}))
    items = decode(record.data)["input"]
    return [NewEntry(role=_role_of_item(item, "user"), parts=part_of_item(item), record=record) for item in items]


def response_entries(response: Json) -> list[NewEntry]:
    """An entry for each output item, all of the one record that is the Response as it came."""
    data, value = _response_json(response)
    record = NewRecord(data)
    output = value.get("output")
    items = output if isinstance(output, list) else []
    model = value.get("model") if isinstance(value.get("model"), str) else ""
    key = str(value.get("id") or "")
    entries = [
        NewEntry(
            role=_role_of_item(item, "assistant"),
            parts=part_of_item(item),
            model=model or "",
            message_key=key,
            record=record,
        )
        for item in items
    ] or [NewEntry(role="assistant", model=model or "", message_key=key, record=record)]
    entries[-1].tokens = response_tokens(value)
    return entries


def _role_of_item(item: Json, speaker: str) -> str:
    if not isinstance(item, Mapping):
        return speaker
    kind = str(item.get("type") or "message")
    if kind == "message":
        return str(item.get("role") or speaker)
    return "tool" if kind.endswith("_output") else "assistant"


def _response_json(response: Json) -> tuple[bytes, Mapping[str, Json]]:
    if isinstance(response, bytes | str):
        value = decode(response)
        data = response if isinstance(response, bytes) else _kept_text(response, value)
        shallow(data)
    else:
        dump: Any = getattr(response, "model_dump", None)
        value = dump(mode="json", exclude_unset=True) if dump else response
        data = encode(value)
        value = decode(data)
    if not isinstance(value, Mapping):
        raise BadValue("A response must be a JSON object.")
    return data, value


def _kept_text(text: str, value: Json) -> bytes:
    """As it came; or spelled anew where it holds half characters, which cannot be written as they are."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return encode(value)


def _given_blocks(data: bytes | None) -> list[Json] | None:
    value = lenient(data) if data is not None else None
    content = value.get("content") if isinstance(value, Mapping) else None
    return [content] if isinstance(content, str) else content if isinstance(content, list) else None
