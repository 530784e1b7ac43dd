"""This module makes llm databases with llm's own tables, before and since version 0.32, and fills them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from foreign_databases import execute_sql, insert_row, make_database

SCHEMA_BEFORE_0_32 = """
create table _llm_migrations (name text primary key, applied_at text);
create table conversations (id text primary key, name text, model text);
create table attachments (id text primary key, type text, path text, url text, content blob);
create table prompt_attachments (response_id text, attachment_id text, "order" integer);
create table schemas (id text primary key, content text);
create table responses (
    id text primary key, model text, prompt text, system text, prompt_json text, options_json text, response text,
    response_json text, conversation_id text references conversations(id), duration_ms integer, datetime_utc text,
    input_tokens integer, output_tokens integer, token_details text, schema_id text
);
create table fragments (id integer primary key, hash text, content text, datetime_utc text, source text);
create table prompt_fragments (response_id text, fragment_id integer, "order" integer);
create table system_fragments (response_id text, fragment_id integer, "order" integer);
create table tools (id integer primary key, hash text, name text, description text, input_schema text, plugin text);
create table tool_responses (tool_id integer, response_id text);
create table tool_calls (
    id integer primary key, response_id text, tool_id integer, name text, arguments text, tool_call_id text
);
create table tool_results (
    id integer primary key, response_id text, tool_id integer, name text, output text, tool_call_id text,
    instance_id integer, exception text
);
create table tool_results_attachments (tool_result_id integer, attachment_id text, "order" integer);
"""
SCHEMA_SINCE_0_32 = f"""
{SCHEMA_BEFORE_0_32}
alter table responses add column resolved_model text;
alter table responses add column reasoning text;
create table messages (hash text primary key, parent_hash text, role text, provider_metadata text);
create table parts (
    id integer primary key, message_hash text, position integer, type text, tool_name text, text text, payload text
);
create unique index idx_parts_message_hash_position on parts (message_hash, position);
create table part_attachments (part_id integer, attachment_id text, "order" integer);
create table part_fragments (part_id integer, fragment_id integer, "order" integer);
create table threads (id text primary key, name text, tip_message_hash text, forked_from text, datetime_utc text);
create table turns (
    id text primary key, thread_id text, parent_message_hash text, tip_message_hash text, model text,
    resolved_model text, options_json text, schema_id text, input_tokens integer, output_tokens integer,
    token_details text, duration_ms integer, datetime_utc text, response_json text
);
create table turn_fragments (turn_id text, fragment_id integer, "order" integer, kind text);
create table turn_tools (turn_id text, tool_id integer, instance_id integer);
create table turn_search (id integer primary key, turn_id text, prompt text, response text);
create view message_tree as select hash as message_hash from messages;
"""
OLDEST_SCHEMA = """
create table logs (
    id integer primary key, model text, prompt text, system text, prompt_json text, options_json text, response text,
    response_json text, reply_to_id integer, chat_id integer, duration_ms integer, timestamp text
);
"""

Content = list[dict[str, Any]]


def timestamp(seconds: int) -> str:
    return f"2026-03-01T10:00:{seconds:02}.000000+00:00"


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def part(kind: str, **payload: Any) -> dict[str, Any]:
    return {"type": kind, "tool_name": payload.get("name"), "payload": json.dumps(payload)}


class LlmStore:
    def __init__(self, path: Path, layout: str = SCHEMA_SINCE_0_32) -> None:
        self.path = make_database(path, layout)
        self.clock = 0

    # ── since 0.32 ────────────────────────────────────────────────────────────────────────────────

    def add_message(self, role: str, content: Content | str, parent: str | None = None) -> str:
        """Add a message and return its hash, which covers all messages before it. Threads with the same beginning thus
        share their first messages."""
        parts = [text_part(content)] if isinstance(content, str) else content
        content_key = json.dumps([role, parts, parent])
        name = f"b2:{hashlib.blake2b(content_key.encode(), digest_size=16).hexdigest()}"
        existing = f"select 1 from messages where hash = '{name}'"
        execute_sql(
            self.path,
            f"insert into messages (hash, parent_hash, role) select ?, ?, ? where not exists ({existing})",
            [(name, parent, role)],
        )
        for position, part in enumerate(parts):
            columns = {"text": None, "tool_name": None, "payload": None} | part
            execute_sql(
                self.path,
                "insert or ignore into parts (message_hash, position, type, tool_name, text, payload)"
                " values (?, ?, ?, ?, ?, ?)",
                [(name, position, columns["type"], columns["tool_name"], columns["text"], columns["payload"])],
            )
        return name

    def add_thread(self, thread_id: str = "t", **columns: Any) -> None:
        row = {"id": thread_id, "name": "A thread", "datetime_utc": timestamp(59).replace("T", " ")}
        insert_row(self.path, "threads", **row | columns)

    def add_turn(
        self,
        prompt: Content | str,
        answer: Content | str,
        parent: str | None = None,
        thread: str = "t",
        **columns: Any,
    ) -> str:
        """Add a call with a prompt that follows `parent` and its answer, and move the tip of the thread there."""
        self.clock += 2
        role = "tool" if isinstance(prompt, list) and prompt[0]["type"] == "tool_result" else "user"
        prompt_hash = self.add_message(role, prompt, parent)
        tip = self.add_message("assistant", answer, prompt_hash)
        row = {
            "id": f"01{self.clock:04}",
            "thread_id": thread,
            "model": "sonnet",
            "datetime_utc": timestamp(self.clock),
        }
        row |= {"parent_message_hash": prompt_hash, "tip_message_hash": tip}
        numbers = {"duration_ms": 500, "input_tokens": 99, "output_tokens": 21}
        insert_row(self.path, "turns", **row | numbers | columns)
        execute_sql(self.path, "update threads set tip_message_hash = ? where id = ?", [(tip, thread)])
        return tip

    # ── before 0.32 ───────────────────────────────────────────────────────────────────────────────────

    def add_response(self, prompt: str | None, answer: str, conversation: str | None = "c", **columns: Any) -> str:
        self.clock += 2
        row = {"id": f"01{self.clock:04}", "model": "gpt", "prompt": prompt, "response": answer, "options_json": "{}"}
        row |= {"conversation_id": conversation, "datetime_utc": timestamp(self.clock)}
        insert_row(self.path, "responses", **row | columns)
        return str((row | columns)["id"])

    def add_conversation(self, conversation_id: str = "c", name: str = "A talk") -> None:
        insert_row(self.path, "conversations", id=conversation_id, name=name, model="gpt")
