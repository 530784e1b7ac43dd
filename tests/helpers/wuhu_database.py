"""This module makes small stores as Wuhu writes them, in each of its layouts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from store.model.session import Session
from store.store import Store
from store.sync import refresh
from store.sync.targets import Report, find_targets

FIRST_COLUMNS = "id TEXT PRIMARY KEY, provider TEXT NOT NULL, model TEXT NOT NULL"
LAST_COLUMNS = (
    "parentSessionID TEXT, createdAt DATETIME NOT NULL, updatedAt DATETIME NOT NULL,"
    " headEntryID INTEGER, tailEntryID INTEGER"
)
SETTINGS_COLUMNS = (
    "effectiveReasoningEffort TEXT, pendingProvider TEXT, pendingModel TEXT, pendingReasoningEffort TEXT,"
    " executionStatus TEXT NOT NULL"
)
ENVIRONMENT_COLUMNS = "environmentName TEXT NOT NULL, environmentType TEXT NOT NULL, environmentPath TEXT NOT NULL"
TEMPLATE_COLUMNS = "environmentTemplatePath TEXT, environmentStartupScript TEXT"
CWD_COLUMN = "cwd TEXT NOT NULL"
RUNNER_COLUMN = "runnerName TEXT"
CHANNEL_COLUMNS = "environmentID TEXT, sessionType TEXT NOT NULL DEFAULT 'coding', displayStartEntryID INTEGER"
TITLE_COLUMN = "customTitle TEXT"
ARCHIVE_COLUMN = "isArchived BOOLEAN NOT NULL DEFAULT 0"
MOUNT_LAYOUT_COLUMNS = (FIRST_COLUMNS, SETTINGS_COLUMNS, "cwd TEXT", TITLE_COLUMN, ARCHIVE_COLUMN, LAST_COLUMNS)
SESSION_ID_COLUMN = "sessionID TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE"
QUEUE_TABLES = f"""
    CREATE TABLE user_queue_pending (id TEXT PRIMARY KEY, {SESSION_ID_COLUMN}, lane TEXT NOT NULL,
        enqueuedAt DATETIME NOT NULL, payload BLOB NOT NULL);
    CREATE TABLE tool_call_status ({SESSION_ID_COLUMN}, toolCallID TEXT NOT NULL, status TEXT NOT NULL,
        createdAt DATETIME NOT NULL, updatedAt DATETIME NOT NULL, PRIMARY KEY (sessionID, toolCallID));
"""
MOUNT_TABLE = f"""
    CREATE TABLE mounts (id TEXT PRIMARY KEY, {SESSION_ID_COLUMN}, name TEXT NOT NULL, path TEXT NOT NULL,
        mountTemplateID TEXT, isPrimary BOOLEAN NOT NULL DEFAULT 0, createdAt DATETIME NOT NULL);
"""
ADD_RUNNER_SQL = "ALTER TABLE mounts ADD COLUMN runnerID TEXT NOT NULL DEFAULT 'local';"

LAYOUTS: dict[str, tuple[tuple[str, ...], str]] = {
    "feb10": ((FIRST_COLUMNS, CWD_COLUMN, LAST_COLUMNS), ""),
    "feb11": ((FIRST_COLUMNS, ENVIRONMENT_COLUMNS, CWD_COLUMN, RUNNER_COLUMN, LAST_COLUMNS), ""),
    "environmentMetadata_v2": (
        (FIRST_COLUMNS, ENVIRONMENT_COLUMNS, CWD_COLUMN, RUNNER_COLUMN, LAST_COLUMNS, TEMPLATE_COLUMNS),
        "",
    ),
    "contracts_v1": (
        (
            FIRST_COLUMNS,
            SETTINGS_COLUMNS,
            ENVIRONMENT_COLUMNS,
            TEMPLATE_COLUMNS,
            CWD_COLUMN,
            RUNNER_COLUMN,
            LAST_COLUMNS,
        ),
        QUEUE_TABLES,
    ),
    "v5_archive": (
        (
            FIRST_COLUMNS,
            SETTINGS_COLUMNS,
            ENVIRONMENT_COLUMNS,
            TEMPLATE_COLUMNS,
            CWD_COLUMN,
            RUNNER_COLUMN,
            LAST_COLUMNS,
            CHANNEL_COLUMNS,
            TITLE_COLUMN,
            ARCHIVE_COLUMN,
        ),
        QUEUE_TABLES,
    ),
    "v6_mounts": (MOUNT_LAYOUT_COLUMNS, QUEUE_TABLES + MOUNT_TABLE),
    "v7_runner": (MOUNT_LAYOUT_COLUMNS, QUEUE_TABLES + MOUNT_TABLE + ADD_RUNNER_SQL),
    "v8_cost_limit": ((*MOUNT_LAYOUT_COLUMNS, "costLimitCents INTEGER"), QUEUE_TABLES + MOUNT_TABLE + ADD_RUNNER_SQL),
}
NEWEST_LAYOUT = "v7_runner"

ENTRY_TABLE = f"""
    CREATE TABLE session_entries (id INTEGER PRIMARY KEY AUTOINCREMENT, {SESSION_ID_COLUMN},
        parentEntryID INTEGER REFERENCES session_entries(id) ON DELETE RESTRICT, type TEXT NOT NULL,
        payload BLOB NOT NULL, createdAt DATETIME NOT NULL);
    CREATE INDEX session_entries_on_sessionID ON session_entries(sessionID);
    CREATE UNIQUE INDEX session_entries_unique_parent ON session_entries(parentEntryID)
        WHERE parentEntryID IS NOT NULL;
    CREATE UNIQUE INDEX session_entries_unique_header_per_session ON session_entries(sessionID)
        WHERE parentEntryID IS NULL;
"""
ROW_CREATED_AT = "2026-03-04 05:00:00.500"
"""Is the time in the column of every entry; the JSON of a message has a more exact one."""
MESSAGE_EPOCH = 1772600000.25
MESSAGE_CREATED_AT = "2026-03-04T04:53:20.250000Z"

Payload = dict[str, Any]

SETTINGS_CHANGE: Payload = {
    "type": "session_settings",
    "payload": {"provider": "openai", "model": "gpt", "reasoningEffort": "high"},
}


class WuhuStore:
    """Writes a store as Wuhu does: a new entry follows the tail of its session and becomes the tail."""

    def __init__(self, path: Path, layout: str = NEWEST_LAYOUT) -> None:
        columns, more = LAYOUTS[layout]
        self.path = path
        with self.open() as db:
            db.executescript(
                "CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);"
                f"CREATE TABLE sessions ({', '.join(columns)}); {ENTRY_TABLE} {more}"
            )

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        db = sqlite3.connect(self.path, isolation_level=None)
        try:
            yield db
        finally:
            db.close()

    def execute(self, *statements: str) -> None:
        with self.open() as db:
            for statement in statements:
                db.execute(statement)

    def add_session(self, session_id: str = "s", system_prompt: str = "Be brief.", **columns: Any) -> None:
        """Add a session with its header, and a value for every column that the layout requires."""
        with self.open() as db:
            required = {
                name for _, name, _, not_null, default, _ in db.execute("pragma table_info(sessions)") if not_null
            }
            row = dict.fromkeys(required - {"sessionType", "isArchived"}, "x")
            row |= {"id": session_id, "provider": "anthropic", "model": "sonnet", "cwd": "/srv/app"}
            row |= {"createdAt": "2026-03-04 04:53:00.125", "updatedAt": ROW_CREATED_AT} | columns
            names, placeholders = ", ".join(row), ", ".join("?" * len(row))
            db.execute(f"insert into sessions ({names}) values ({placeholders})", list(row.values()))
        header = {"version": 1, "systemPrompt": system_prompt, "metadata": {}}
        number = self.append_entry({"type": "header", "payload": header}, session_id)
        self.execute(f"update sessions set headEntryID = {number} where id = '{session_id}'")

    def append_entry(self, payload: Payload | bytes, session_id: str = "s", number: int | None = None) -> int:
        encoded = payload if isinstance(payload, bytes) else encode_payload(payload)
        kind = payload["type"] if isinstance(payload, dict) else "message"
        with self.open() as db:
            (tail,) = db.execute("select tailEntryID from sessions where id = ?", (session_id,)).fetchone()
            entry_id = db.execute(
                "insert into session_entries (id, sessionID, parentEntryID, type, payload, createdAt)"
                " values (?, ?, ?, ?, ?, ?)",
                (number, session_id, tail, kind, encoded, ROW_CREATED_AT),
            ).lastrowid
            db.execute("update sessions set tailEntryID = ? where id = ?", (entry_id, session_id))
        assert entry_id is not None
        return entry_id

    def append_user_messages(self, *texts: str, session_id: str = "s") -> None:
        for text in texts:
            self.append_entry(user(text), session_id)


def encode_payload(payload: Payload) -> bytes:
    """Encode JSON as Swift's Foundation does: sorted keys, no spaces, escaped slashes."""
    return json.dumps(payload, sort_keys=True, separators=(",", ":")).replace("/", "\\/").encode()


def message(role: str, content: list[Any], **more: Any) -> Payload:
    body = {"content": content, "timestamp": MESSAGE_EPOCH} | more
    return {"type": "message", "payload": {"role": role, "message": body}}


def text(content: str) -> Payload:
    return {"type": "text", "text": content}


def user(content: str, **more: Any) -> Payload:
    return message("user", [text(content)], **{"user": "ana@box"} | more)


def assistant(*content: Any, **more: Any) -> Payload:
    fields = {"provider": "openai", "model": "gpt", "stopReason": "stop"}
    return message("assistant", list(content), **fields | more)


def call(call_id: str = "t1") -> Payload:
    return {"type": "tool_call", "id": call_id, "name": "bash", "arguments": {"command": "df -h /"}}


def result(*content: Any, call_id: str = "t1", failed: bool = False) -> Payload:
    fields = {"toolCallId": call_id, "toolName": "bash", "details": {}, "isError": failed}
    return message("tool_result", list(content), **fields)


def injected_message(kind: str, content: str, **more: Any) -> Payload:
    return message("custom_message", [text(content)], **{"customType": kind, "display": True} | more)


def custom(kind: str, data: Any) -> Payload:
    return {"type": "custom", "customType": kind, "data": data}


def compaction(summary: str, first_kept: int) -> Payload:
    payload = {"version": 1, "summary": summary, "tokensBefore": 9000, "firstKeptEntryID": first_kept, "metadata": {}}
    return {"type": "compaction", "payload": payload}


def sync_wuhu(store: Store, owner: WuhuStore) -> Report:
    *_, last = refresh.sync_targets(store, find_targets([str(owner.path)]))
    return last.report


def sync_and_find_session(store: Store, owner: WuhuStore, name: str = "s") -> Session:
    """Sync without problems, and return the session."""
    assert sync_wuhu(store, owner).problems == []
    return store.sessions.find(name)
