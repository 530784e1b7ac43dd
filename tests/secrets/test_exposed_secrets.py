"""These tests check secrets that are plain text in a foreign store. A sync reads only their names."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from command_line import CommandLine
from foreign_databases import execute_sql, make_database, sync_paths

from store.errors import NotFound
from store.store import Store

SCHEMA = """
create table sessions (
    session text primary key, webhook text, summary text default '', created_at datetime default current_timestamp,
    updated_at datetime default current_timestamp
);
create table messages (
    id integer primary key autoincrement, session text not null, user text, role text not null, content text not null,
    timestamp datetime default current_timestamp
);
create table secrets (
    id integer primary key autoincrement, session text not null, key text not null, value text not null,
    created_at datetime default current_timestamp, unique (session, key)
);
create table meta (key text primary key, value text not null, updated_at datetime default current_timestamp);
"""
VALUE = "tok-5d41402abc4b2a76-made-up"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    path = make_database(tmp_path / "kiso.db", SCHEMA)
    execute_sql(path, "insert into sessions (session) values ('dev')")
    execute_sql(path, "insert into messages (session, role, content) values ('dev', 'user', 'hello')")
    execute_sql(path, "insert into secrets (session, key, value) values ('dev', 'api_token', ?)", [(VALUE,)])
    return path


def read_store_files(store: Store) -> bytes:
    return b"".join(path.read_bytes() for path in store.path.parent.glob("store.db*") if path.is_file())


def test_a_sync_reads_the_name_and_never_the_value(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    (exposed,) = store.secrets.exposed()
    assert (exposed.key, exposed.locator) == ("api_token", str(foreign))
    assert store.secrets.names() == []
    assert VALUE.encode() not in read_store_files(store)


def test_sealing_reads_the_current_value_and_leaves_the_plain_text(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    session = store.sessions.find("dev")
    execute_sql(foreign, "update secrets set value = value || '-newer'")
    store.write_back.seal(session, "api_token")
    assert store.secrets.get(session, "api_token") == f"{VALUE}-newer"
    assert store.secrets.exposed() == []
    assert VALUE.encode() not in read_store_files(store)
    assert sqlite3.connect(foreign).execute("select value from secrets").fetchall() == [(f"{VALUE}-newer",)]
    store.journal.undo()
    assert len(store.secrets.exposed()) == 1
    with pytest.raises(NotFound, match="has no secret"):
        store.write_back.seal(session, "another")


def test_on_the_command_line(store: Store, foreign: Path) -> None:
    cli = CommandLine(store.path)
    sync_paths(store, foreign)
    errors = cli("secrets", "list", "dev").err
    assert "api_token is plain text" in errors
    assert "secrets seal" in errors
    (exposed,) = cli("secrets", "list", "dev", "--json").json["exposed"]
    assert set(exposed) == {"session", "key", "locator", "place"}
    ran = cli("secrets", "seal", "dev", "api_token")
    assert (ran.status, "still has the plain text" in ran.err) == (0, True)
    assert VALUE not in ran.err
    assert cli("secrets", "get", "dev", "api_token", "--reveal").out.strip() == VALUE
    assert cli("secrets", "seal", "dev", "nothing").status == 1


def test_a_purge_deletes_the_names(store: Store, foreign: Path) -> None:
    sync_paths(store, foreign)
    store.sessions.purge([store.sessions.find("dev")])
    assert store.secrets.exposed() == []


def test_an_exposed_secret_is_read_live_and_its_place_is_named(store: Store, foreign: Path) -> None:
    cli = CommandLine(store.path)
    sync_paths(store, foreign)
    execute_sql(foreign, "update secrets set value = value || '-newer'")
    ran = cli("secrets", "get", "dev", "api_token", "--reveal")
    assert (ran.status, ran.out) == (0, f"{VALUE}-newer\n")
    assert f"api_token is plain text in {foreign} (secrets:1)" in ran.err
    assert VALUE not in ran.err
    assert (store.secrets.names(), VALUE.encode() in read_store_files(store)) == ([], False)
    refused = cli("secrets", "get", "dev", "api_token")
    assert (refused.status, refused.out) == (1, "")


def test_a_locked_vault_does_not_hide_what_is_not_in_it(store: Store, foreign: Path) -> None:
    cli = CommandLine(store.path)
    sync_paths(store, foreign)
    store.set_secret(store.sessions.find("dev").id, "sealed", "value")
    store.secrets.use_passphrase("correct horse")
    assert cli("secrets", "get", "dev", "api_token", "--reveal").out == f"{VALUE}\n"
    assert "locked" in cli("secrets", "get", "dev", "sealed", "--reveal").err
    arguments = ("secrets", "get", "dev", "sealed", "--reveal", "--passphrase-stdin")
    assert cli(*arguments, stdin="correct horse\n").out == "value\n"


def test_an_exposed_secret_that_is_gone(store: Store, foreign: Path) -> None:
    cli = CommandLine(store.path)
    sync_paths(store, foreign)
    execute_sql(foreign, "delete from secrets")
    ran = cli("secrets", "get", "dev", "api_token", "--reveal")
    assert (ran.status != 0, ran.out) == (True, "")
    assert "Kiso has no secret 'api_token' of this session" in ran.err
