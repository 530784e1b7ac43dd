"""This module reads Rubichan databases."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from typing import Any

from store.errors import BadValue
from store.formats.content_blocks import parse_blocks
from store.model.entry import Json, NewEntry, Opaque, Part, ToolResult, readable_text
from store.model.session import SessionFields
from store.sources.contract import (
    Batch,
    ForeignFact,
    ForeignSummary,
    Problem,
    SessionRef,
    SourceReader,
)
from store.sources.kit import sqlite
from store.sources.kit.sqlite import RowLike
from store.text.validate import encode, encode_derived, parse

_MEMORY_COLUMNS = set("id working_dir tag content created_at updated_at".split())

# The last one in the note: before it stands the beginning of the result itself, which may say anything.
_BLOB_NOTE = "[Tool result stored "
_BLOB_REFERENCE = re.compile(r'\[Tool result stored .*\bref_id="([^"]+)"', re.DOTALL)
_DIGEST_BYTES = 16
_SEPARATORS = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()
_MESSAGES_IN_ORDER = "where session_id = ? order by seq, rowid"
_SHARED_MESSAGES = """
    select ours.role is theirs.role and ours.content is theirs.content and ours.created_at is theirs.created_at
    from messages as ours left join messages as theirs on theirs.session_id = ? and theirs.seq = ours.seq
    where ours.session_id = ? order by ours.seq
"""


class MessagesDigest:
    """A running sum of a session's messages, the same whether they are swept or read."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def update(self, number: object, seq: object, role: object, at: object, content: bytes) -> None:
        self._hash.update(f"{number!r}|{seq!r}|{role!r}|{at!r}|".encode() + content)

    def digest(self) -> str:
        return self._hash.hexdigest()


class RubichanReader(SourceReader):
    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection = connection
        self._tables = sqlite.read_tables(connection)

    def scan(self) -> Iterator[SessionRef]:
        """In the order of the file, not of the sessions: a million rows are hashed in one sweep."""
        said: dict[Any, MessagesDigest] = {}
        columns = ("session_id", "seq", "role", "created_at", "cast(content as blob)")
        for number, session, seq, role, at, content in sqlite.scan_columns(self._connection, "messages", *columns):
            if session not in said:
                said[session] = MessagesDigest()
            said[session].update(number, seq, role, at, content or b"")
        for row in self._read_session_rows():
            yield self._make_ref(row, self._session_stamp(row, said.get(row["id"], MessagesDigest())))

    def scan_unstamped(self) -> Iterator[SessionRef]:
        for row in self._read_session_rows():
            yield self._make_ref(row, "")

    def _read_session_rows(self) -> Iterator[RowLike]:
        for row in sqlite.read_rows(self._connection, "sessions", self.problems):
            if isinstance(row["id"], str):
                yield row
            else:
                self.problems.append(Problem("sessions", f"The session {row['id']!r} is not named by text."))
        self.problems += sqlite.find_orphan_rows(self._connection, "messages")

    def _make_ref(self, row: RowLike, stamp: str) -> SessionRef:
        return SessionRef(row["id"], stamp, sqlite.normalize_time(row["updated_at"]))

    def _session_stamp(self, row: RowLike, said: MessagesDigest) -> str:
        return sqlite.digest(said.digest(), self._snapshot_stamps.get(row["id"]), *_stable_values(row))

    @cached_property
    def _snapshot_stamps(self) -> dict[Any, str]:
        if not self._has_columns("session_snapshots", "session_id", "messages"):
            return {}
        swept = sqlite.scan_columns(self._connection, "session_snapshots", "session_id", "messages")
        return {session: sqlite.digest(kept) for _, session, kept in swept}

    def _has_columns(self, table: str, *columns: str) -> bool:
        return set(columns) <= self._tables.get(table, frozenset())

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        met: list[Problem] = []
        session = next(sqlite.read_rows(self._connection, "sessions", met, "where id = ?", ref.native_id), None)
        if session is None:
            return
        shared = self._count_shared_messages(session)
        yield self._build_header_batch(session, shared, met)
        said = MessagesDigest()
        yield from sqlite.build_batches(self._read_messages(session, shared, met, said), met)
        if not ref.stamp:
            yield Batch(stamp=self._session_stamp(session, said))

    def _build_header_batch(self, row: RowLike, shared: int, met: list[Problem]) -> Batch:
        prompt = sqlite.as_text(row["system_prompt"])
        fields: SessionFields = {
            "agent_title": sqlite.as_text(row["title"]),
            "model": sqlite.as_text(row["model"]),
            "cwd": sqlite.as_text(row["working_dir"]),
            "system_prompt": prompt,
        }
        fields |= sqlite.time_fields(row["created_at"], row["updated_at"])
        if parent := _find_parent_id(row):
            fields |= {"parent_id": parent, "relation": "fork"}
        if shared:
            fields["forked_at"] = shared - 1
        record = sqlite.record_from_row(row, "sessions", row["id"], exclude=("updated_at", "token_count"))
        header = NewEntry(kind="header", text=prompt, record=record)
        return Batch(header=header, fields=fields, summary=self._read_summary(row["id"], met))

    def _read_messages(
        self, session: RowLike, shared: int, met: list[Problem], said: MessagesDigest
    ) -> Iterator[list[NewEntry]]:
        made = sqlite.normalize_time(session["created_at"]) or sqlite.normalize_time(session["updated_at"])
        model = sqlite.as_text(session["model"])
        messages = sqlite.read_rows(self._connection, "messages", met, _MESSAGES_IN_ORDER, session["id"])
        for position, row in enumerate(messages):
            number, content, at = row["id"], sqlite.as_text(row["content"]), row["created_at"]
            said.update(number, row["seq"], row["role"], at, content.encode())
            parts = self._parse_parts(number, content, met)
            results = (
                type(parts[0]) is ToolResult if len(parts) == 1 else {type(part) for part in parts} == {ToolResult}
            )
            role = "tool" if results else sqlite.as_text(row["role"])
            entry = NewEntry(
                role=role,
                parts=parts,
                model=model if role == "assistant" else "",
                record=sqlite.record_from_row(row, "messages", number),
                inherited=position < shared,
                created_at=sqlite.normalize_time(at) or made,
            )
            yield [entry]

    def _parse_parts(self, number: object, content: str, met: list[Problem]) -> tuple[Part, ...]:
        try:
            parts = parse_blocks(_decode_blocks(content))
        except BadValue as reason:
            met.append(Problem(f"messages:{number}", f"The content cannot be read: {reason}"))
            return (Opaque("content", content),)
        return tuple([self._inline_blob(part, met) for part in parts]) if _BLOB_NOTE in content else parts

    def _inline_blob(self, part: Part, met: list[Problem]) -> Part:
        """A result over 4 KB stands in a table of its own, with a note in its place."""
        if not isinstance(part, ToolResult) or not isinstance(part.output, str):
            return part
        found = _BLOB_REFERENCE.match(part.output)
        if not found or not self._has_columns("tool_result_blobs", "id", "content"):
            return part
        blobs = sqlite.read_rows(self._connection, "tool_result_blobs", met, "where id = ?", found.group(1))
        whole = next((sqlite.as_text(row["content"]) for row in blobs), part.output)
        return replace(part, output=whole)

    # ── forks and snapshots ───────────────────────────────────────────────────────────────────────

    def _count_shared_messages(self, row: RowLike) -> int:
        """How many of a fork's messages are its parent's: Rubichan copies them, with their numbers and times."""
        parent = _find_parent_id(row)
        if not parent:
            return 0
        same = self._connection.execute(_SHARED_MESSAGES, (parent, row["id"]))
        return sum(1 for _ in takewhile(lambda one: one[0], same))

    def _read_summary(self, session_id: str, met: list[Problem]) -> ForeignSummary | None:
        """A snapshot is what resume loads: a summary of the beginning, then the messages that were kept."""
        if not self._has_columns("session_snapshots", "session_id", "messages"):
            return None
        found = sqlite.read_rows(self._connection, "session_snapshots", met, "where session_id = ?", session_id)
        row = next(found, None)
        if row is None:
            return None
        messages = sqlite.read_rows(self._connection, "messages", [], _MESSAGES_IN_ORDER, session_id)
        try:
            snapshot = RubichanSnapshot(row["messages"], messages)
        except BadValue as reason:
            met.append(Problem(f"session_snapshots:{session_id}", f"The snapshot cannot be read: {reason}"))
            return None
        return ForeignSummary(snapshot.summary, snapshot.count_covered_turns()) if snapshot.summary else None

    # ── the rest ──────────────────────────────────────────────────────────────────────────────────

    def facts(self) -> Iterable[ForeignFact]:
        if not self._has_columns("memories", *_MEMORY_COLUMNS):
            return
        for row in sqlite.read_rows(self._connection, "memories", self.problems):
            yield ForeignFact(
                f"memories:{row['id']}",
                sqlite.as_text(row["content"]),
                scope=f"app:{sqlite.as_text(row['working_dir'])}",
                category=sqlite.as_text(row["tag"]),
                created_at=sqlite.normalize_time(row["created_at"]),
                updated_at=sqlite.normalize_time(row["updated_at"]),
            )


def _stable_values(row: RowLike) -> list[Any]:
    return [row[name] for name in row if name not in ("updated_at", "token_count")]


def _find_parent_id(row: RowLike) -> str:
    parent = sqlite.as_text(row["forked_from"]) if "forked_from" in row else ""
    return parent if parent != row["id"] else ""


def _decode_blocks(content: str) -> str | list[Json]:
    blocks = parse(content)
    return blocks if isinstance(blocks, list | str) else [blocks]


class RubichanSnapshot:
    """What resume loads, beside the conversation it was made of.

    What stands at its head and nowhere in the conversation is the summary; behind it come the messages that were kept.
    More may have been said since it was saved.
    """

    def __init__(self, spelled: object, messages: Iterable[Mapping[str, Any] | RowLike]) -> None:
        self._text = sqlite.as_text(spelled)
        kept = parse(self._text)
        if not isinstance(kept, list):
            raise BadValue("It is not a list of messages.")
        told = [_digest_and_turn_start(message["role"], message["content"]) for message in messages]
        self._turn_starts = [prompt for _, prompt in told]
        self._digests = [mark for mark, _ in told]
        known = set(self._digests)
        self.summary_messages = list(takewhile(lambda message: _digest_message(message) not in known, kept))
        self.kept_messages = kept[len(self.summary_messages) :]
        self.summary = "\n\n".join(filter(None, map(_message_text, self.summary_messages)))

    def count_covered_turns(self) -> int | None:
        """How many turns had ended where the kept messages begin; a turn that goes on there had not."""
        found = b"".join(self._digests).rfind(b"".join(map(_digest_message, self.kept_messages)))
        if not self.kept_messages or found < 0:
            return None
        first = found // _DIGEST_BYTES
        return max(sum(self._turn_starts[:first]) - (not self._turn_starts[first]), 0) or None

    def replace_summary(self, summary: str) -> str:
        """With this summary. What was kept stays as it is spelled: not every number outlives being parsed."""
        at = self._text.index("[") + 1
        for _ in self.summary_messages:
            _, at = _DECODER.raw_decode(self._text, self._skip_separators(at))
        first = (
            self.summary_messages[0]
            if self.summary_messages and isinstance(self.summary_messages[0], Mapping)
            else {"role": "user"}
        )
        head = encode({**first, "content": [{"type": "text", "text": summary}]}).decode()
        return f"[{head}{',' if self.kept_messages else ''}{self._text[self._skip_separators(at) :]}"

    def _skip_separators(self, at: int) -> int:
        found = _SEPARATORS.match(self._text, at)
        return found.end() if found else at


def _digest_and_turn_start(role: object, content: object) -> tuple[bytes, bool]:
    """By what a message is known again, and whether it begins a turn."""
    try:
        blocks = _decode_blocks(sqlite.as_text(content))
    except BadValue:
        blocks = []
    begins = NewEntry(role=sqlite.as_text(role), parts=parse_blocks(blocks)).begins_turn()
    return _digest_message({"role": sqlite.as_text(role), "content": blocks}), begins


def _digest_message(message: Json) -> bytes:
    told = [message.get("role"), message.get("content")] if isinstance(message, Mapping) else message
    return hashlib.blake2b(encode_derived(told), digest_size=_DIGEST_BYTES).digest()


def _message_text(message: Json) -> str:
    content = message.get("content") if isinstance(message, Mapping) else None
    return readable_text([block for block in content if isinstance(block, dict)]) if isinstance(content, list) else ""
