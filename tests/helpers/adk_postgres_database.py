"""This module makes a PostgreSQL database with google-adk's tables for a test."""

from __future__ import annotations

import os
from urllib.parse import quote
from uuid import uuid4

import pytest
from postgres_server import PASSWORD, PostgresServer

QUOTED_PASSWORD = quote(PASSWORD)

V0_SCHEMA = """
create table app_states (app_name varchar(128) primary key, state jsonb not null, update_time timestamp not null);
create table sessions (app_name varchar(128) not null, user_id varchar(128) not null, id varchar(128) not null,
    state jsonb not null, create_time timestamp not null, update_time timestamp not null,
    primary key (app_name, user_id, id));
create table events (id varchar(128) not null, app_name varchar(128) not null, user_id varchar(128) not null,
    session_id varchar(128) not null, invocation_id varchar(256) not null, author varchar(256) not null,
    actions bytea not null, long_running_tool_ids_json text, timestamp timestamp not null, content jsonb,
    usage_metadata jsonb, error_code varchar(256), error_message text,
    primary key (id, app_name, user_id, session_id));
insert into sessions values ('dak', 'ana', 's1', '{"topic": "old"}', '2026-11-16 12:00:00', '2026-11-16 12:00:01');
insert into events values ('b', 'dak', 'ana', 's1', 'e-1', 'user', '\\x80ff00', null, '2026-11-16 12:00:00.25',
    '{"role": "user", "parts": [{"text": "From long ago"}]}', null, null, null);
insert into events values ('a', 'dak', 'ana', 's1', 'e-1', 'counter', '\\x80', null, '2026-11-16 12:00:01', null,
    '{"prompt_token_count": 5}', '429', 'quota');
"""


class AdkPostgresDatabase:
    """Creates a new database on the server, and has the URLs that lead to it."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.name = f"dak_{uuid4().hex[:8]}"
        server.create_database(self.name)
        self.url_without_password = server.url(self.name)
        self.url = server.url(self.name, password=QUOTED_PASSWORD)
        self.async_url = server.url(self.name, password=QUOTED_PASSWORD, driver="+asyncpg")

    def execute(self, sql: str) -> None:
        self.server.run("psql", "-h", str(self.server.folder), "-U", "postgres", "-c", sql, self.name, user=None)


@pytest.fixture(autouse=True)
def clear_postgres_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
