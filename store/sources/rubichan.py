"""Rubichan: messages of content blocks in SQLite, long results set aside in blobs, a snapshot that resume prefers."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

from store.errors import BadValue
from store.formats.content_blocks import parts_of_blocks
from store.model.entry import Json, NewEntry, Opaque, Part, ToolResult, readable
from store.model.session import Session, SessionFields
from store.sources.contract import (
    Batch,
    Continuing,
    ForeignFact,
    ForeignFile,
    ForeignSecret,
    ForeignSummary,
    Problem,
    Ref,
)
from store.sources.kit import homes, sqlite
from store.sources.kit.sqlite import Row
from store.sources.kit.write_plan import RowChange, Rows, Wanted, WritePlan
from store.text.validate import encode, encode_derived, parse

NAME = "rubichan"
LABEL = "Rubichan"
READER = 1
LOCAL_IDS = True
LIVE_WRITES = False

_SIGNATURE = {
    "sessions": "id title model working_dir system_prompt created_at updated_at".split(),
    "messages": "id session_id seq role content created_at".split(),
}
_MEMORY = set("id working_dir tag content created_at updated_at".split())

# The last one in the note: before it stands the beginning of the result itself, which may say anything.
_NOTE = "[Tool result stored "
_SET_ASIDE = re.compile(r'\[Tool result stored .*\bref_id="([^"]+)"', re.DOTALL)
_MARK_BYTES = 16
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()
_IN_ORDER = "where session_id = ? order by seq, rowid"
_SHARED = """
    select ours.role is theirs.role and ours.content is theirs.content and ours.created_at is theirs.created_at
    from messages as ours left join messages as theirs on theirs.session_id = ? and theirs.seq = ours.seq
    where ours.session_id = ? order by ours.seq
"""

roots = homes.rubichan


def detect(locator: str) -> bool:
    return sqlite.looks_like(locator, _SIGNATURE)


def stamp(locator: str) -> str:
    return sqlite.file_stamp(Path(locator))


@contextmanager
def open(locator: str) -> Iterator[Rubichan]:  # noqa: A001 the shape's own word
    with sqlite.snapshot(Path(locator)) as connection:
        yield Rubichan(connection)


def resume(session: Session) -> Continuing:
    argv = ("rubichan", "--resume", session.native_id)
    return Continuing(argv, session.cwd, fork=(*argv, "--fork"))


class Said:
    """A running sum of a session's messages, the same whether they are swept or read."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()

    def hear(self, number: object, seq: object, role: object, at: object, content: bytes) -> None:
        self._sum.update(f"{number!r}|{seq!r}|{role!r}|{at!r}|".encode() + content)

    def digest(self) -> str:
        return self._sum.hexdigest()


class Rubichan:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._tables = sqlite.tables(connection)
        self.problems: list[Problem] = []

    def scan(self) -> Iterator[Ref]:
        """In the order of the file, not of the sessions: a million rows are hashed in one sweep."""
        said: dict[Any, Said] = {}
        columns = ("session_id", "seq", "role", "created_at", "cast(content as blob)")
        for number, session, seq, role, at, content in sqlite.sweep(self._connection, "messages", *columns):
            if session not in said:
                said[session] = Said()
            said[session].hear(number, seq, role, at, content or b"")
        for row in self._sessions():
            yield self._ref(row, self._stamp(row, said.get(row["id"], Said())))

    def scan_unstamped(self) -> Iterator[Ref]:
        for row in self._sessions():
            yield self._ref(row, "")

    def _sessions(self) -> Iterator[Row]:
        for row in sqlite.rows(self._connection, "sessions", self.problems):
            if isinstance(row["id"], str):
                yield row
            else:
                self.problems.append(Problem("sessions", f"The session {row['id']!r} is not named by text."))
        self.problems += sqlite.strays(self._connection, "messages")

    def _ref(self, row: Row, stamp: str) -> Ref:
        return Ref(row["id"], stamp, sqlite.utc(row["updated_at"]))

    def _stamp(self, row: Row, said: Said) -> str:
        return sqlite.digest(said.digest(), self._snapshot_stamps.get(row["id"]), *_lasting(row))

    @cached_property
    def _snapshot_stamps(self) -> dict[Any, str]:
        if not self._has("session_snapshots", "session_id", "messages"):
            return {}
        swept = sqlite.sweep(self._connection, "session_snapshots", "session_id", "messages")
        return {session: sqlite.digest(kept) for _, session, kept in swept}

    def _has(self, table: str, *columns: str) -> bool:
        return set(columns) <= self._tables.get(table, frozenset())

    def read(self, ref: Ref) -> Iterator[Batch]:
        met: list[Problem] = []
        session = next(sqlite.rows(self._connection, "sessions", met, "where id = ?", ref.native_id), None)
        if session is None:
            return
        shared = self._shared_with_parent(session)
        yield self._about(session, shared, met)
        said = Said()
        yield from sqlite.batches(self._told(session, shared, met, said), met)
        if not ref.stamp:
            yield Batch(stamp=self._stamp(session, said))

    def _about(self, row: Row, shared: int, met: list[Problem]) -> Batch:
        prompt = sqlite.text(row["system_prompt"])
        fields: SessionFields = {
            "agent_title": sqlite.text(row["title"]),
            "model": sqlite.text(row["model"]),
            "cwd": sqlite.text(row["working_dir"]),
            "system_prompt": prompt,
        }
        fields |= sqlite.lifetime(row["created_at"], row["updated_at"])
        if parent := _forked_from(row):
            fields |= {"parent_id": parent, "relation": "fork"}
        if shared:
            fields["forked_at"] = shared - 1
        record = sqlite.row_record(row, "sessions", row["id"], without=("updated_at", "token_count"))
        header = NewEntry(kind="header", text=prompt, record=record)
        return Batch(header=header, fields=fields, summary=self._summary(row["id"], met))

    def _told(self, session: Row, shared: int, met: list[Problem], said: Said) -> Iterator[list[NewEntry]]:
        made = sqlite.utc(session["created_at"]) or sqlite.utc(session["updated_at"])
        model = sqlite.text(session["model"])
        messages = sqlite.rows(self._connection, "messages", met, _IN_ORDER, session["id"])
        for position, row in enumerate(messages):
            number, content, at = row["id"], sqlite.text(row["content"]), row["created_at"]
            said.hear(number, row["seq"], row["role"], at, content.encode())
            parts = self._parts(number, content, met)
            results = (
                type(parts[0]) is ToolResult if len(parts) == 1 else {type(part) for part in parts} == {ToolResult}
            )
            role = "tool" if results else sqlite.text(row["role"])
            entry = NewEntry(
                role=role,
                parts=parts,
                model=model if role == "assistant" else "",
                record=sqlite.row_record(row, "messages", number),
                inherited=position < shared,
                created_at=sqlite.utc(at) or made,
            )
            yield [entry]

    def _parts(self, number: object, content: str, met: list[Problem]) -> tuple[Part, ...]:
        try:
            parts = parts_of_blocks(_blocks(content))
        except BadValue as reason:
            met.append(Problem(f"messages:{number}", f"The content cannot be read: {reason}"))
            return (Opaque("content", content),)
        return tuple([self._inline(part, met) for part in parts]) if _NOTE in content else parts

    def _inline(self, part: Part, met: list[Problem]) -> Part:
        """A result over 4 KB stands in a table of its own, with a note in its place."""
        if not isinstance(part, ToolResult) or not isinstance(part.output, str):
            return part
        found = _SET_ASIDE.match(part.output)
        if not found or not self._has("tool_result_blobs", "id", "content"):
            return part
        blobs = sqlite.rows(self._connection, "tool_result_blobs", met, "where id = ?", found.group(1))
        whole = next((sqlite.text(row["content"]) for row in blobs), part.output)
        return replace(part, output=whole)

    # ── forks and snapshots ───────────────────────────────────────────────────────────────────────

    def _shared_with_parent(self, row: Row) -> int:
        """How many of a fork's messages are its parent's: Rubichan copies them, with their numbers and times."""
        parent = _forked_from(row)
        if not parent:
            return 0
        same = self._connection.execute(_SHARED, (parent, row["id"]))
        return sum(1 for _ in takewhile(lambda one: one[0], same))

    def _summary(self, session_id: str, met: list[Problem]) -> ForeignSummary | None:
        """A snapshot is what resume loads: a summary of the beginning, then the messages that were kept."""
        if not self._has("session_snapshots", "session_id", "messages"):
            return None
        found = sqlite.rows(self._connection, "session_snapshots", met, "where session_id = ?", session_id)
        row = next(found, None)
        if row is None:
            return None
        messages = sqlite.rows(self._connection, "messages", [], _IN_ORDER, session_id)
        try:
            snapshot = _Snapshot(row["messages"], messages)
        except BadValue as reason:
            met.append(Problem(f"session_snapshots:{session_id}", f"The snapshot cannot be read: {reason}"))
            return None
        return ForeignSummary(snapshot.summary, snapshot.turns_covered()) if snapshot.summary else None

    # ── the rest ──────────────────────────────────────────────────────────────────────────────────

    def facts(self) -> Iterable[ForeignFact]:
        if not self._has("memories", *_MEMORY):
            return
        for row in sqlite.rows(self._connection, "memories", self.problems):
            yield ForeignFact(
                f"memories:{row['id']}",
                sqlite.text(row["content"]),
                scope=f"app:{sqlite.text(row['working_dir'])}",
                category=sqlite.text(row["tag"]),
                created_at=sqlite.utc(row["created_at"]),
                updated_at=sqlite.utc(row["updated_at"]),
            )

    def secrets(self) -> Iterable[ForeignSecret]:
        return ()

    def published(self) -> Iterable[ForeignFile]:
        return ()


def _lasting(row: Row) -> list[Any]:
    return [row[name] for name in row if name not in ("updated_at", "token_count")]


def _forked_from(row: Row) -> str:
    parent = sqlite.text(row["forked_from"]) if "forked_from" in row else ""
    return parent if parent != row["id"] else ""


def _blocks(content: str) -> str | list[Json]:
    blocks = parse(content)
    return blocks if isinstance(blocks, list | str) else [blocks]


class _Snapshot:
    """What resume loads, beside the conversation it was made of.

    What stands at its head and nowhere in the conversation is the summary; behind it come the messages that were kept.
    More may have been said since it was saved.
    """

    def __init__(self, spelled: object, messages: Iterable[Mapping[str, Any] | Row]) -> None:
        self._spelled = sqlite.text(spelled)
        kept = parse(self._spelled)
        if not isinstance(kept, list):
            raise BadValue("It is not a list of messages.")
        told = [_spoken(message["role"], message["content"]) for message in messages]
        self._prompts = [prompt for _, prompt in told]
        self._marks = [mark for mark, _ in told]
        known = set(self._marks)
        self.head = list(takewhile(lambda message: _mark(message) not in known, kept))
        self.tail = kept[len(self.head) :]
        self.summary = "\n\n".join(filter(None, map(_said, self.head)))

    def turns_covered(self) -> int | None:
        """How many turns had ended where the kept messages begin; a turn that goes on there had not."""
        found = b"".join(self._marks).rfind(b"".join(map(_mark, self.tail)))
        if not self.tail or found < 0:
            return None
        first = found // _MARK_BYTES
        return max(sum(self._prompts[:first]) - (not self._prompts[first]), 0) or None

    def headed(self, summary: str) -> str:
        """With this summary. What was kept stays as it is spelled: not every number outlives being parsed."""
        at = self._spelled.index("[") + 1
        for _ in self.head:
            _, at = _DECODER.raw_decode(self._spelled, self._next(at))
        first = self.head[0] if self.head and isinstance(self.head[0], Mapping) else {"role": "user"}
        head = encode({**first, "content": [{"type": "text", "text": summary}]}).decode()
        return f"[{head}{',' if self.tail else ''}{self._spelled[self._next(at) :]}"

    def _next(self, at: int) -> int:
        found = _BETWEEN.match(self._spelled, at)
        return found.end() if found else at


def _spoken(role: object, content: object) -> tuple[bytes, bool]:
    """By what a message is known again, and whether it begins a turn."""
    try:
        blocks = _blocks(sqlite.text(content))
    except BadValue:
        blocks = []
    begins = NewEntry(role=sqlite.text(role), parts=parts_of_blocks(blocks)).begins_turn()
    return _mark({"role": sqlite.text(role), "content": blocks}), begins


def _mark(message: Json) -> bytes:
    told = [message.get("role"), message.get("content")] if isinstance(message, Mapping) else message
    return hashlib.blake2b(encode_derived(told), digest_size=_MARK_BYTES).digest()


def _said(message: Json) -> str:
    content = message.get("content") if isinstance(message, Mapping) else None
    return readable([block for block in content if isinstance(block, dict)]) if isinstance(content, list) else ""


# ── writing back ──────────────────────────────────────────────────────────────────────────────────


def plan(rows: Rows, wanted: Wanted) -> WritePlan:
    """Title, the summary at the head of the snapshot that resume loads, memories, and the whole session."""
    made = WritePlan()
    session = made.find_session(rows, LABEL, "id", wanted)
    if session is None:
        return made
    if wanted.delete:
        _plan_delete(rows, session, made)
        return made
    if wanted.title:
        made.swap_title("sessions", {"id": wanted.native_id}, "title", session["title"], wanted.title)
    if wanted.summary:
        _plan_summary(rows, session, wanted.summary, wanted.summary_seen, made)
    for fact in wanted.facts:
        made.swap_fact(rows, fact)
    if wanted.secrets:
        made.unplaced.append("Rubichan has no place for secrets; they stay here.")
    return made


def _plan_summary(rows: Rows, session: Mapping[str, Any], wanted: ForeignSummary, seen: str, made: WritePlan) -> None:
    """Only a snapshot holds one; without it, resume loads the whole conversation."""
    found = rows.select("session_snapshots", "session_id = ?", session["id"])
    if not found:
        made.unplaced.append(
            "Rubichan keeps a summary only in a snapshot, and this session has none; yours stays here."
        )
        return
    messages = sorted(rows.select("messages", "session_id = ?", session["id"]), key=lambda row: (row["seq"], row["id"]))
    try:
        snapshot = _Snapshot(found[0]["messages"], messages)
    except BadValue:
        made.unplaced.append("Rubichan's snapshot of this session cannot be read; your summary stays here.")
        return
    if snapshot.summary not in (seen, wanted.text):
        made.conflicts.append("Rubichan has written a newer snapshot since it was read; sync first.")
    elif not wanted.text:
        made.delete_row(rows, "session_snapshots", found[0])
    else:
        after = snapshot.headed(wanted.text)
        if snapshot.summary != wanted.text:
            change = {"messages": found[0]["messages"]}, {"messages": after}
            made.changes.append(RowChange("session_snapshots", {"session_id": session["id"]}, *change))
        told = _Snapshot(after, messages)
        made.summary = ForeignSummary(told.summary, told.turns_covered())


def _plan_delete(rows: Rows, session: Mapping[str, Any], made: WritePlan) -> None:
    """Not while it has forks, which share its blobs; Rubichan itself refuses that too."""
    if "forked_from" in session and rows.select("sessions", "forked_from = ?", session["id"]):
        made.conflicts.append("The session has forks in Rubichan that share its data; delete those first.")
        return
    made.delete_row(rows, "sessions", session)
