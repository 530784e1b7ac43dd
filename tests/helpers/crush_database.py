"""This module makes Crush databases with Crush's own tables, and fills them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from foreign_databases import insert_row, make_database

FIRST_SCHEMA = """
create table sessions (
    id text primary key, parent_session_id text, title text not null,
    message_count integer not null default 0 check (message_count >= 0),
    prompt_tokens integer not null default 0 check (prompt_tokens >= 0),
    completion_tokens integer not null default 0 check (completion_tokens >= 0),
    cost real not null default 0.0 check (cost >= 0.0), updated_at integer not null, created_at integer not null
);
create table files (
    id text primary key, session_id text not null references sessions (id) on delete cascade, path text not null,
    content text not null, version integer not null default 0, created_at integer not null,
    updated_at integer not null, unique (path, session_id, version)
);
create table messages (
    id text primary key, session_id text not null references sessions (id) on delete cascade, role text not null,
    parts blob not null default '[]', model text, created_at integer not null, updated_at integer not null,
    finished_at integer
);
create index idx_messages_session_id on messages (session_id);
create trigger update_session_message_count_on_insert after insert on messages begin
    update sessions set message_count = message_count + 1 where id = new.session_id;
end;
"""
LATEST_SCHEMA = f"""
{FIRST_SCHEMA}
alter table messages add column provider text;
alter table messages add column is_summary_message integer default 0 not null;
alter table sessions add column summary_message_id text;
alter table sessions add column todos text;
create table read_files (session_id text not null, path text not null, read_at integer not null);
create table goose_db_version (id integer primary key, version_id integer not null, is_applied integer not null);
"""
AT = 1_767_000_000
"""Is in seconds, although comments in Crush's schema say otherwise."""

Content = list[dict[str, Any]]


def part(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def text_content(text: str, **more: Any) -> Content:
    return [part("text", text=text, **more), part("finish", reason="stop", time=0)]


def call(name: str = "bash", arguments: Any = None, call_id: str = "call_1") -> dict[str, Any]:
    encoded = arguments if isinstance(arguments, str) else json.dumps(arguments or {"command": "ls"})
    return part("tool_call", id=call_id, name=name, input=encoded, provider_executed=False, finished=True)


def result(content: str = "a.txt", call_id: str = "call_1", **more: Any) -> Content:
    data = {"data": "", "mime_type": "", "metadata": '{"exit_code":0}', "is_error": False} | more
    answer = part("tool_result", tool_call_id=call_id, name="bash", content=content, **data)
    return [answer, part("finish", reason="stop", time=0)]


def finish(reason: str = "end_turn", **more: Any) -> dict[str, Any]:
    return part("finish", reason=reason, time=AT + 3, **more)


class CrushStore:
    def __init__(self, path: Path, layout: str = LATEST_SCHEMA) -> None:
        self.path = make_database(path, layout, wal=True)
        self._messages = 0

    def add_session(self, session_id: str = "s", *messages: tuple[str, Content | str], **columns: Any) -> None:
        row = {"id": session_id, "title": "A session", "created_at": AT, "updated_at": AT}
        insert_row(self.path, "sessions", **row | columns)
        for role, content in messages:
            self.add_message(role, content, session_id)

    def add_message(self, role: str, content: Content | str, session_id: str = "s", **columns: Any) -> str:
        self._messages += 1
        parts = content if isinstance(content, str) else json.dumps(content)
        row: dict[str, Any] = {"id": f"m{self._messages}", "session_id": session_id, "role": role, "parts": parts}
        row |= {"model": "sonnet" if role == "assistant" else "", "created_at": AT, "updated_at": AT}
        insert_row(self.path, "messages", **row | columns)
        return str((row | columns)["id"])
