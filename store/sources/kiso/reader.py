"""This module reads Kiso databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from store.model.entry import UNKNOWN_USER, NewEntry
from store.model.session import SessionFields
from store.sources.contract import (
    Batch,
    ForeignFact,
    ForeignFile,
    ForeignSecret,
    ForeignSummary,
    Problem,
    SessionRef,
    SourceReader,
)
from store.sources.kiso.entries import FINISHED_STATUSES, KisoEntryReader
from store.sources.kiso.tables import KisoTables, as_text, make_record
from store.sources.kit import sqlite
from store.sources.kit.sqlite import RowLike

QUIET_PERIOD = timedelta(hours=1)
"""What nobody touched for so long is told as it is, finished or not."""

_USER_CATEGORY = "user"
"""The one category of facts that Kiso keeps to the session it learned them in."""
_TIME_COLUMNS = {"sessions": "updated_at", "messages": "timestamp", "plans": "created_at", "tasks": "updated_at"}


@dataclass(slots=True)
class _ScannedSession:
    "What a scan gathers of a session."

    stamp: str = ""
    updated_at: str = ""
    pending: dict[str, bool] = field(default_factory=dict)
    "By table, whether its last row waits for something."


class KisoReader(SourceReader):
    def __init__(self, connection: sqlite3.Connection, instance: str) -> None:
        super().__init__()
        self._tables = KisoTables(connection)
        self._instance = instance
        self._projects = {row["id"]: as_text(row["name"]) for row in self._tables.rows("projects")}
        self._quiet_since = sqlite.normalize_time((datetime.now(UTC) - QUIET_PERIOD).isoformat())

    def scan(self) -> Iterator[SessionRef]:
        """In the order of the file, row by row; also the sessions of which only messages or plans are left."""
        found: dict[str, _ScannedSession] = {}
        for table, at in _TIME_COLUMNS.items():
            lasting = self._tables.make_stable_getter(table)
            for row in self._tables.rows(table):
                name = row["session"]
                if not isinstance(name, str) or not name:
                    key = "?" if table == "sessions" else row["id"]
                    self.problems.append(Problem(f"{table}:{key}", "It names no session."))
                    continue
                session = found.setdefault(name, _ScannedSession())
                session.stamp = sqlite.digest(session.stamp, table, lasting(row))
                session.updated_at = max(session.updated_at, sqlite.normalize_time(row[at]))
                session.pending[table] = _is_pending(row, table)
        for name, session in found.items():
            held_back = any(session.pending.values()) and not self._is_quiet(session.updated_at)
            yield SessionRef(name, sqlite.digest(session.stamp, held_back, self._projects), session.updated_at)

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        first = self._build_header_batch(ref)
        yield first
        made = (first.fields or {}).get("created_at", "")
        everything = self._is_quiet(ref.updated_at)
        batch, size = Batch(), 0
        telling = KisoEntryReader(self._tables, ref.native_id, self.problems)
        for entry, _ in takewhile(lambda told: everything or told.is_settled, telling.read_entries()):
            entry.created_at = entry.created_at or made
            batch.entries.append(entry)
            size += len(entry.record.data) if entry.record else 0
            if len(batch.entries) >= sqlite.BATCH_ENTRIES or size >= sqlite.BATCH_BYTES:
                yield batch
                batch, size = Batch(), 0
        yield batch

    def _is_quiet(self, newest: str) -> bool:
        return newest < self._quiet_since

    def _build_header_batch(self, ref: SessionRef) -> Batch:
        row = self._tables.first_row("sessions", "where session = ?", ref.native_id)
        made = self._find_created_at(ref, row)
        fields: SessionFields = {"user": self._find_single_user(ref.native_id), "environment_path": self._instance}
        if made:
            fields |= {"created_at": made, "updated_at": ref.updated_at or made}
        if row is None:
            return Batch(fields=fields)
        fields |= {
            "channel": as_text(row["connector"]),
            "webhook": as_text(row["webhook"]),
            "agent_title": as_text(row["description"]),
            "environment_name": self._projects.get(row["project_id"], ""),
        }
        header = NewEntry(kind="header", record=make_record(row, "sessions", ref.native_id), created_at=made)
        summary = as_text(row["summary"])
        return Batch(fields=fields, header=header, summary=ForeignSummary(summary) if summary else None)

    def _find_created_at(self, ref: SessionRef, row: RowLike | None) -> str:
        first = self._tables.first_row("messages", "where session = ? order by id", ref.native_id)
        told = (row and row["created_at"], first and first["timestamp"], ref.updated_at)
        return next(filter(None, map(sqlite.normalize_time, told)), "")

    def _find_single_user(self, name: str) -> str:
        """A room has many; who speaks alone has the session to himself."""
        clause = "where session = ? and role = 'user' group by user limit 2"
        speakers = [as_text(row["user"]) for row in self._tables.rows("messages", clause, name)]
        return speakers[0] if len(speakers) == 1 else ""

    # ── what is known beyond a session ────────────────────────────────────────────────────────────

    def facts(self) -> Iterable[ForeignFact]:
        sessions = {row["session"] for row in self._tables.rows("sessions")}
        for row in self._tables.rows("facts", "order by id"):
            if not isinstance(row["content"], str):
                self.problems.append(Problem(f"facts:{row['id']}", "It is not text."))
                continue
            session = as_text(row["session"])
            yield ForeignFact(
                f"facts:{row['id']}",
                row["content"],
                scope=self._fact_scope(row, session in sessions),
                category=as_text(row["category"]),
                native_session=session,
                created_at=sqlite.normalize_time(row["created_at"]),
            )
        for row in self._tables.rows("meta", "where key = 'facts'"):
            yield from _parse_meta_facts(row)

    def _fact_scope(self, row: RowLike, session_is_there: bool) -> str:
        """Where a fact was learned says nothing of who may know it: only its category and its project do."""
        if row["category"] == _USER_CATEGORY:
            return "session" if session_is_there else f"user:kiso/{UNKNOWN_USER}"
        return f"app:{self._projects.get(row['project_id'], row['project_id'])}" if row["project_id"] else "source"

    def secrets(self) -> Iterable[ForeignSecret]:
        for row in self._tables.select_known_columns("secrets", "order by id"):
            place = f"secrets:{row['id']}"
            yield ForeignSecret(
                as_text(row["session"]), as_text(row["key"]), place, sqlite.normalize_time(row["created_at"])
            )

    def published(self) -> Iterable[ForeignFile]:
        for row in self._tables.rows("published", "order by id"):
            name, session, filename, path = (as_text(row[column]) for column in ("id", "session", "filename", "path"))
            yield ForeignFile(name, session, filename, path, sqlite.normalize_time(row["created_at"]))


def _is_pending(row: RowLike, table: str) -> bool:
    """Whether a session that ends with this row waits for something."""
    return row["role"] == "user" if table == "messages" else table == "plans" and row["status"] not in FINISHED_STATUSES


def _parse_meta_facts(row: RowLike) -> Iterator[ForeignFact]:
    """One fact a line. Its place is what it says: lines come, go and move, and each correction stays with its own."""
    at = sqlite.normalize_time(row["updated_at"])
    for line in filter(None, dict.fromkeys(map(str.strip, as_text(row["value"]).splitlines()))):
        yield ForeignFact(f"meta:facts:{sqlite.digest(line)}", line, created_at=at, updated_at=at)
