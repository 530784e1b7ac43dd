"""This module makes google-adk databases in each of their layouts, with ADK's own DDL, and adds events to them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from store.sources.kit import sqlite

STATE_TABLES = """
create table app_states (app_name varchar(128) not null, state text not null, update_time datetime not null,
    primary key (app_name));
create table user_states (app_name varchar(128) not null, user_id varchar(128) not null, state text not null,
    update_time datetime not null, primary key (app_name, user_id));
create table sessions (app_name varchar(128) not null, user_id varchar(128) not null, id varchar(128) not null,
    state text not null, create_time datetime not null, update_time datetime not null,
    primary key (app_name, user_id, id));
"""
V0_TABLES = """
create table events (id varchar(128) not null, app_name varchar(128) not null, user_id varchar(128) not null,
    session_id varchar(128) not null, invocation_id varchar(256) not null, author varchar(256) not null,
    actions blob not null, long_running_tool_ids_json text, branch varchar(256), timestamp datetime not null,
    content text, grounding_metadata text, partial boolean, turn_complete boolean, error_code varchar(256),
    error_message varchar(1024), interrupted boolean, primary key (id, app_name, user_id, session_id),
    foreign key (app_name, user_id, session_id) references sessions (app_name, user_id, id) on delete cascade);
"""
V0_ADDED_COLUMNS = "".join(
    f"alter table events add column {name} text;"
    for name in (
        "custom_metadata",
        "usage_metadata",
        "citation_metadata",
        "input_transcription",
        "output_transcription",
    )
)
V1_TABLES = """
create table adk_internal_metadata ("key" varchar(128) not null, value varchar(256) not null, primary key ("key"));
insert into adk_internal_metadata values ('schema_version', '1');
create table events (id varchar(128) not null, app_name varchar(128) not null, user_id varchar(128) not null,
    session_id varchar(128) not null, invocation_id varchar(256) not null, timestamp datetime not null, event_data text,
    primary key (id, app_name, user_id, session_id),
    foreign key (app_name, user_id, session_id) references sessions (app_name, user_id, id) on delete cascade);
"""
SQLITE_SERVICE_TABLES = """
create table app_states (app_name text primary key, state text not null, update_time real not null);
create table user_states (app_name text not null, user_id text not null, state text not null, update_time real not null,
    primary key (app_name, user_id));
create table sessions (app_name text not null, user_id text not null, id text not null, state text not null,
    create_time real not null, update_time real not null, primary key (app_name, user_id, id));
create table events (id text not null, app_name text not null, user_id text not null, session_id text not null,
    invocation_id text not null, timestamp real not null, event_data text not null,
    primary key (app_name, user_id, session_id, id),
    foreign key (app_name, user_id, session_id) references sessions (app_name, user_id, id) on delete cascade);
"""
LAYOUTS = {
    "1.0 v0": STATE_TABLES + V0_TABLES,
    "1.19 v0": STATE_TABLES + V0_TABLES + V0_ADDED_COLUMNS,
    "v1": STATE_TABLES + V1_TABLES,
    "sqlite service": SQLITE_SERVICE_TABLES,
}

NOON = 1_794_830_400.0
"""Is the epoch of 2026-11-16T12:00:00Z."""

MALICIOUS_PICKLE = b"cposix\nsystem\n(S'touch unpickled'\ntR."


class AdkSqliteDatabase:
    """Writes a database of one layout."""

    def __init__(self, path: Path, layout: str) -> None:
        self.path = path
        self.layout = layout
        self._count = 0
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(LAYOUTS[layout])

    def execute(self, sql: str, *values: object) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(sql, values)

    def encode_time(self, epoch: float) -> float | str:
        if self.layout == "sqlite service":
            return epoch
        return sqlite.normalize_time(epoch).replace("T", " ").rstrip("Z")

    def add_session(self, app: str = "dak", user: str = "ana", name: str = "s1", state: str = "{}") -> None:
        times = (self.encode_time(NOON), self.encode_time(NOON + 60))
        self.execute("insert into sessions values (?, ?, ?, ?, ?, ?)", app, user, name, state, *times)

    def add_event(
        self, author: str, parts: list[Any] | None = None, *, at: float | None = None, column_at: float | None = None,
        name: str = "", session: tuple[str, str, str] = ("dak", "ana", "s1"), role: str = "model", **fields: Any,
    ) -> None:  # fmt: skip
        self._count += 1
        timestamp = NOON + self._count if at is None else at
        content = None if parts is None else {"parts": parts, "role": role}
        event = {
            "author": author,
            "content": content,
            **fields,
            "id": name or f"e{self._count:03}",
            "timestamp": timestamp,
        }
        column = self.encode_time(timestamp if column_at is None else column_at)
        if "v0" in self.layout:
            self._insert_v0(event, column, session)
        else:
            event_data = json.dumps({key: value for key, value in event.items() if value is not None})
            self.insert_event(event_data, column, event["id"], session)

    def insert_event(
        self, event_data: str | None, at: float | str, name: str, session: tuple[str, str, str] = ("dak", "ana", "s1")
    ) -> None:
        self.execute(
            "insert into events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)"
            " values (?, ?, ?, ?, 'e-1', ?, ?)",
            *session, name, at, event_data,
        )  # fmt: skip

    def _insert_v0(self, event: Mapping[str, Any], at: float | str, session: tuple[str, str, str]) -> None:
        columns = {
            "app_name": session[0], "user_id": session[1], "session_id": session[2], "invocation_id": "e-1",
            "actions": MALICIOUS_PICKLE, "timestamp": at, "id": event["id"], "author": event["author"],
        }  # fmt: skip
        for key, value in event.items():
            if key in ("content", "usage_metadata") and value is not None:
                columns[key] = json.dumps(value)
            elif key == "long_running_tool_ids":
                columns["long_running_tool_ids_json"] = json.dumps(value)
            elif key.startswith("error_"):
                columns[key] = value
        placeholders = ", ".join("?" * len(columns))
        self.execute(f"insert into events ({', '.join(columns)}) values ({placeholders})", *columns.values())
