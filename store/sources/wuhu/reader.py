"""This module reads Wuhu databases."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from store.model.entry import NewEntry, NewRecord
from store.model.session import SessionFields
from store.sources.contract import (
    Batch,
    Problem,
    SessionRef,
    SourceReader,
)
from store.sources.kit import sqlite
from store.sources.kit.sqlite import RowLike
from store.sources.wuhu.chain import WuhuChain
from store.sources.wuhu.entries import WuhuEntryReader, as_str, decode_payload, is_header
from store.text.validate import decode, encode, replace_surrogates

CHANGING_COLUMNS = frozenset(
    ["updatedAt", "executionStatus", "pendingProvider", "pendingModel", "pendingReasoningEffort"]
)
"""What of a session's row moves while nothing is said."""

_SCAN_SQL = "select sessionID, id, parentEntryID, type, createdAt, cast(payload as blob) from session_entries"
_LINKS_SQL = "select id, parentEntryID from session_entries where sessionID is ? order by id"
_ENTRY_SQL = "select * from session_entries where id = ?"


class WuhuReader(SourceReader):
    def __init__(self, connection: sqlite3.Connection, blobs: Path) -> None:
        super().__init__()
        self._connection = connection
        self._tables = sqlite.read_tables(connection)
        self._blobs = blobs

    def scan(self) -> Iterator[SessionRef]:
        """In the order of the file: a row is hashed as it passes, whichever session it belongs to."""
        said: dict[str, Any] = {}
        first: dict[str, int] = {}
        cursor = self._connection.cursor()
        cursor.row_factory = None
        for session_id, number, *told, payload in cursor.execute(_SCAN_SQL):
            if session_id not in said:
                said[session_id], first[session_id] = hashlib.blake2b(digest_size=12), number
            said[session_id].update(sqlite.digest(number, *told, payload or b"").encode())
        for row in self._connection.execute("select * from sessions"):
            session = dict(row)
            first.pop(session["id"], None)
            if not isinstance(session["id"], str):
                self.problems.append(Problem(f"sessions:{session['id']!r}", "A session's id must be text."))
                continue
            told = [session[name] for name in session if name not in CHANGING_COLUMNS]
            told += [tuple(mount.values()) for mount in self._read_mounts(session["id"])]
            if session["id"] in said:
                told.append(said[session["id"]].hexdigest())
            yield SessionRef(session["id"], sqlite.digest(*told), sqlite.normalize_time(session.get("updatedAt")))
        for session_id, number in first.items():
            self.problems.append(Problem(f"session_entries:{number}", f"There is no session {session_id!r}."))

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        told = self._load_session(ref.native_id)
        if told is None:
            return
        shared, forked_at = self._find_fork_point(told)
        yield self._build_header_batch(told, forked_at)
        conversation = WuhuEntryReader(self._blobs)
        for chunk in sqlite.chunked(told.entry_ids):
            batch = Batch()
            for row in self._read_rows(chunk):
                entries = conversation.read_entries(row, batch.problems)
                for entry in entries:
                    entry.inherited = shared > 0
                shared -= 1
                batch.entries += entries
            batch.summary = conversation.summary
            yield batch

    def _load_session(self, session_id: str) -> _WuhuSession | None:
        row = self._connection.execute("select * from sessions where id = ?", (session_id,)).fetchone()
        if row is None:
            return None
        links = self._connection.execute(_LINKS_SQL, (session_id,)).fetchall()
        chain = WuhuChain(dict(links), dict(row))
        header = next(self._read_rows(chain.entry_ids[:1]), None)
        if header is None or not is_header(header):
            return _WuhuSession(row, None, chain.entry_ids, chain.problems)
        return _WuhuSession(row, header, chain.entry_ids[1:], chain.problems)

    def _read_rows(self, numbers: Iterable[int]) -> Iterator[RowLike]:
        return (self._connection.execute(_ENTRY_SQL, (number,)).fetchone() for number in numbers)

    def _find_fork_point(self, child: _WuhuSession) -> tuple[int, int]:
        """How many of a fork's first entries are its parent's, and where in the parent the last of them stands.

        Wuhu copies the messages and nothing else; the times in them tell a copy from chance.
        """
        shared, seq, forked_at = 0, -1, -1
        parent = self._load_session(child.parent_id)
        if parent is None:
            return shared, forked_at
        conversation = WuhuEntryReader(self._blobs)
        copies = self._read_rows(child.entry_ids)
        for row in self._read_rows(parent.entry_ids):
            seq += len(conversation.read_entries(row, []))
            if row["type"] != "message":
                continue
            copy = next(copies, None)
            if copy is None or copy["payload"] != row["payload"]:
                break
            shared, forked_at = shared + 1, seq
        return shared, forked_at

    # ── the session ───────────────────────────────────────────────────────────────────────────────

    def _build_header_batch(self, told: _WuhuSession, forked_at: int) -> Batch:
        session = told.session
        made = sqlite.normalize_time(session.get("createdAt"))
        name, kind, path = self._find_environment(session)
        fields: SessionFields = {
            "agent_title": as_str(session.get("customTitle")),
            "provider": as_str(session.get("provider")),
            "model": as_str(session.get("model")),
            "cwd": as_str(session.get("cwd")) or path,
            "environment_name": name,
            "environment_type": kind,
            "environment_path": path,
            "system_prompt": told.system_prompt,
            "created_at": made,
            "updated_at": sqlite.normalize_time(session.get("updatedAt")) or made,
        }
        if told.parent_id:
            fields["parent_id"] = told.parent_id
            fields["relation"] = "fork" if forked_at >= 0 else "delegate"
        if forked_at >= 0:
            fields["forked_at"] = forked_at
        return Batch(
            header=NewEntry(kind="header", text=told.system_prompt, record=told.record, created_at=made),
            fields=fields,
            archived=session.get("isArchived") == 1,
            problems=told.problems[:1],
        )

    def _find_environment(self, session: Mapping[str, Any]) -> tuple[str, str, str]:
        """Name, type and path: columns of the session until March 2026, since then its first mount."""
        if "environmentName" in session:
            names = ("environmentName", "environmentType", "environmentPath")
            name, kind, path = (as_str(session.get(column)) for column in names)
            return name, kind, path
        for mount in self._read_mounts(session["id"]):
            return as_str(mount.get("name")), as_str(mount.get("runnerID")) or "local", as_str(mount.get("path"))
        return "", "", ""

    def _read_mounts(self, session_id: str) -> list[dict[str, Any]]:
        """The primary one first."""
        if "sessionID" not in self._tables.get("mounts", ()):
            return []
        rows = self._connection.execute("select * from mounts where sessionID = ? order by rowid", (session_id,))
        return sorted(map(dict, rows), key=lambda mount: mount.get("isPrimary") != 1)


@dataclass
class _WuhuSession:
    """What Wuhu says of one session, its entries by number."""

    row: RowLike
    header: RowLike | None
    entry_ids: list[int]
    problems: list[Problem]

    @cached_property
    def session(self) -> dict[str, Any]:
        return dict(self.row)

    @property
    def parent_id(self) -> str:
        named = as_str(self.session.get("parentSessionID"))
        return named if named != self.session["id"] else ""

    @cached_property
    def system_prompt(self) -> str:
        said = decode_payload(self.header["payload"]).get("payload") if self.header else None
        return replace_surrogates(as_str(said.get("systemPrompt"))) if isinstance(said, Mapping) else ""

    @property
    def record(self) -> NewRecord:
        """Wuhu says what a session is in two rows; the chain's header holds both."""
        rows = [sqlite.record_from_row(self.row, "sessions", self.row["id"], exclude=CHANGING_COLUMNS)]
        if self.header:
            rows.append(sqlite.record_from_row(self.header, "session_entries", self.header["id"]))
        return NewRecord(encode({row.place: decode(row.data) for row in rows}), "sessions", self.row["id"])
