"""This module reads Rubichan databases."""

from __future__ import annotations

import hashlib
import json
import re
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
)
from store.sources.kit import sqlite
from store.sources.kit.jsonl import as_count
from store.sources.kit.sqlite import RowLike, SqliteReader
from store.text.validate import encode, encode_derived, parse

_MEMORY_COLUMNS = set("id working_dir tag content created_at updated_at".split())

# The pattern finds the last note, because the beginning of the result comes before it and may contain anything.
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
    """Computes a digest of a session's messages. It is the same whether all sessions are scanned or one is read."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def update(self, message_id: object, seq: object, role: object, at: object, content: bytes) -> None:
        self._hash.update(f"{message_id!r}|{seq!r}|{role!r}|{at!r}|".encode() + content)

    def digest(self) -> str:
        return self._hash.hexdigest()


class RubichanReader(SqliteReader):
    """Reads the sessions, messages, snapshots and memories of a Rubichan database."""

    def scan(self) -> Iterator[SessionRef]:
        """Yield the sessions. Messages are hashed in the order of the file, in one pass for all sessions."""
        digests: dict[Any, MessagesDigest] = {}
        columns = ("session_id", "seq", "role", "created_at", "cast(content as blob)")
        for message_id, session, seq, role, at, content in sqlite.scan_columns(self._connection, "messages", *columns):
            if session not in digests:
                digests[session] = MessagesDigest()
            digests[session].update(message_id, seq, role, at, content or b"")
        for row in self._read_session_rows():
            yield self._make_ref(row, self._session_stamp(row, digests.get(row["id"], MessagesDigest())))

    def scan_unstamped(self) -> Iterator[SessionRef]:
        for row in self._read_session_rows():
            yield self._make_ref(row, "")

    def _read_session_rows(self) -> Iterator[RowLike]:
        return sqlite.read_session_rows(self._connection, self.problems, "messages")

    def _make_ref(self, row: RowLike, stamp: str) -> SessionRef:
        return SessionRef(row["id"], stamp, sqlite.normalize_time(row["updated_at"]))

    def _session_stamp(self, row: RowLike, messages: MessagesDigest) -> str:
        return sqlite.digest(messages.digest(), self._snapshot_stamps.get(row["id"]), *_stable_values(row))

    @cached_property
    def _snapshot_stamps(self) -> dict[Any, str]:
        if not self._has_columns("session_snapshots", "session_id", "messages"):
            return {}
        rows = sqlite.scan_columns(self._connection, "session_snapshots", "session_id", "messages")
        return {session: sqlite.digest(messages) for _, session, messages in rows}

    def _has_columns(self, table: str, *columns: str) -> bool:
        return set(columns) <= self._tables.get(table, frozenset())

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        problems: list[Problem] = []
        session = next(sqlite.read_rows(self._connection, "sessions", problems, "where id = ?", ref.native_id), None)
        if session is None:
            return
        shared_count = self._count_shared_messages(session)
        yield self._build_header_batch(session, shared_count, problems)
        digest = MessagesDigest()
        yield from sqlite.build_batches(self._read_messages(session, shared_count, problems, digest), problems)
        if not ref.stamp:
            yield Batch(stamp=self._session_stamp(session, digest))

    def _build_header_batch(self, row: RowLike, shared_count: int, problems: list[Problem]) -> Batch:
        prompt = sqlite.as_text(row["system_prompt"])
        fields: SessionFields = {
            "agent_title": sqlite.as_text(row["title"]),
            "model": sqlite.as_text(row["model"]),
            "cwd": sqlite.as_text(row["working_dir"]),
            "system_prompt": prompt,
        }
        fields |= sqlite.time_fields(row["created_at"], row["updated_at"])
        # Rubichan counts the tokens of a session, but not which of them were read and which were written.
        if "token_count" in row and (count := as_count(row["token_count"])):
            fields["tokens_total"] = count
        if parent := _find_parent_id(row):
            fields |= {"parent_id": parent, "relation": "fork"}
        if shared_count:
            fields["forked_at"] = shared_count - 1
        record = sqlite.record_from_row(row, "sessions", row["id"], exclude=("updated_at",))
        header = NewEntry(kind="header", text=prompt, record=record)
        return Batch(header=header, fields=fields, summary=self._read_summary(row["id"], problems))

    def _read_messages(
        self, session: RowLike, shared_count: int, problems: list[Problem], digest: MessagesDigest
    ) -> Iterator[list[NewEntry]]:
        default_time = sqlite.normalize_time(session["created_at"]) or sqlite.normalize_time(session["updated_at"])
        model = sqlite.as_text(session["model"])
        messages = sqlite.read_rows(self._connection, "messages", problems, _MESSAGES_IN_ORDER, session["id"])
        for position, row in enumerate(messages):
            message_id, content, at = row["id"], sqlite.as_text(row["content"]), row["created_at"]
            digest.update(message_id, row["seq"], row["role"], at, content.encode())
            parts = self._parse_parts(message_id, content, problems)
            has_only_results = (
                type(parts[0]) is ToolResult if len(parts) == 1 else {type(part) for part in parts} == {ToolResult}
            )
            role = "tool" if has_only_results else sqlite.as_text(row["role"])
            entry = NewEntry(
                role=role,
                parts=parts,
                model=model if role == "assistant" else "",
                record=sqlite.record_from_row(row, "messages", message_id),
                inherited=position < shared_count,
                created_at=sqlite.normalize_time(at) or default_time,
            )
            yield [entry]

    def _parse_parts(self, message_id: object, content: str, problems: list[Problem]) -> tuple[Part, ...]:
        try:
            parts = parse_blocks(_decode_blocks(content))
        except BadValue as reason:
            problems.append(Problem(f"messages:{message_id}", f"The content cannot be read: {reason}"))
            return (Opaque("content", content),)
        return tuple([self._inline_blob(part, problems) for part in parts]) if _BLOB_NOTE in content else parts

    def _inline_blob(self, part: Part, problems: list[Problem]) -> Part:
        """Replace the note in a result by the result. Rubichan keeps results over 4 KB in a separate table."""
        if not isinstance(part, ToolResult) or not isinstance(part.output, str):
            return part
        reference = _BLOB_REFERENCE.match(part.output)
        if not reference or not self._has_columns("tool_result_blobs", "id", "content"):
            return part
        blobs = sqlite.read_rows(self._connection, "tool_result_blobs", problems, "where id = ?", reference.group(1))
        output = next((sqlite.as_text(row["content"]) for row in blobs), part.output)
        return replace(part, output=output)

    # ── forks and snapshots ───────────────────────────────────────────────────────────────────────

    def _count_shared_messages(self, row: RowLike) -> int:
        """Return how many of a fork's messages are its parent's. Rubichan copies them with their numbers and times."""
        parent = _find_parent_id(row)
        if not parent:
            return 0
        comparisons = self._connection.execute(_SHARED_MESSAGES, (parent, row["id"]))
        return sum(1 for _ in takewhile(lambda row: row[0], comparisons))

    def _read_summary(self, session_id: str, problems: list[Problem]) -> ForeignSummary | None:
        """Return the summary in the snapshot that resume loads, or None. The kept messages follow it there."""
        if not self._has_columns("session_snapshots", "session_id", "messages"):
            return None
        snapshots = sqlite.read_rows(
            self._connection, "session_snapshots", problems, "where session_id = ?", session_id
        )
        row = next(snapshots, None)
        if row is None:
            return None
        messages = sqlite.read_rows(self._connection, "messages", [], _MESSAGES_IN_ORDER, session_id)
        try:
            snapshot = RubichanSnapshot(row["messages"], messages)
        except BadValue as reason:
            problems.append(Problem(f"session_snapshots:{session_id}", f"The snapshot cannot be read: {reason}"))
            return None
        return ForeignSummary(snapshot.summary, snapshot.count_covered_turns()) if snapshot.summary else None

    # ── facts ─────────────────────────────────────────────────────────────────────────────────────

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
    return [row[name] for name in row if name != "updated_at"]


def _find_parent_id(row: RowLike) -> str:
    parent = sqlite.as_text(row["forked_from"]) if "forked_from" in row else ""
    return parent if parent != row["id"] else ""


def _decode_blocks(content: str) -> str | list[Json]:
    blocks = parse(content)
    return blocks if isinstance(blocks, list | str) else [blocks]


class RubichanSnapshot:
    """Compares a snapshot, which resume loads, with the conversation it was made of.

    The messages at its start that are not in the conversation are the summary. The messages that were kept follow.
    The conversation may have grown since the snapshot was saved.
    """

    def __init__(self, value: object, messages: Iterable[Mapping[str, Any] | RowLike]) -> None:
        self._text = sqlite.as_text(value)
        snapshot_messages = parse(self._text)
        if not isinstance(snapshot_messages, list):
            raise BadValue("The snapshot is not a list of messages.")
        digests = [_digest_and_turn_start(message["role"], message["content"]) for message in messages]
        self._turn_starts = [begins_turn for _, begins_turn in digests]
        self._digests = [digest for digest, _ in digests]
        known = set(self._digests)
        self.summary_messages = list(
            takewhile(lambda message: _digest_message(message) not in known, snapshot_messages)
        )
        self.kept_messages = snapshot_messages[len(self.summary_messages) :]
        self.summary = "\n\n".join(filter(None, map(_message_text, self.summary_messages)))

    def count_covered_turns(self) -> int | None:
        """Return how many turns are complete where the kept messages begin, or None when it is unknown."""
        offset = b"".join(self._digests).rfind(b"".join(map(_digest_message, self.kept_messages)))
        if not self.kept_messages or offset < 0:
            return None
        first_kept = offset // _DIGEST_BYTES
        return max(sum(self._turn_starts[:first_kept]) - (not self._turn_starts[first_kept]), 0) or None

    def replace_summary(self, summary: str) -> str:
        """Return the snapshot with this summary. Kept messages are not parsed, because that may change numbers."""
        position = self._text.index("[") + 1
        for _ in self.summary_messages:
            _, position = _DECODER.raw_decode(self._text, self._skip_separators(position))
        first = (
            self.summary_messages[0]
            if self.summary_messages and isinstance(self.summary_messages[0], Mapping)
            else {"role": "user"}
        )
        head = encode({**first, "content": [{"type": "text", "text": summary}]}).decode()
        return f"[{head}{',' if self.kept_messages else ''}{self._text[self._skip_separators(position) :]}"

    def _skip_separators(self, position: int) -> int:
        match = _SEPARATORS.match(self._text, position)
        return match.end() if match else position


def _digest_and_turn_start(role: object, content: object) -> tuple[bytes, bool]:
    """Return a digest that identifies a message, and whether the message begins a turn."""
    try:
        blocks = _decode_blocks(sqlite.as_text(content))
    except BadValue:
        blocks = []
    begins_turn = NewEntry(role=sqlite.as_text(role), parts=parse_blocks(blocks)).begins_turn()
    return _digest_message({"role": sqlite.as_text(role), "content": blocks}), begins_turn


def _digest_message(message: Json) -> bytes:
    value = [message.get("role"), message.get("content")] if isinstance(message, Mapping) else message
    return hashlib.blake2b(encode_derived(value), digest_size=_DIGEST_BYTES).digest()


def _message_text(message: Json) -> str:
    content = message.get("content") if isinstance(message, Mapping) else None
    return readable_text([block for block in content if isinstance(block, dict)]) if isinstance(content, list) else ""
