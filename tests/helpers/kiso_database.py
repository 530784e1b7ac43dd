"""This module makes small stores as versions of Kiso did, and syncs them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from foreign_databases import sync_paths

from store.model.entry import Entry
from store.model.session import Session
from store.store import Store
from store.sync.targets import Report

OLD_TIME = "2026-03-01 10:00:00"

DOCUMENT_SCHEMA = """
    create table sessions (session text primary key, webhook text, summary text default '',
        created_at datetime default current_timestamp, updated_at datetime default current_timestamp);
    create table messages (id integer primary key autoincrement, session text not null, user text, role text not null,
        content text not null, timestamp datetime default current_timestamp);
    create table secrets (id integer primary key autoincrement, session text not null, key text not null,
        value text not null, created_at datetime default current_timestamp, unique(session, key));
    create table meta (key text primary key, value text not null, updated_at datetime default current_timestamp);
    create table published (id text primary key, session text not null, filename text not null, path text not null,
        created_at datetime default current_timestamp);
"""
FIRST_SCHEMA = """
    create table sessions (session text primary key, connector text, webhook text, description text,
        summary text default '', created_at datetime default current_timestamp,
        updated_at datetime default current_timestamp);
    create table messages (id integer primary key autoincrement, session text not null, user text, role text not null,
        content text not null, trusted boolean default 1, processed boolean default 0,
        timestamp datetime default current_timestamp);
    create table plans (id integer primary key autoincrement, session text not null, message_id integer not null,
        parent_id integer, goal text not null, status text not null default 'running',
        created_at datetime default current_timestamp);
    create table tasks (id integer primary key autoincrement, plan_id integer not null, session text not null,
        type text not null, detail text not null, skill text, args text, expect text,
        status text not null default 'pending', output text, stderr text,
        created_at datetime default current_timestamp, updated_at datetime default current_timestamp);
    create table facts (id integer primary key autoincrement, content text not null, source text not null,
        session text, created_at datetime default current_timestamp);
    create table published (id text primary key, session text not null, filename text not null, path text not null,
        created_at datetime default current_timestamp);
"""
UPGRADE_SQL = """
    drop table published;
    create table projects (id integer primary key autoincrement, name text unique not null, description text,
        created_by text not null, created_at datetime default current_timestamp);
    alter table sessions add column project_id integer references projects(id);
    alter table messages add column source text default 'user';
    alter table plans add column total_input_tokens integer not null default 0;
    alter table plans add column install_proposal boolean default 0;
    alter table plans add column awaits_input integer default 0;
    alter table tasks add column command text;
    alter table tasks add column retry_count integer not null default 0;
    alter table tasks add column input_tokens integer not null default 0;
    alter table tasks add column output_tokens integer not null default 0;
    alter table tasks add column parallel_group integer;
"""
LATEST_SCHEMA = """
    create table sessions (session text primary key, connector text, webhook text, description text,
        summary text default '', project_id integer references projects(id),
        created_at datetime default current_timestamp, updated_at datetime default current_timestamp);
    create table messages (id integer primary key autoincrement, session text not null, user text, role text not null,
        content text not null, trusted boolean default 1, processed boolean default 0, source text default 'user',
        timestamp datetime default current_timestamp);
    create table plans (id integer primary key autoincrement, session text not null, message_id integer not null,
        parent_id integer, goal text not null, status text not null default 'running',
        total_input_tokens integer not null default 0, total_output_tokens integer not null default 0, model text,
        llm_calls text, install_proposal boolean default 0, awaits_input integer default 0,
        created_at datetime default current_timestamp);
    create table tasks (id integer primary key autoincrement, plan_id integer not null, session text not null,
        type text not null, detail text not null, args text, expect text, command text, server text, method text,
        status text not null default 'pending', substatus text, output text, stderr text,
        retry_count integer not null default 0, review_verdict text, review_reason text, review_learning text,
        input_tokens integer not null default 0, output_tokens integer not null default 0, llm_calls text,
        duration_ms integer default null, parallel_group integer, review_learning_tags text,
        created_at datetime default current_timestamp, updated_at datetime default current_timestamp);
    create table facts (id integer primary key autoincrement, content text not null, source text not null,
        session text, category text default 'general', confidence real default 1.0, last_used text,
        use_count integer default 0, project_id integer references projects(id), entity_id integer,
        created_at datetime default current_timestamp);
    create virtual table kiso_facts_fts using fts5(content, content='facts', content_rowid='id');
    create trigger facts_fts_insert after insert on facts begin
        insert into kiso_facts_fts(rowid, content) values (new.id, new.content);
    end;
    create table learnings (id integer primary key autoincrement, content text not null, session text not null,
        user text, status text not null default 'pending', created_at datetime default current_timestamp);
    create table projects (id integer primary key autoincrement, name text unique not null, description text,
        created_by text not null, created_at datetime default current_timestamp);
    create table kv (key text primary key, value text not null);
"""


class KisoStore:
    """Writes a store as Kiso does. Rows are old and finished unless the columns say otherwise."""

    def __init__(self, path: Path, schema: str = LATEST_SCHEMA) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.execute_script("pragma journal_mode = wal;" + schema)

    def execute_script(self, statements: str) -> None:
        with closing(sqlite3.connect(self.path)) as connection:
            connection.executescript(statements)

    def execute(self, statement: str, values: Sequence[object] = ()) -> int:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement, values).lastrowid or 0

    def insert_row(self, table: str, **columns: object) -> int:
        names, placeholders = ", ".join(columns), ", ".join("?" * len(columns))
        return self.execute(f"insert into {table} ({names}) values ({placeholders})", tuple(columns.values()))

    def add_session(self, name: str = "dev", **columns: object) -> None:
        self.insert_row("sessions", **{"session": name, "created_at": OLD_TIME, "updated_at": OLD_TIME} | columns)

    def add_message(self, content: object, role: str = "user", **columns: object) -> int:
        user = {"user": "ana"} if role == "user" else {}
        row = {"session": "dev", "role": role, "content": content, "timestamp": OLD_TIME}
        return self.insert_row("messages", **row | user | columns)

    def add_plan(self, message: int, goal: str, status: str = "done", **columns: object) -> int:
        row = {"session": "dev", "message_id": message, "goal": goal, "status": status, "created_at": OLD_TIME}
        return self.insert_row("plans", **row | columns)

    def add_task(self, plan: int, kind: str, detail: str, status: str = "done", **columns: object) -> int:
        row = {"session": "dev", "plan_id": plan, "type": kind, "detail": detail, "status": status}
        return self.insert_row("tasks", **row | {"created_at": OLD_TIME, "updated_at": OLD_TIME} | columns)

    def sync(self, store: Store) -> Report:
        return sync_paths(store, self.path)


def current_session(store: Store, name: str = "dev") -> Session:
    """Return the current session, not one that it superseded."""
    rows = store.rows("select key from sessions where native_id = ? and relation is not 'superseded'", name)
    return store.sessions.by_key(rows[0][0])


def stored_entries(store: Store, name: str = "dev") -> list[Entry]:
    return store.chains.entries(current_session(store, name).key, first=0)


def superseded_ids(store: Store, name: str = "dev") -> list[str]:
    rows = store.rows("select id from sessions where native_id = ? and relation = 'superseded'", name)
    return [session_id for (session_id,) in rows]
