"""This module reads Kiso databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from store.model.entry import NewEntry
from store.model.session import UNKNOWN_USER, SessionFields
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
from store.sources.kiso.tables import FACTS_KEY, KisoTables, as_text, make_meta_place, make_record
from store.sources.kit import sqlite
from store.sources.kit.sqlite import RowLike

_USER_CATEGORY = "user"
"""The only category of facts that Kiso limits to the session in which it learned them."""
_TIME_COLUMNS = {"sessions": "updated_at", "messages": "timestamp", "plans": "created_at", "tasks": "updated_at"}


@dataclass(slots=True)
class _ScannedSession:
    """Collects what a scan finds about a session."""

    stamp: str = ""
    updated_at: str = ""
    pending: dict[str, bool] = field(default_factory=dict)
    "Says for each table whether its last row still waits for something."


class KisoReader(SourceReader):
    """Reads the sessions, facts, secrets and published files of a Kiso database."""

    def __init__(self, connection: sqlite3.Connection, instance: str) -> None:
        super().__init__()
        self._tables = KisoTables(connection)
        self._instance = instance
        self._projects = {row["id"]: as_text(row["name"]) for row in self._tables.rows("projects")}

    def scan(self) -> Iterator[SessionRef]:
        """Yield every session, also those of which only messages, plans or tasks are left.

        The rows are hashed in the order of the file, table by table.
        """
        sessions: dict[str, _ScannedSession] = {}
        for table, time_column in _TIME_COLUMNS.items():
            stable_values = self._tables.make_stable_getter(table)
            for row in self._tables.rows(table):
                name = row["session"]
                if not isinstance(name, str) or not name:
                    key = "?" if table == "sessions" else row["id"]
                    self.problems.append(Problem(f"{table}:{key}", "The row names no session."))
                    continue
                session = sessions.setdefault(name, _ScannedSession())
                session.stamp = sqlite.digest(session.stamp, table, stable_values(row))
                session.updated_at = max(session.updated_at, sqlite.normalize_time(row[time_column]))
                session.pending[table] = _is_pending(row, table)
        for name, session in sessions.items():
            is_unsettled = any(session.pending.values()) and not sqlite.is_quiet(session.updated_at)
            yield SessionRef(name, sqlite.digest(session.stamp, is_unsettled, self._projects), session.updated_at)

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        header = self._build_header_batch(ref)
        yield header
        created_at = (header.fields or {}).get("created_at", "")
        is_quiet = sqlite.is_quiet(ref.updated_at)
        batch, size = Batch(), 0
        reader = KisoEntryReader(self._tables, ref.native_id, self.problems)
        for entry, _ in takewhile(lambda item: is_quiet or item.is_settled, reader.read_entries()):
            entry.created_at = entry.created_at or created_at
            batch.entries.append(entry)
            size += len(entry.record.data) if entry.record else 0
            if len(batch.entries) >= sqlite.BATCH_ENTRIES or size >= sqlite.BATCH_BYTES:
                yield batch
                batch, size = Batch(), 0
        yield batch

    def _build_header_batch(self, ref: SessionRef) -> Batch:
        row = self._tables.first_row("sessions", "where session = ?", ref.native_id)
        created_at = self._find_created_at(ref, row)
        fields: SessionFields = {"user": self._find_single_user(ref.native_id), "environment_path": self._instance}
        if created_at:
            fields |= {"created_at": created_at, "updated_at": ref.updated_at or created_at}
        if row is None:
            return Batch(fields=fields)
        fields |= {
            "channel": as_text(row["connector"]),
            "webhook": as_text(row["webhook"]),
            "agent_title": as_text(row["description"]),
            "environment_name": self._projects.get(row["project_id"], ""),
        }
        header = NewEntry(kind="header", record=make_record(row, "sessions", ref.native_id), created_at=created_at)
        summary = as_text(row["summary"])
        return Batch(fields=fields, header=header, summary=ForeignSummary(summary) if summary else None)

    def _find_created_at(self, ref: SessionRef, row: RowLike | None) -> str:
        message = self._tables.first_row("messages", "where session = ? order by id", ref.native_id)
        candidates = (row and row["created_at"], message and message["timestamp"], ref.updated_at)
        return next(filter(None, map(sqlite.normalize_time, candidates)), "")

    def _find_single_user(self, session: str) -> str:
        """Return the user of a session, or an empty text when several users wrote in it."""
        clause = "where session = ? and role = 'user' group by user limit 2"
        users = [as_text(row["user"]) for row in self._tables.rows("messages", clause, session)]
        return users[0] if len(users) == 1 else ""

    # ── facts, secrets and files ──────────────────────────────────────────────────────────────────

    def facts(self) -> Iterable[ForeignFact]:
        sessions = {row["session"] for row in self._tables.rows("sessions")}
        for row in self._tables.rows("facts", "order by id"):
            if not isinstance(row["content"], str):
                self.problems.append(Problem(f"facts:{row['id']}", "The fact is not text."))
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
        for row in self._tables.rows("meta", "order by key is not 'facts', key"):
            yield from _parse_meta_facts(row)

    def _fact_scope(self, row: RowLike, session_exists: bool) -> str:
        """Return who may know a fact. Its category and project decide, not the session in which it was learned."""
        if row["category"] == _USER_CATEGORY:
            return "session" if session_exists else f"user:kiso/{UNKNOWN_USER}"
        return f"app:{self._projects.get(row['project_id'], row['project_id'])}" if row["project_id"] else "source"

    def secrets(self) -> Iterable[ForeignSecret]:
        for row in self._tables.select_known_columns("secrets", "order by id"):
            position = f"secrets:{row['id']}"
            yield ForeignSecret(
                as_text(row["session"]), as_text(row["key"]), position, sqlite.normalize_time(row["created_at"])
            )

    def published(self) -> Iterable[ForeignFile]:
        for row in self._tables.rows("published", "order by id"):
            name, session, filename, path = (as_text(row[column]) for column in ("id", "session", "filename", "path"))
            yield ForeignFile(name, session, filename, path, sqlite.normalize_time(row["created_at"]))


def _is_pending(row: RowLike, table: str) -> bool:
    """Return whether a session that ends with this row waits for something."""
    return row["role"] == "user" if table == "messages" else table == "plans" and row["status"] not in FINISHED_STATUSES


def _parse_meta_facts(row: RowLike) -> Iterator[ForeignFact]:
    """Yield each line of a value as a fact, with its key as the category. The key `facts` needs no category."""
    at = sqlite.normalize_time(row["updated_at"])
    key = as_text(row["key"])
    category = key if key != FACTS_KEY else ""
    for line in filter(None, dict.fromkeys(map(str.strip, as_text(row["value"]).splitlines()))):
        yield ForeignFact(make_meta_place(key, line), line, category=category, created_at=at, updated_at=at)
