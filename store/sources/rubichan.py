"""Rubichan: messages of content blocks in SQLite, long results set aside in blobs, a snapshot that resume prefers."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

from store.blocks import parts_of_blocks
from store.coding import encode, parse
from store.errors import BadValue
from store.model import Json, NewEntry, Opaque, Part, Session, ToolResult, readable
from store.sources import reading
from store.sources.reading import Row
from store.sources.shape import (
    Batch,
    Continuing,
    ForeignFact,
    ForeignFile,
    ForeignSecret,
    ForeignSummary,
    Problem,
    Ref,
)
from store.sources.writing import RowChange, Rows, Wanted, WantedFact, WritePlan

NAME = "rubichan"
LABEL = "Rubichan"
READER = 1
LOCAL_IDS = True
LIVE_WRITES = False

_SET_ASIDE = re.compile(r'ref_id="([0-9A-Za-z-]{1,64})"')
_MESSAGES = "select * from messages where session_id = ? order by seq"
_SCAN = "select session_id, id, seq, role, created_at, cast(content as blob) from messages"


def roots() -> Iterable[str]:
    yield str(Path.home() / ".config/rubichan/rubichan.db")


def detect(locator: str) -> bool:
    return reading.looks_like(
        locator, {"sessions": ("id", "working_dir"), "messages": ("session_id", "seq", "role", "content")}
    )


def stamp(locator: str) -> str:
    return reading.file_stamp(Path(locator))


@contextmanager
def open(locator: str) -> Iterator[Rubichan]:  # noqa: A001 the shape's own word
    with reading.snapshot(Path(locator)) as connection:
        yield Rubichan(connection)


def resume(session: Session) -> Continuing:
    return Continuing(("rubichan", "--resume", session.native_id), cwd=session.cwd)


class Rubichan:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._tables = reading.tables(connection)
        self.problems: list[Problem] = []

    def scan(self) -> Iterator[Ref]:
        """In the order of the file, not of the sessions: a million rows are hashed in one sweep."""
        said: dict[str, Any] = {}
        cursor = self._connection.cursor()
        cursor.row_factory = None
        for session_id, number, seq, role, at, content in cursor.execute(_SCAN):
            if session_id not in said:
                said[session_id] = hashlib.blake2b(digest_size=12)
            said[session_id].update(repr((number, seq, role, at)).encode("utf-8", "surrogatepass"))
            said[session_id].update(content or b"")
        for row in self._connection.execute("select * from sessions"):
            told = said[row["id"]].hexdigest() if row["id"] in said else ""
            yield Ref(
                row["id"],
                reading.digest(told, *_lasting(row), self._snapshot_text(row["id"])),
                reading.utc(row["updated_at"]),
            )

    def read(self, ref: Ref) -> Iterator[Batch]:
        session = self._connection.execute("select * from sessions where id = ?", (ref.native_id,)).fetchone()
        first = self._about(session)
        shared = self._shared_with_parent(session)
        if shared and first.fields is not None:
            first.fields["forked_at"] = shared - 1
        yield first
        cursor = self._connection.execute(_MESSAGES, (ref.native_id,))
        position = 0
        while rows := cursor.fetchmany(reading.BATCH_ENTRIES):
            batch = Batch()
            for row in rows:
                entry = self._entry(row, session, batch.problems)
                entry.inherited = position < shared
                batch.entries.append(entry)
                position += 1
            yield batch

    def _about(self, row: Row) -> Batch:
        made = reading.utc(row["created_at"])
        record = reading.row_record(row, "sessions", row["id"], without=("updated_at", "token_count"))
        batch = Batch(
            header=NewEntry(kind="header", text=row["system_prompt"], record=record, created_at=made),
            fields={
                "agent_title": row["title"],
                "model": row["model"],
                "cwd": row["working_dir"],
                "system_prompt": row["system_prompt"],
                "created_at": made,
                "updated_at": reading.utc(row["updated_at"]) or made,
            },
            summary=self._summary(row["id"]),
        )
        if (parent := _forked_from(row)) and batch.fields is not None:
            batch.fields["parent_id"] = parent
            batch.fields["relation"] = "fork"
        return batch

    def _entry(self, row: Row, session: Row, problems: list[Problem]) -> NewEntry:
        record = reading.row_record(row, "messages", row["id"])
        at = reading.utc(row["created_at"]) or reading.utc(session["created_at"])
        try:
            blocks = parse(row["content"])
            parts = tuple(map(self._inline, parts_of_blocks(blocks if isinstance(blocks, list | str) else [blocks])))
        except BadValue as reason:
            problems.append(Problem(f"messages:{row['id']}", f"The content cannot be read: {reason}"))
            parts = (Opaque("content", row["content"]),)
        role = row["role"]
        if parts and all(isinstance(part, ToolResult) for part in parts):
            role = "tool"
        model = session["model"] if role == "assistant" else ""
        return NewEntry(role=role, parts=parts, model=model, record=record, created_at=at)

    def _inline(self, part: Part) -> Part:
        """A result over 4 KB stands in a table of its own, with a note in its place."""
        if not isinstance(part, ToolResult) or not isinstance(part.output, str):
            return part
        found = _SET_ASIDE.search(part.output) if "tool_result_blobs" in self._tables else None
        blob = (
            self._connection.execute("select content from tool_result_blobs where id = ?", (found.group(1),)).fetchone()
            if found
            else None
        )
        if blob is None:
            return part
        content = blob[0] if isinstance(blob[0], str) else bytes(blob[0]).decode("utf-8", "replace")
        return ToolResult(part.call_id, content, part.is_error, part.name)

    # ── forks and snapshots ───────────────────────────────────────────────────────────────────────

    def _shared_with_parent(self, row: Row) -> int:
        """How many of a fork's messages are its parent's: Rubichan copies them."""
        parent = _forked_from(row)
        if not parent:
            return 0
        select = "select role, content from messages where session_id = ? order by seq"
        ours, theirs = (self._connection.execute(select, (name,)) for name in (row["id"], parent))
        return sum(1 for _ in takewhile(lambda pair: tuple(pair[0]) == tuple(pair[1]), zip(ours, theirs, strict=False)))

    def _snapshot_text(self, session_id: str) -> str:
        if "session_snapshots" not in self._tables:
            return ""
        row = self._connection.execute(
            "select messages from session_snapshots where session_id = ?", (session_id,)
        ).fetchone()
        return row[0] if row and isinstance(row[0], str) else ""

    def _summary(self, session_id: str) -> ForeignSummary | None:
        """A snapshot is what resume loads: a summary of the beginning, then the messages that were kept."""
        text = self._snapshot_text(session_id)
        if not text:
            return None
        try:
            kept = parse(text)
        except BadValue as reason:
            self.problems.append(Problem(f"session_snapshots:{session_id}", f"The snapshot cannot be read: {reason}"))
            return None
        if not isinstance(kept, list):
            return None
        rows = self._connection.execute(_MESSAGES, (session_id,)).fetchall()
        tail = _common_tail(kept, rows)
        said = "\n\n".join(filter(None, (_said(message) for message in kept[: len(kept) - tail])))
        if not said:
            return None
        cut = len(rows) - tail
        return ForeignSummary(said, _turns(rows[:cut], rows[cut:]) or None)

    # ── the rest ──────────────────────────────────────────────────────────────────────────────────

    def facts(self) -> Iterable[ForeignFact]:
        if "memories" not in self._tables:
            return
        for row in self._connection.execute("select * from memories order by id"):
            yield ForeignFact(
                f"memories:{row['id']}",
                row["content"],
                scope=f"app:{row['working_dir']}",
                category=row["tag"],
                created_at=reading.utc(row["created_at"]),
                updated_at=reading.utc(row["updated_at"]),
            )

    def secrets(self) -> Iterable[ForeignSecret]:
        return ()

    def published(self) -> Iterable[ForeignFile]:
        return ()


def _lasting(row: Row) -> list[Any]:
    return [row[name] for name in row.keys() if name not in ("updated_at", "token_count")]  # noqa: SIM118 sqlite3.Row


def _forked_from(row: Row) -> str:
    return (row["forked_from"] if "forked_from" in row.keys() else "") or ""  # noqa: SIM118 sqlite3.Row


def _common_tail(kept: list[Json], rows: Sequence[Mapping[str, Any] | Row]) -> int:
    """How many messages at the end the snapshot and the conversation share."""
    count = 0
    for message, row in zip(reversed(kept), reversed(rows), strict=False):
        try:
            if not isinstance(message, dict) or message.get("content") != parse(row["content"]):
                break
        except BadValue:
            break
        count += 1
    return count


def _said(message: Json) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    return readable([block for block in content if isinstance(block, dict)]) if isinstance(content, list) else ""


def _turns(rows: list[Row], after: list[Row]) -> int:
    """How many turns ended before this point; one that goes on behind it did not."""
    begun = sum(map(_is_prompt, rows))
    return begun - bool(after and not _is_prompt(after[0]))


def _is_prompt(row: Row) -> bool:
    return row["role"] == "user" and '"tool_result"' not in row["content"]


# ── writing back ──────────────────────────────────────────────────────────────────────────────────


def plan(rows: Rows, wanted: Wanted) -> WritePlan:
    """Title, the summary at the head of the snapshot that resume loads, memories, and the whole session."""
    made = WritePlan()
    found = rows.select("select * from sessions where id = ?", wanted.native_id)
    if not found:
        made.conflicts.append(f"Rubichan does not have the session {wanted.native_id!r} any more.")
        return made
    if wanted.delete:
        _plan_delete(rows, wanted.native_id, made)
        return made
    if wanted.title:
        made.swap_text("sessions", {"id": wanted.native_id}, "title", found[0]["title"], wanted.title)
    if wanted.summary:
        _plan_summary(rows, wanted, made)
    for fact in wanted.facts:
        _plan_memory(rows, fact, made)
    if wanted.secrets:
        made.unplaced.append("Rubichan has no place for secrets; they stay here.")
    return made


def _plan_summary(rows: Rows, wanted: Wanted, made: WritePlan) -> None:
    """Only a snapshot holds one; without it, resume loads the whole conversation."""
    found = (
        rows.select("select messages from session_snapshots where session_id = ?", wanted.native_id)
        if rows.columns("session_snapshots")
        else []
    )
    if not found or wanted.summary is None:
        made.unplaced.append("Rubichan keeps a summary only in a snapshot, and this session has none; it stays here.")
        return
    kept = parse(found[0]["messages"])
    messages = rows.select("select role, content from messages where session_id = ? order by seq", wanted.native_id)
    tail = _common_tail(kept, messages)
    head = kept[: len(kept) - tail]
    if "\n\n".join(filter(None, map(_said, head))) != wanted.summary_seen:
        made.conflicts.append("Rubichan has written a newer snapshot.")
        return
    told = {"role": "user", "content": [{"type": "text", "text": wanted.summary.text}]}
    after = encode([told, *kept[len(kept) - tail :]]).decode()
    key = {"session_id": wanted.native_id}
    made.changes.append(RowChange("session_snapshots", key, {"messages": found[0]["messages"]}, {"messages": after}))


def _plan_memory(rows: Rows, fact: WantedFact, made: WritePlan) -> None:
    number = int(fact.place.removeprefix("memories:"))
    found = rows.select("select * from memories where id = ?", number)
    if found and found[0]["content"] != fact.seen:
        made.conflicts.append(f"Rubichan has changed its memory {number}.")
    elif found and fact.text is None:
        made.delete_rows(rows, "memories", "id = ?", number)
    elif found:
        made.changes.append(RowChange("memories", {"id": number}, {"content": fact.seen}, {"content": fact.text}))


def _plan_delete(rows: Rows, native_id: str, made: WritePlan) -> None:
    """Not while it has forks, which share its blobs; Rubichan itself refuses that too."""
    if "forked_from" in rows.columns("sessions") and rows.select(
        "select id from sessions where forked_from = ?", native_id
    ):
        made.conflicts.append("The session has forks in Rubichan that share its data; delete those first.")
        return
    for table in ("session_snapshots", "tool_result_blobs", "messages"):
        made.delete_rows(rows, table, "session_id = ? order by rowid desc", native_id)
    made.delete_rows(rows, "sessions", "id = ?", native_id)
