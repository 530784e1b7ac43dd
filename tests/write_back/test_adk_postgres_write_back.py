"""These tests write edited state back to google-adk's PostgreSQL database, on a real server with a password."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from adk_postgres_database import QUOTED_PASSWORD, V0_SCHEMA, AdkPostgresDatabase, clear_postgres_environment  # noqa: F401 a fixture
from command_line import CommandLine
from foreign_databases import sync_paths
from postgres_server import PASSWORD, PostgresServer
from write_back_roundtrip import Dump, WriteBackCase, check_round_trip

from store.errors import BadValue, Busy, ChangedMeanwhile, Refused, Unreadable, WriteFailed
from store.paths import unfinished_folder
from store.sources.kit.postgres import ConnectionLost
from store.sources.kit.write_plan import RowChange
from store.store import Store
from store.write_back.service import WriteBackPreview

for package in ("psycopg", "sqlalchemy"):
    pytest.importorskip(package, reason=f"{package} is not installed; `make test` installs it")
psycopg: Any = pytest.importorskip("psycopg")

V1_TABLES = """
create table adk_internal_metadata (key varchar(128) primary key, value varchar(256) not null);
insert into adk_internal_metadata values ('schema_version', '1');
create table app_states (app_name varchar(128) primary key, state jsonb not null, update_time timestamp not null);
create table user_states (app_name varchar(128) not null, user_id varchar(128) not null, state jsonb not null,
    update_time timestamp not null, primary key (app_name, user_id));
create table sessions (app_name varchar(128) not null, user_id varchar(128) not null, id varchar(128) not null,
    state jsonb not null, create_time timestamp not null, update_time timestamp not null,
    primary key (app_name, user_id, id));
create table events (id varchar(128) not null, app_name varchar(128) not null, user_id varchar(128) not null,
    session_id varchar(128) not null, invocation_id varchar(256) not null, timestamp timestamp not null,
    event_data jsonb, "an ""odd"" one" numeric(9, 3)[], primary key (id, app_name, user_id, session_id),
    foreign key (app_name, user_id, session_id) references sessions (app_name, user_id, id) on delete cascade);
insert into app_states values ('dak', '{"motd": "hello", "limit": 3}', '2026-11-16 12:00:00');
insert into user_states values ('dak', 'ana', '{"lang": "en"}', '2026-11-16 12:00:00.123456');
insert into sessions values ('dak', 'ana', 's1', '{"topic": "old", "zz": 1.10, "b": 12345678901234567890123}',
    '2026-11-16 12:00:00', '2026-11-16 12:00:01.5');
insert into events values ('b', 'dak', 'ana', 's1', 'e-1', '2026-11-16 12:00:00.25',
    '{"author": "user", "timestamp": 1794830400.25, "content": {"parts": [{"text": "100% ?"}], "role": "user"}}',
    '{1.5, null}');
insert into events values ('a', 'dak', 'ana', 's1', 'e-1', '2026-11-16 12:00:01', null, null);
"""
STATE = '{"b": 12345678901234567890123, "zz": 1.10, "topic": "old"}'
"""The state as the server formats it."""
KEY = {"app_name": "dak", "user_id": "ana", "id": "s1"}


@dataclass
class PostgresCase(WriteBackCase):
    """Has a database on the server, and a store of ours that has read it."""

    database: AdkPostgresDatabase = field(kw_only=True)

    def sync(self) -> list[Any]:
        return sync_paths(self.store, self.database.url_without_password).problems

    def foreign_rows(self) -> Dump:
        """Return all rows of all tables, with every value as text."""
        with psycopg.connect(self.database.url) as connection:
            tables: dict[str, list[str]] = {}
            columns = "select table_name, quote_ident(column_name) from information_schema.columns"
            for table, column in connection.execute(f"{columns} where table_schema = 'public' order by 1, 2"):
                tables.setdefault(table, []).append(column)
            return {table: self._table_rows(connection, table, names) for table, names in tables.items()}

    def _table_rows(self, connection: Any, table: str, names: list[str]) -> list[dict[str, Any]]:
        casts = ", ".join(f"cast({name} as text)" for name in names)
        column_names = [name.strip('"').replace('""', '"') for name in names]
        rows = connection.execute(f"select {casts} from {table}").fetchall()
        return sorted((dict(zip(column_names, row, strict=True)) for row in rows), key=repr)

    def check_backup(self, backup: Path, before: Dump, preview: WriteBackPreview) -> None:
        """Check the backup: it holds the rows that change, since there is no file to copy."""
        assert stat.S_IMODE(backup.stat().st_mode) == 0o600
        saved = json.loads(backup.read_bytes())
        assert saved["locator"] == self.database.url_without_password
        assert saved["rows"] == [
            {"table": change.table, "key": change.key, "columns": change.before} for change in preview.plan.changes
        ]

    def edit_fact(self, old: str, new: str) -> PostgresCase:
        self.store.facts.edit(self.fact_id(old), new)
        return self


@pytest.fixture
def database(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> AdkPostgresDatabase:
    database = AdkPostgresDatabase(postgres_server)
    monkeypatch.setenv("SESSION_SERVICE_URI", database.async_url)
    return database


@pytest.fixture
def case(database: AdkPostgresDatabase, store: Store) -> PostgresCase:
    database.execute(V1_TABLES)
    return PostgresCase(store, Path(), "dak/ana/s1", database=database)


# ── round trips ───────────────────────────────────────────────────────────────────────────────────


def test_one_key_of_each_state(case: PostgresCase) -> None:
    case.edit_fact("topic: old", 'topic: {"zeta": 1, "a": "né"}')
    case.edit_fact("motd: hello", "motd: 100 %s?")
    case.store.facts.retire(case.fact_id("lang: en"))
    preview = check_round_trip(case)
    session, app, user = preview.plan.changes
    assert session == RowChange(
        "sessions",
        KEY,
        {"state": STATE},
        {"state": '{"b": 12345678901234567890123, "zz": 1.10, "topic": {"a": "né", "zeta": 1}}'},
    )
    assert app.after == {"state": '{"motd": "100 %s?", "limit": 3}'}
    assert (user.before, user.after) == ({"state": '{"lang": "en"}'}, {"state": "{}"})


def test_v0(database: AdkPostgresDatabase, store: Store) -> None:
    database.execute(V0_SCHEMA)
    case = PostgresCase(store, Path(), "dak/ana/s1", database=database)
    (change,) = check_round_trip(case.edit_fact("topic: old", "topic: new")).plan.changes
    assert change == RowChange("sessions", KEY, {"state": '{"topic": "old"}'}, {"state": '{"topic": "new"}'})
    changes = check_round_trip(case.delete_session()).plan.changes
    assert [(change.table, (change.before or {}).get("actions")) for change in changes] == [
        ("events", "\\x80"),
        ("events", "\\x80ff00"),
        ("sessions", None),
    ]


def test_a_session_is_deleted_and_put_back(case: PostgresCase) -> None:
    before = case.foreign_rows()
    changes = check_round_trip(case.delete_session()).plan.changes
    assert [change.table for change in changes] == ["events", "events", "sessions"]
    case.write()
    after = case.foreign_rows()
    assert (after["events"], after["sessions"]) == ([], [])
    assert (after["app_states"], after["user_states"]) == (before["app_states"], before["user_states"])


def test_backups_are_kept_like_others_and_expire(case: PostgresCase) -> None:
    for n in range(4):
        case.store.facts.edit(case.fact_id("lang: en" if n == 0 else f"lang: {n}"), f"lang: {n + 1}")
        case.write()
        case.store.journal.undo()
        case.store.journal.undo(case.newest_edit().id)
    backups = case.store.write_back.list_backups("adk", case.database.url_without_password)
    assert len(backups) == 5
    assert all(backup.suffix == ".json" for backup in backups)


# ── concurrent changes ────────────────────────────────────────────────────────────────────────────


def test_a_value_that_its_owner_changed_is_not_overwritten(case: PostgresCase) -> None:
    case.edit_fact("motd: hello", "motd: bye")
    case.database.execute("""update app_states set state = '{"motd": "welcome"}'""")
    before = case.foreign_rows()
    with pytest.raises(ChangedMeanwhile, match="'motd' was changed in google-adk"):
        case.write()
    assert case.foreign_rows() == before


def test_a_state_that_changed_since_the_preview_is_refused(case: PostgresCase) -> None:
    case.edit_fact("lang: en", "lang: de")
    preview = case.edit_fact("motd: hello", "motd: bye").preview()
    case.database.execute("""update user_states set state = '{"lang": "en", "more": 1}'""")
    before = case.foreign_rows()
    with pytest.raises(ChangedMeanwhile, match="user_states dak ana"):
        case.store.write_back.write(preview)
    assert case.foreign_rows() == before, "earlier changes of the transaction are rolled back, too"
    case.write()
    assert json.loads(case.foreign_rows()["user_states"][0]["state"]) == {"lang": "de", "more": 1}


def test_undo_keeps_what_its_owner_wrote_later(case: PostgresCase) -> None:
    case.edit_fact("lang: en", "lang: de").write()
    case.database.execute("""update user_states set state = '{"lang": "fr"}'""")
    before = case.foreign_rows()
    with pytest.raises(ChangedMeanwhile):
        case.store.journal.undo()
    assert case.foreign_rows() == before


def test_an_event_since_the_preview_is_not_deleted(case: PostgresCase) -> None:
    preview = case.delete_session().preview()
    case.database.execute("insert into events values ('c', 'dak', 'ana', 's1', 'e-2', '2026-11-16 12:00:02', '{}')")
    before = case.foreign_rows()
    with pytest.raises(ChangedMeanwhile):
        case.store.write_back.write(preview)
    assert case.foreign_rows() == before


@contextmanager
def locked(database: AdkPostgresDatabase, sql: str) -> Iterator[None]:
    with psycopg.connect(database.url) as other:
        other.execute(sql)
        yield


def test_a_locked_row_is_not_waited_for(case: PostgresCase) -> None:
    case.edit_fact("topic: old", "topic: new")
    preview = case.edit_fact("lang: en", "lang: de").preview()
    before = case.foreign_rows()
    with (
        locked(case.database, "select * from user_states for update"),
        pytest.raises(Busy, match="Another program is writing to"),
    ):
        case.store.write_back.write(preview)
    assert (case.foreign_rows(), case.newest_edit().kind) == (before, "edit fact")
    case.store.write_back.write(preview)
    assert json.loads(case.foreign_rows()["user_states"][0]["state"]) == {"lang": "de"}


@contextmanager
def act_while_we_wait(database: AdkPostgresDatabase, action: Callable[[Any], object]) -> Iterator[None]:
    """Lock a row, and act on the server as soon as we wait for the row."""
    with psycopg.connect(database.url) as other, psycopg.connect(database.url, autocommit=True) as watching:
        other.execute("""update user_states set state = '{"lang": "fr"}'""")

        def watch() -> None:
            sql = "select wait_event_type from pg_stat_activity where application_name = 'backscroll'"
            while ("Lock",) not in watching.execute(sql).fetchall():
                time.sleep(0.01)
            action(watching)
            other.commit()

        thread = Thread(target=watch)
        thread.start()
        yield
        thread.join()


def test_a_row_that_is_being_written_is_not_overwritten(case: PostgresCase) -> None:
    preview = case.edit_fact("lang: en", "lang: de").preview()
    with act_while_we_wait(case.database, lambda _: None), pytest.raises((ChangedMeanwhile, Busy)):
        case.store.write_back.write(preview)
    assert json.loads(case.foreign_rows()["user_states"][0]["state"]) == {"lang": "fr"}


def test_a_trigger_is_named_and_nothing_is_written(case: PostgresCase) -> None:
    case.edit_fact("topic: old", "topic: new")
    planned = case.preview()
    case.database.execute(
        "create function clear() returns trigger language plpgsql as 'begin delete from events; return new; end';"
        "create trigger clearing before update on sessions for each row execute function clear()"
    )
    before = case.foreign_rows()
    reason = "The trigger clearing in the agent's store could change other rows. Nothing can be written while"
    assert [sentence.startswith(reason) for sentence in case.preview().plan.conflicts] == [True]
    with pytest.raises(Refused, match="The trigger clearing"):
        case.store.write_back.write(planned)
    assert case.foreign_rows() == before


END_CONNECTIONS = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'backscroll'"


def test_a_lost_connection_is_reported(case: PostgresCase) -> None:
    case.edit_fact("topic: old", "topic: new")
    preview = case.edit_fact("lang: en", "lang: de").preview()
    with (
        act_while_we_wait(case.database, lambda server: server.execute(END_CONNECTIONS)),
        pytest.raises(ConnectionLost, match="was lost"),
    ):
        case.store.write_back.write(preview)
    assert json.loads(case.foreign_rows()["sessions"][0]["state"])["topic"] == "old"


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_connection_that_is_lost_at_the_commit_does_not_split_the_write_back(
    case: PostgresCase, is_committed: bool
) -> None:
    """The answer of the server to the commit may be lost, too."""
    from sqlalchemy import Engine, event

    def lose_connection_at_commit(connection: Any) -> None:
        def commit_and_lose() -> None:
            if is_committed:
                commit()
            with psycopg.connect(case.database.url, autocommit=True) as server:
                server.execute(END_CONNECTIONS)
            raw.execute("select 1")  # fails as a commit would

        raw = connection.connection.dbapi_connection
        commit, raw.commit = raw.commit, commit_and_lose

    before = case.foreign_rows()
    preview = case.edit_fact("lang: en", "lang: de").preview()
    event.listen(Engine, "commit", lose_connection_at_commit)
    try:
        with pytest.raises(ConnectionLost):
            case.store.write_back.write(preview)
    finally:
        event.remove(Engine, "commit", lose_connection_at_commit)
    assert (case.foreign_rows() != before) == is_committed
    with Store.open(case.store.path) as reopened:
        newest = reopened.journal.list_edits(limit=1)[0]
        assert (newest.kind == "write-back") == is_committed
        if is_committed:
            reopened.journal.undo()
    assert case.foreign_rows() == before
    assert not unfinished_folder(case.store.path).exists()


def test_readers_do_not_delay_a_write_back(case: PostgresCase) -> None:
    with locked(case.database, "select * from user_states"):
        case.edit_fact("lang: en", "lang: de").write()
    assert json.loads(case.foreign_rows()["user_states"][0]["state"]) == {"lang": "de"}


def test_a_value_that_postgres_cannot_store_is_refused_in_the_preview(case: PostgresCase) -> None:
    case.edit_fact("lang: en", r'lang: "a\u0000b"')
    with pytest.raises(BadValue, match="PostgreSQL cannot store a value of user_states"):
        case.preview()


# ── passwords ─────────────────────────────────────────────────────────────────────────────────────


def test_the_password_is_stored_nowhere(case: PostgresCase, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    preview = case.edit_fact("lang: en", "lang: de").preview()
    case.store.write_back.write(preview)
    case.store.journal.undo()
    case.store.checkpoint()
    shown = f"{preview}{case.newest_edit()}{caplog.text}".encode()
    files = b"".join(path.read_bytes() for path in case.store.path.parent.rglob("*") if path.is_file())
    assert case.database.url_without_password.encode() in files
    for password in (PASSWORD, QUOTED_PASSWORD):
        assert password.encode() not in shown + files


@pytest.mark.parametrize("given", ["PGPASSWORD", "PGPASSFILE"])
def test_undo_finds_the_password_again(
    case: PostgresCase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str
) -> None:
    before = case.foreign_rows()
    case.edit_fact("lang: en", "lang: de").write()
    written = case.foreign_rows()
    monkeypatch.delenv("SESSION_SERVICE_URI")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    with pytest.raises(WriteFailed, match="give one in SESSION_SERVICE_URI, PGPASSWORD or"):
        case.store.journal.undo()
    assert (case.foreign_rows(), case.newest_edit().kind) == (written, "write-back")
    if given == "PGPASSWORD":
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
    else:
        (tmp_path / "pgpass").write_text(f"*:*:{case.database.name}:postgres:{PASSWORD}\n")
        (tmp_path / "pgpass").chmod(0o600)
    case.store.journal.undo()
    assert case.foreign_rows() == before


def test_a_preview_without_a_password_says_where_to_put_it(
    case: PostgresCase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SESSION_SERVICE_URI")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    with pytest.raises(Unreadable, match="give one in SESSION_SERVICE_URI, PGPASSWORD or"):
        case.preview()


# ── the command line ──────────────────────────────────────────────────────────────────────────────


def test_the_command_line_says_what_was_backed_up(case: PostgresCase) -> None:
    case.edit_fact("lang: en", "lang: de")
    before = case.foreign_rows()
    cli = CommandLine(case.store.path)
    shown = cli("write-back", case.session.id, "--dry-run")
    assert shown.out.splitlines() == [
        "user_states dak ana",
        '  - state: {"lang": "en"}',
        '  + state: {"lang": "de"}',
    ]
    assert case.foreign_rows() == before
    written = cli("write-back", case.session.id)
    assert written.status == 0
    assert f"1 row written to {case.database.url_without_password}; the old rows are saved in " in written.err
    assert cli("undo").status == 0
    assert case.foreign_rows() == before
