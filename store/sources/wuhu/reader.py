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
)
from store.sources.kit import sqlite
from store.sources.kit.sqlite import RowLike, SqliteReader
from store.sources.wuhu.chain import WuhuChain
from store.sources.wuhu.entries import WuhuEntryReader, as_str, decode_payload, is_header
from store.text.validate import decode, encode, replace_surrogates

CHANGING_COLUMNS = frozenset(
    ["updatedAt", "executionStatus", "pendingProvider", "pendingModel", "pendingReasoningEffort"]
)
"""The columns of a session that change without a new message."""

_SCAN_SQL = "select sessionID, id, parentEntryID, type, createdAt, cast(payload as blob) from session_entries"
_LINKS_SQL = "select id, parentEntryID from session_entries where sessionID is ? order by id"
_ENTRY_SQL = "select * from session_entries where id = ?"


class WuhuReader(SqliteReader):
    """Reads the sessions of a Wuhu database."""

    def __init__(self, connection: sqlite3.Connection, blobs: Path) -> None:
        super().__init__(connection)
        self._blobs = blobs

    def scan(self) -> Iterator[SessionRef]:
        """Yield the sessions. Entries are hashed in the order of the file, each into the digest of its session."""
        digests: dict[str, Any] = {}
        first_entries: dict[str, int] = {}
        cursor = self._connection.cursor()
        cursor.row_factory = None
        for session_id, entry_id, *values, payload in cursor.execute(_SCAN_SQL):
            if session_id not in digests:
                digests[session_id], first_entries[session_id] = hashlib.blake2b(digest_size=12), entry_id
            digests[session_id].update(sqlite.digest(entry_id, *values, payload or b"").encode())
        for row in self._connection.execute("select * from sessions"):
            session = dict(row)
            first_entries.pop(session["id"], None)
            if not isinstance(session["id"], str):
                self.problems.append(Problem(f"sessions:{session['id']!r}", "The id of a session must be text."))
                continue
            values = [session[name] for name in session if name not in CHANGING_COLUMNS]
            values += [tuple(mount.values()) for mount in self._read_mounts(session["id"])]
            if session["id"] in digests:
                values.append(digests[session["id"]].hexdigest())
            yield SessionRef(session["id"], sqlite.digest(*values), sqlite.normalize_time(session.get("updatedAt")))
        for session_id, entry_id in first_entries.items():
            self.problems.append(Problem(f"session_entries:{entry_id}", f"There is no session {session_id!r}."))

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        session = self._load_session(ref.native_id)
        if session is None:
            return
        shared_count, forked_at = self._find_fork_point(session)
        yield self._build_header_batch(session, forked_at)
        reader = WuhuEntryReader(self._blobs)
        for entry_ids in sqlite.chunked(session.entry_ids):
            batch = Batch()
            for row in self._read_rows(entry_ids):
                entries = reader.read_entries(row, batch.problems)
                for entry in entries:
                    entry.inherited = shared_count > 0
                shared_count -= 1
                batch.entries += entries
            batch.summary = reader.summary
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

    def _read_rows(self, entry_ids: Iterable[int]) -> Iterator[RowLike]:
        return (self._connection.execute(_ENTRY_SQL, (entry_id,)).fetchone() for entry_id in entry_ids)

    def _find_fork_point(self, child: _WuhuSession) -> tuple[int, int]:
        """Return how many of a fork's first entries come from its parent, and the position of the last of them there.

        Wuhu copies only messages. They contain times, so that equal messages are copies and not chance.
        """
        shared_count, seq, forked_at = 0, -1, -1
        parent = self._load_session(child.parent_id)
        if parent is None:
            return shared_count, forked_at
        reader = WuhuEntryReader(self._blobs)
        child_rows = self._read_rows(child.entry_ids)
        for row in self._read_rows(parent.entry_ids):
            seq += len(reader.read_entries(row, []))
            if row["type"] != "message":
                continue
            child_row = next(child_rows, None)
            if child_row is None or child_row["payload"] != row["payload"]:
                break
            shared_count, forked_at = shared_count + 1, seq
        return shared_count, forked_at

    # ── session ───────────────────────────────────────────────────────────────────────────────────

    def _build_header_batch(self, session: _WuhuSession, forked_at: int) -> Batch:
        row = session.columns
        created_at = sqlite.normalize_time(row.get("createdAt"))
        name, kind, path = self._find_environment(row)
        fields: SessionFields = {
            "agent_title": as_str(row.get("customTitle")),
            "provider": as_str(row.get("provider")),
            "model": as_str(row.get("model")),
            "cwd": as_str(row.get("cwd")) or path,
            "environment_name": name,
            "environment_type": kind,
            "environment_path": path,
            "system_prompt": session.system_prompt,
            "created_at": created_at,
            "updated_at": sqlite.normalize_time(row.get("updatedAt")) or created_at,
        }
        if session.parent_id:
            fields["parent_id"] = session.parent_id
            fields["relation"] = "fork" if forked_at >= 0 else "delegate"
        if forked_at >= 0:
            fields["forked_at"] = forked_at
        return Batch(
            header=NewEntry(kind="header", text=session.system_prompt, record=session.record, created_at=created_at),
            fields=fields,
            archived=row.get("isArchived") == 1,
            problems=session.problems[:1],
        )

    def _find_environment(self, session: Mapping[str, Any]) -> tuple[str, str, str]:
        """Return the name, type and path: columns of the session until March 2026, its first mount since then."""
        if "environmentName" in session:
            names = ("environmentName", "environmentType", "environmentPath")
            name, kind, path = (as_str(session.get(column)) for column in names)
            return name, kind, path
        for mount in self._read_mounts(session["id"]):
            return as_str(mount.get("name")), as_str(mount.get("runnerID")) or "local", as_str(mount.get("path"))
        return "", "", ""

    def _read_mounts(self, session_id: str) -> list[dict[str, Any]]:
        """Return the mounts of a session, the primary one first."""
        if "sessionID" not in self._tables.get("mounts", ()):
            return []
        rows = self._connection.execute("select * from mounts where sessionID = ? order by rowid", (session_id,))
        return sorted(map(dict, rows), key=lambda mount: mount.get("isPrimary") != 1)


@dataclass
class _WuhuSession:
    """Holds the row of a session, its header, and the ids of its other entries in order."""

    row: RowLike
    header: RowLike | None
    entry_ids: list[int]
    problems: list[Problem]

    @cached_property
    def columns(self) -> dict[str, Any]:
        return dict(self.row)

    @property
    def parent_id(self) -> str:
        parent_id = as_str(self.columns.get("parentSessionID"))
        return parent_id if parent_id != self.columns["id"] else ""

    @cached_property
    def system_prompt(self) -> str:
        payload = decode_payload(self.header["payload"]).get("payload") if self.header else None
        return replace_surrogates(as_str(payload.get("systemPrompt"))) if isinstance(payload, Mapping) else ""

    @property
    def record(self) -> NewRecord:
        """Return the record of the header. It combines the two rows in which Wuhu describes a session."""
        records = [sqlite.record_from_row(self.row, "sessions", self.row["id"], exclude=CHANGING_COLUMNS)]
        if self.header:
            records.append(sqlite.record_from_row(self.header, "session_entries", self.header["id"]))
        return NewRecord(encode({record.place: decode(record.data) for record in records}), "sessions", self.row["id"])
