"""Wuhu: every session a chain of JSON payloads in SQLite, in the order of its links; ids of all sessions are mixed."""

from __future__ import annotations

import hashlib
import shlex
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from store.model.entry import NewEntry, NewRecord
from store.model.session import Session, SessionFields
from store.sources.contract import Batch, Continuing, ForeignFact, ForeignFile, ForeignSecret, Problem, Ref
from store.sources.kit import homes, sqlite
from store.sources.kit.sqlite import Row
from store.sources.wuhu.chain import Chain
from store.sources.wuhu.entries import Conversation, decoded, is_header, text_of
from store.sources.wuhu.write_back import plan
from store.text.validate import column_text, decode, encode

__all__ = ["LABEL", "LIVE_WRITES", "LOCAL_IDS", "NAME", "READER", "detect", "open", "plan", "resume", "roots", "stamp"]

NAME = "wuhu"
LABEL = "Wuhu"
READER = 1
LOCAL_IDS = True
LIVE_WRITES = False

STATE = frozenset(["updatedAt", "executionStatus", "pendingProvider", "pendingModel", "pendingReasoningEffort"])
"""What of a session's row moves while nothing is said."""

_SCAN = "select sessionID, id, parentEntryID, type, createdAt, cast(payload as blob) from session_entries"
_LINKS = "select id, parentEntryID from session_entries where sessionID is ? order by id"
_ENTRY = "select * from session_entries where id = ?"

roots = homes.wuhu


def detect(locator: str) -> bool:
    return sqlite.looks_like(
        locator,
        {"sessions": ("id",), "session_entries": ("id", "sessionID", "parentEntryID", "type", "payload", "createdAt")},
    )


def stamp(locator: str) -> str:
    return sqlite.file_stamp(Path(locator))


@contextmanager
def open(locator: str) -> Iterator[Wuhu]:  # noqa: A001 the shape's own word
    with sqlite.snapshot(Path(locator)) as connection:
        yield Wuhu(connection, Path(locator).parent / "blobs")


def resume(session: Session) -> Continuing:
    """Wuhu has no prompt of its own: a command sends one text to a server, and it cannot be run without the text."""
    command = f'wuhu client prompt --session-id {shlex.quote(session.native_id)} "what you want to say"'
    return Continuing(None, hint=f"While `wuhu server` is running, run `{command}`.")


class Wuhu:
    def __init__(self, connection: sqlite3.Connection, blobs: Path) -> None:
        self._connection = connection
        self._tables = sqlite.tables(connection)
        self._blobs = blobs
        self.problems: list[Problem] = []

    def scan(self) -> Iterator[Ref]:
        """In the order of the file: a row is hashed as it passes, whichever session it belongs to."""
        said: dict[str, Any] = {}
        first: dict[str, int] = {}
        cursor = self._connection.cursor()
        cursor.row_factory = None
        for session_id, number, *told, payload in cursor.execute(_SCAN):
            if session_id not in said:
                said[session_id], first[session_id] = hashlib.blake2b(digest_size=12), number
            said[session_id].update(sqlite.digest(number, *told, payload or b"").encode())
        for row in self._connection.execute("select * from sessions"):
            session = dict(row)
            first.pop(session["id"], None)
            if not isinstance(session["id"], str):
                self.problems.append(Problem(f"sessions:{session['id']!r}", "A session's id must be text."))
                continue
            told = [session[name] for name in session if name not in STATE]
            told += [tuple(mount.values()) for mount in self._mounts(session["id"])]
            if session["id"] in said:
                told.append(said[session["id"]].hexdigest())
            yield Ref(session["id"], sqlite.digest(*told), sqlite.utc(session.get("updatedAt")))
        for session_id, number in first.items():
            self.problems.append(Problem(f"session_entries:{number}", f"There is no session {session_id!r}."))

    def read(self, ref: Ref) -> Iterator[Batch]:
        told = self._told(ref.native_id)
        if told is None:
            return
        shared, forked_at = self._shared_with_parent(told)
        yield self._about(told, forked_at)
        conversation = Conversation(self._blobs)
        for chunk in sqlite.chunked(told.numbers):
            batch = Batch()
            for row in self._rows(chunk):
                entries = conversation.entries(row, batch.problems)
                for entry in entries:
                    entry.inherited = shared > 0
                shared -= 1
                batch.entries += entries
            batch.summary = conversation.summary
            yield batch

    def _told(self, session_id: str) -> _Told | None:
        row = self._connection.execute("select * from sessions where id = ?", (session_id,)).fetchone()
        if row is None:
            return None
        links = self._connection.execute(_LINKS, (session_id,)).fetchall()
        chain = Chain(dict(links), dict(row))
        header = next(self._rows(chain.numbers[:1]), None)
        if header is None or not is_header(header):
            return _Told(row, None, chain.numbers, chain.problems)
        return _Told(row, header, chain.numbers[1:], chain.problems)

    def _rows(self, numbers: Iterable[int]) -> Iterator[Row]:
        return (self._connection.execute(_ENTRY, (number,)).fetchone() for number in numbers)

    def _shared_with_parent(self, child: _Told) -> tuple[int, int]:
        """How many of a fork's first entries are its parent's, and where in the parent the last of them stands.

        Wuhu copies the messages and nothing else; the times in them tell a copy from chance.
        """
        shared, seq, forked_at = 0, -1, -1
        parent = self._told(child.parent)
        if parent is None:
            return shared, forked_at
        conversation = Conversation(self._blobs)
        copies = self._rows(child.numbers)
        for row in self._rows(parent.numbers):
            seq += len(conversation.entries(row, []))
            if row["type"] != "message":
                continue
            copy = next(copies, None)
            if copy is None or copy["payload"] != row["payload"]:
                break
            shared, forked_at = shared + 1, seq
        return shared, forked_at

    # ── the session ───────────────────────────────────────────────────────────────────────────────

    def _about(self, told: _Told, forked_at: int) -> Batch:
        session = told.session
        made = sqlite.utc(session.get("createdAt"))
        name, kind, path = self._environment(session)
        fields: SessionFields = {
            "agent_title": text_of(session.get("customTitle")),
            "provider": text_of(session.get("provider")),
            "model": text_of(session.get("model")),
            "cwd": text_of(session.get("cwd")) or path,
            "environment_name": name,
            "environment_type": kind,
            "environment_path": path,
            "system_prompt": told.system_prompt,
            "created_at": made,
            "updated_at": sqlite.utc(session.get("updatedAt")) or made,
        }
        if told.parent:
            fields["parent_id"] = told.parent
            fields["relation"] = "fork" if forked_at >= 0 else "delegate"
        if forked_at >= 0:
            fields["forked_at"] = forked_at
        return Batch(
            header=NewEntry(kind="header", text=told.system_prompt, record=told.record, created_at=made),
            fields=fields,
            archived=session.get("isArchived") == 1,
            problems=told.problems[:1],
        )

    def _environment(self, session: Mapping[str, Any]) -> tuple[str, str, str]:
        """Name, type and path: columns of the session until March 2026, since then its first mount."""
        if "environmentName" in session:
            names = ("environmentName", "environmentType", "environmentPath")
            name, kind, path = (text_of(session.get(column)) for column in names)
            return name, kind, path
        for mount in self._mounts(session["id"]):
            return text_of(mount.get("name")), text_of(mount.get("runnerID")) or "local", text_of(mount.get("path"))
        return "", "", ""

    def _mounts(self, session_id: str) -> list[dict[str, Any]]:
        """The primary one first."""
        if "sessionID" not in self._tables.get("mounts", ()):
            return []
        rows = self._connection.execute("select * from mounts where sessionID = ? order by rowid", (session_id,))
        return sorted(map(dict, rows), key=lambda mount: mount.get("isPrimary") != 1)

    def facts(self) -> Iterable[ForeignFact]:
        return ()

    def secrets(self) -> Iterable[ForeignSecret]:
        return ()

    def published(self) -> Iterable[ForeignFile]:
        return ()


@dataclass
class _Told:
    """What Wuhu says of one session, its entries by number."""

    row: Row
    header: Row | None
    numbers: list[int]
    problems: list[Problem]

    @cached_property
    def session(self) -> dict[str, Any]:
        return dict(self.row)

    @property
    def parent(self) -> str:
        named = text_of(self.session.get("parentSessionID"))
        return named if named != self.session["id"] else ""

    @cached_property
    def system_prompt(self) -> str:
        said = decoded(self.header["payload"]).get("payload") if self.header else None
        return column_text(text_of(said.get("systemPrompt"))) if isinstance(said, Mapping) else ""

    @property
    def record(self) -> NewRecord:
        """Wuhu says what a session is in two rows; the chain's header holds both."""
        rows = [sqlite.row_record(self.row, "sessions", self.row["id"], without=STATE)]
        if self.header:
            rows.append(sqlite.row_record(self.header, "session_entries", self.header["id"]))
        return NewRecord(encode({row.place: decode(row.data) for row in rows}), "sessions", self.row["id"])
