"""This module makes goose databases with goose's own tables, and fills them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from foreign_databases import execute_sql, insert_row, make_database

FIRST_SCHEMA = """
create table schema_version (version integer primary key, applied_at timestamp default current_timestamp);
create table sessions (
    id text primary key, description text not null default '', working_dir text not null,
    created_at timestamp default current_timestamp, updated_at timestamp default current_timestamp,
    extension_data text default '{}', total_tokens integer, input_tokens integer, output_tokens integer,
    accumulated_total_tokens integer, accumulated_input_tokens integer, accumulated_output_tokens integer,
    schedule_id text, recipe_json text
);
create table messages (
    id integer primary key autoincrement, session_id text not null references sessions(id), role text not null,
    content_json text not null, created_timestamp integer not null, timestamp timestamp default current_timestamp,
    tokens integer
);
create index idx_messages_session on messages(session_id);
"""
SCHEMA_V9 = f"""
{FIRST_SCHEMA}
alter table sessions add column user_recipe_values_json text;
alter table messages add column metadata_json text;
alter table sessions add column name text default '';
alter table sessions add column user_set_name boolean default false;
alter table sessions add column session_type text not null default 'user';
alter table sessions add column provider_name text;
alter table sessions add column model_config_json text;
alter table sessions add column goose_mode text not null default 'auto';
alter table messages add column message_id text;
insert into schema_version (version) values (9);
"""
AT = 1_767_000_000

VISIBLE_TO_BOTH: dict[str, bool] = {"userVisible": True, "agentVisible": True}
VISIBLE_TO_USER = {"userVisible": True, "agentVisible": False}
VISIBLE_TO_AGENT = {"userVisible": False, "agentVisible": True}
VISIBLE_TO_NOBODY = {"userVisible": False, "agentVisible": False}
COMPACTION_NOTICE = "Your context was compacted."

Content = list[dict[str, Any]]


def text_content(text: str) -> Content:
    return [{"type": "text", "text": text}]


def call(call_id: str = "call_1", name: str = "developer__shell", arguments: Any = None) -> dict[str, Any]:
    value = {"name": name, "arguments": arguments or {"command": "ls"}}
    return {"type": "toolRequest", "id": call_id, "toolCall": {"status": "success", "value": value}}


def result(*content: dict[str, Any], call_id: str = "call_1", failed: bool = False) -> dict[str, Any]:
    value = {"content": list(content), "isError": failed}
    return {"type": "toolResponse", "id": call_id, "toolResult": {"status": "success", "value": value}}


class GooseStore:
    def __init__(self, path: Path, layout: str = SCHEMA_V9) -> None:
        self.path = make_database(path, layout, wal=True)
        self._has_metadata_column = layout == SCHEMA_V9

    def add_session(self, session_id: str = "20260101_1", *messages: tuple[str, Content], **columns: Any) -> None:
        row = {"id": session_id, "working_dir": "/srv/app"}
        row |= {"created_at": "2025-12-29 09:20:00", "updated_at": "2025-12-29 09:20:00"}
        insert_row(self.path, "sessions", **row | columns)
        for role, content in messages:
            self.add_message(role, content, session_id)

    def add_message(
        self,
        role: str,
        content: Content | str,
        session_id: str = "20260101_1",
        visibility: dict[str, bool] | None = VISIBLE_TO_BOTH,
        at: int = AT,
    ) -> None:
        encoded = content if isinstance(content, str) else json.dumps(content)
        row: dict[str, Any] = {"session_id": session_id, "role": role, "content_json": encoded}
        if self._has_metadata_column:
            row["metadata_json"] = json.dumps(visibility) if visibility is not None else None
        insert_row(self.path, "messages", created_timestamp=at, **row)

    def replace_messages(self, *messages: tuple[str, Content, dict[str, bool]], session_id: str = "20260101_1") -> None:
        """Replace all messages, as goose does when it summarises: rows are deleted and inserted with new numbers."""
        execute_sql(self.path, "delete from messages where session_id = ?", [(session_id,)])
        for role, content, visibility in messages:
            self.add_message(role, content, session_id, visibility)
