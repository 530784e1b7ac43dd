"""This module makes small foreign databases with the programs' own DDL, syncs them, and reads the result."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from store.model.entry import Entry
from store.store import Store
from store.sync import refresh
from store.sync.targets import Report, find_targets

RUBICHAN_SCHEMA = """
create table sessions (
    id text primary key, title text not null default '', model text not null, working_dir text not null default '',
    system_prompt text not null default '', created_at datetime not null default (datetime('now')),
    updated_at datetime not null default (datetime('now')), token_count integer not null default 0
);
create table messages (
    id integer primary key autoincrement, session_id text not null references sessions(id) on delete cascade,
    seq integer not null, role text not null, content text not null,
    created_at datetime not null default (datetime('now')), unique (session_id, seq)
);
create index idx_messages_session on messages(session_id, seq);
"""
RUBICHAN_SNAPSHOTS_SCHEMA = f"""
{RUBICHAN_SCHEMA}
create table memories (
    id integer primary key autoincrement, working_dir text not null, tag text not null, content text not null,
    created_at datetime not null default (datetime('now')), updated_at datetime not null default (datetime('now')),
    unique (working_dir, tag)
);
create table tool_result_blobs (
    id text primary key, session_id text not null references sessions(id) on delete cascade, tool_name text not null,
    content blob not null, byte_size integer not null, created_at datetime not null default (datetime('now'))
);
create table session_snapshots (
    session_id text primary key references sessions(id) on delete cascade, messages text not null,
    token_count integer not null default 0, created_at datetime not null default (datetime('now'))
);
"""
RUBICHAN_LATEST_SCHEMA = f"""
{RUBICHAN_SNAPSHOTS_SCHEMA}
alter table sessions add column forked_from text not null default '';
create index idx_sessions_forked_from on sessions(forked_from);
"""
PINGU_SCHEMA = """
create table sessions (
    id text primary key, channel text not null default 'cli', channel_id text, title text, model text, summary text,
    summary_up_to text, created_at text not null default (datetime('now')),
    updated_at text not null default (datetime('now'))
);
create table turns (
    id integer primary key autoincrement, session_id text not null references sessions(id) on delete cascade,
    user_message text not null, response_json text not null, model text,
    created_at text not null default (datetime('now'))
);
create index idx_turns_session on turns(session_id, created_at);
create table messages (
    id text primary key, session_id text not null references sessions(id) on delete cascade, role text not null,
    content text, tool_calls text, tool_call_id text, name text, model text,
    created_at text not null default (datetime('now'))
);
create index idx_messages_session on messages(session_id, created_at);
"""
PINGU_DOCUMENT_SCHEMA = (
    PINGU_SCHEMA.replace("summary_up_to text", "summary_up_to integer")
    .replace("_at text not null", "_at datetime")
    .replace(" not null", "")
)
PINGU_MEMORIES_SCHEMA = """
create table memories (
    id integer primary key autoincrement, session_id text, category text not null default 'conversation',
    content text not null, embedding blob, content_hash text, created_at text not null default (datetime('now')),
    updated_at text not null default (datetime('now'))
);
create table embedding_cache (content_hash text primary key, embed_model text not null, embedding blob not null);
create virtual table memories_fts using fts5(content, content='memories', content_rowid='id');
create trigger memories_ai after insert on memories begin
    insert into memories_fts(rowid, content) values (new.id, new.content);
end;
create trigger memories_ad after delete on memories begin
    insert into memories_fts(memories_fts, rowid, content) values ('delete', old.id, old.content);
end;
create trigger memories_au after update on memories begin
    insert into memories_fts(memories_fts, rowid, content) values ('delete', old.id, old.content);
    insert into memories_fts(rowid, content) values (new.id, new.content);
end;
"""
OPENAI_AGENTS_SCHEMA = """
create table agent_sessions (
    session_id text primary key, created_at timestamp default current_timestamp,
    updated_at timestamp default current_timestamp
);
create table agent_messages (
    id integer primary key autoincrement, session_id text not null, message_data text not null,
    created_at timestamp default current_timestamp,
    foreign key (session_id) references agent_sessions (session_id) on delete cascade
);
create index idx_agent_messages_session_id on agent_messages (session_id, created_at);
"""
AT = "2026-03-01 10:00:00"


def make_database(path: Path, ddl: str, *, wal: bool = False) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        if wal:
            connection.execute("pragma journal_mode = wal")
        connection.executescript(ddl)
    return path


def execute_sql(path: Path, sql: str, rows: Iterable[tuple[Any, ...]] = ((),)) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma foreign_keys = on")
        connection.execute("pragma synchronous = off")
        connection.executemany(sql, rows)
        connection.commit()


def insert_row(path: Path, table: str, **columns: Any) -> None:
    placeholders = ", ".join("?" * len(columns))
    execute_sql(path, f"insert into {table} ({', '.join(columns)}) values ({placeholders})", [tuple(columns.values())])


def add_pingu_session(path: Path, session_id: str = "s", *turns: tuple[str, Any], **columns: Any) -> None:
    """Add a session with turns, each a pair of prompt and response."""
    row = {"id": session_id, "channel": "default", "created_at": AT, "updated_at": AT} | columns
    insert_row(path, "sessions", **row)
    for prompt, response in turns:
        add_pingu_turn(path, prompt, response, session_id)


def add_pingu_turn(path: Path, prompt: Any, response: Any, session_id: str = "s", **columns: Any) -> None:
    encoded = json.dumps(response) if isinstance(response, dict | list) else response
    row = {"session_id": session_id, "user_message": prompt, "response_json": encoded, "created_at": AT} | columns
    insert_row(path, "turns", **row)


def pingu_raw_response(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a response of the Responses API as Pingu stored it until March 2026."""
    request = {"instructions": None, "tools": [{"type": "function", "name": "message"}]}
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1771234567,
        "status": "completed",
        "model": "gpt-raw",
    }
    return response | request | {"output": list(output)} | more


def pingu_native_response(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "gpt-native", "output": list(output)} | more


def pingu_raw_message(*texts: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []} for text in texts]
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}


def add_rubichan_session(path: Path, session_id: str, *messages: tuple[str, Any], **columns: Any) -> None:
    """Add a session with messages, each a pair of role and blocks. A string becomes one text block."""
    insert_row(path, "sessions", **{"id": session_id, "model": "m", "created_at": AT, "updated_at": AT} | columns)
    add_rubichan_messages(path, session_id, 0, *messages)


def add_rubichan_messages(path: Path, session_id: str, first: int, *messages: tuple[str, Any]) -> None:
    rows = [
        (
            session_id,
            seq,
            role,
            json.dumps([{"type": "text", "text": content}] if isinstance(content, str) else content),
            AT,
        )
        for seq, (role, content) in enumerate(messages, first)
    ]
    execute_sql(path, "insert into messages (session_id, seq, role, content, created_at) values (?, ?, ?, ?, ?)", rows)


def make_openai_agents_database(path: Path, sessions: Mapping[str, Sequence[Any]]) -> Path:
    """Make a database with these sessions, each a list of items of the Responses API."""
    make_database(path, OPENAI_AGENTS_SCHEMA)
    for session_id, items in sessions.items():
        insert_row(path, "agent_sessions", session_id=session_id, created_at=AT, updated_at=AT)
        for item in items:
            insert_row(path, "agent_messages", session_id=session_id, message_data=json.dumps(item), created_at=AT)
    return path


def sync_paths(store: Store, *paths: Path | str) -> Report:
    """Sync once and return the last report."""
    report = None
    for progress in refresh.sync_targets(store, find_targets([str(path) for path in paths])):
        report = progress.report
    assert report is not None
    return report


def stored_entries(store: Store, session_id: str) -> list[Entry]:
    """Return the entries of a session without the header."""
    return store.chains.entries(store.sessions.find(session_id).key, first=0)


def stored_texts(store: Store, session_id: str) -> list[str]:
    return [entry.text for entry in stored_entries(store, session_id)]
