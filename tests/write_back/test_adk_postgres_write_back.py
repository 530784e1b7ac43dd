"""Corrected state carried back into google-adk's PostgreSQL database, on a real server that asks for a password."""

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
from postgres_server import PASSWORD, PostgresServer, postgres_server  # noqa: F401 a fixture
from write_back_roundtrip import Dump, WriteBackCase, check_round_trip

from store.errors import BadValue, Busy, ChangedMeanwhile, Unreadable, WriteFailed
from store.sources.kit.write_plan import RowChange
from store.store import Store
from store.write_back.service import WriteBackPreview

for needed in ("psycopg", "sqlalchemy"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; `make test` installs it")
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
"""As the server spells it."""
KEY = {"app_name": "dak", "user_id": "ana", "id": "s1"}


@dataclass
class Served(WriteBackCase):
    """A database on the server and our store, which has read it."""

    base: AdkPostgresDatabase = field(kw_only=True)

    def sync(self) -> list[Any]:
        return sync_paths(self.store, self.base.url_without_password).problems

    def foreign_rows(self) -> Dump:
        """As text, whatever it is."""
        with psycopg.connect(self.base.url) as connection:
            tables: dict[str, list[str]] = {}
            columns = "select table_name, quote_ident(column_name) from information_schema.columns"
            for table, column in connection.execute(f"{columns} where table_schema = 'public' order by 1, 2"):
                tables.setdefault(table, []).append(column)
            return {table: self._table_rows(connection, table, names) for table, names in tables.items()}

    def _table_rows(self, connection: Any, table: str, names: list[str]) -> list[dict[str, Any]]:
        casts = ", ".join(f"cast({name} as text)" for name in names)
        plain = [name.strip('"').replace('""', '"') for name in names]
        found = connection.execute(f"select {casts} from {table}").fetchall()
        return sorted((dict(zip(plain, row, strict=True)) for row in found), key=repr)

    def check_backup(self, backup: Path, before: Dump, preview: WriteBackPreview) -> None:
        """There is no file to copy: it holds what will change."""
        assert stat.S_IMODE(backup.stat().st_mode) == 0o600
        kept = json.loads(backup.read_bytes())
        assert kept["locator"] == self.base.url_without_password
        assert kept["rows"] == [
            {"table": change.table, "key": change.key, "columns": change.before} for change in preview.plan.changes
        ]

    def correct(self, old: str, new: str) -> Served:
        self.store.facts.edit(self.fact_id(old), new)
        return self


@pytest.fixture
def base(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> AdkPostgresDatabase:  # noqa: F811
    base = AdkPostgresDatabase(postgres_server)
    monkeypatch.setenv("SESSION_SERVICE_URI", base.async_url)
    return base


@pytest.fixture
def world(base: AdkPostgresDatabase, store: Store) -> Served:
    base.execute(V1_TABLES)
    return Served(store, Path(), "dak/ana/s1", base=base)


# ── there and back ────────────────────────────────────────────────────────────────────────────────


def test_one_key_of_each_state(world: Served) -> None:
    world.correct("topic: old", 'topic: {"zeta": 1, "a": "né"}')
    world.correct("motd: hello", "motd: 100 %s?")
    world.store.facts.retire(world.fact_id("lang: en"))
    preview = check_round_trip(world)
    session, app, user = preview.plan.changes
    assert session == RowChange(
        "sessions",
        KEY,
        {"state": STATE},
        {"state": '{"b": 12345678901234567890123, "zz": 1.10, "topic": {"a": "né", "zeta": 1}}'},
    )
    assert app.after == {"state": '{"motd": "100 %s?", "limit": 3}'}
    assert (user.before, user.after) == ({"state": '{"lang": "en"}'}, {"state": "{}"})


def test_v0(base: AdkPostgresDatabase, store: Store) -> None:
    base.execute(V0_SCHEMA)
    world = Served(store, Path(), "dak/ana/s1", base=base)
    (change,) = check_round_trip(world.correct("topic: old", "topic: new")).plan.changes
    assert change == RowChange("sessions", KEY, {"state": '{"topic": "old"}'}, {"state": '{"topic": "new"}'})
    changes = check_round_trip(world.delete_session()).plan.changes
    assert [(change.table, (change.before or {}).get("actions")) for change in changes] == [
        ("events", "\\x80"),
        ("events", "\\x80ff00"),
        ("sessions", None),
    ]


def test_a_session_is_deleted_and_put_back(world: Served) -> None:
    before = world.foreign_rows()
    changes = check_round_trip(world.delete_session()).plan.changes
    assert [change.table for change in changes] == ["events", "events", "sessions"]
    world.write()
    after = world.foreign_rows()
    assert (after["events"], after["sessions"]) == ([], [])
    assert (after["app_states"], after["user_states"]) == (before["app_states"], before["user_states"])


def test_backups_are_kept_like_others_and_expire(world: Served) -> None:
    for n in range(4):
        world.store.facts.edit(world.fact_id("lang: en" if n == 0 else f"lang: {n}"), f"lang: {n + 1}")
        world.write()
        world.store.journal.undo()
        world.store.journal.undo(world.newest_edit().id)
    kept = world.store.write_back.list_backups("adk", world.base.url_without_password)
    assert len(kept) == 5
    assert all(backup.suffix == ".json" for backup in kept)


# ── what happens meanwhile ────────────────────────────────────────────────────────────────────────


def test_a_value_that_its_owner_changed_is_not_written_over(world: Served) -> None:
    world.correct("motd: hello", "motd: bye")
    world.base.execute("""update app_states set state = '{"motd": "welcome"}'""")
    before = world.foreign_rows()
    with pytest.raises(ChangedMeanwhile, match="'motd' was changed there"):
        world.write()
    assert world.foreign_rows() == before


def test_a_state_that_changed_since_it_was_looked_at_is_compared(world: Served) -> None:
    world.correct("lang: en", "lang: de")
    preview = world.correct("motd: hello", "motd: bye").preview()
    world.base.execute("""update user_states set state = '{"lang": "en", "more": 1}'""")
    before = world.foreign_rows()
    with pytest.raises(ChangedMeanwhile, match="user_states dak ana"):
        world.store.write_back.write(preview)
    assert world.foreign_rows() == before, "what was written before it is taken back too"
    world.write()
    assert json.loads(world.foreign_rows()["user_states"][0]["state"]) == {"lang": "de", "more": 1}


def test_undo_leaves_what_its_owner_wrote_since(world: Served) -> None:
    world.correct("lang: en", "lang: de").write()
    world.base.execute("""update user_states set state = '{"lang": "fr"}'""")
    before = world.foreign_rows()
    with pytest.raises(ChangedMeanwhile):
        world.store.journal.undo()
    assert world.foreign_rows() == before


def test_an_event_that_came_since_is_not_deleted_unseen(world: Served) -> None:
    preview = world.delete_session().preview()
    world.base.execute("insert into events values ('c', 'dak', 'ana', 's1', 'e-2', '2026-11-16 12:00:02', '{}')")
    before = world.foreign_rows()
    with pytest.raises(ChangedMeanwhile):
        world.store.write_back.write(preview)
    assert world.foreign_rows() == before


@contextmanager
def locked(base: AdkPostgresDatabase, sql: str) -> Iterator[None]:
    with psycopg.connect(base.url) as other:
        other.execute(sql)
        yield


def test_it_gives_way_to_who_holds_a_row(world: Served) -> None:
    world.correct("topic: old", "topic: new")
    preview = world.correct("lang: en", "lang: de").preview()
    before = world.foreign_rows()
    with (
        locked(world.base, "select * from user_states for update"),
        pytest.raises(Busy, match="Another program is writing to"),
    ):
        world.store.write_back.write(preview)
    assert (world.foreign_rows(), world.newest_edit().kind) == (before, "edit fact")
    world.store.write_back.write(preview)
    assert json.loads(world.foreign_rows()["user_states"][0]["state"]) == {"lang": "de"}


@contextmanager
def once_we_wait(base: AdkPostgresDatabase, act: Callable[[Any], object]) -> Iterator[None]:
    """Holds a row; when we wait for it, acts on the server."""
    with psycopg.connect(base.url) as other, psycopg.connect(base.url, autocommit=True) as watching:
        other.execute("""update user_states set state = '{"lang": "fr"}'""")

        def watch() -> None:
            ours = "select wait_event_type from pg_stat_activity where application_name = 'backscroll'"
            while ("Lock",) not in watching.execute(ours).fetchall():
                time.sleep(0.01)
            act(watching)
            other.commit()

        thread = Thread(target=watch)
        thread.start()
        yield
        thread.join()


def test_what_is_being_written_is_waited_for_and_not_written_over(world: Served) -> None:
    preview = world.correct("lang: en", "lang: de").preview()
    with once_we_wait(world.base, lambda _: None), pytest.raises((ChangedMeanwhile, Busy)):
        world.store.write_back.write(preview)
    assert json.loads(world.foreign_rows()["user_states"][0]["state"]) == {"lang": "fr"}


def test_a_lost_connection_is_said(world: Served) -> None:
    world.correct("topic: old", "topic: new")
    preview = world.correct("lang: en", "lang: de").preview()
    end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'backscroll'"
    with (
        once_we_wait(world.base, lambda server: server.execute(end)),
        pytest.raises(WriteFailed, match="was lost; sync to see whether it was written to"),
    ):
        world.store.write_back.write(preview)
    assert json.loads(world.foreign_rows()["sessions"][0]["state"])["topic"] == "old"


def test_readers_do_not_hold_it_up(world: Served) -> None:
    with locked(world.base, "select * from user_states"):
        world.correct("lang: en", "lang: de").write()
    assert json.loads(world.foreign_rows()["user_states"][0]["state"]) == {"lang": "de"}


def test_what_postgres_cannot_keep_is_refused_before_anything_is_written(world: Served) -> None:
    world.correct("lang: en", r'lang: "a\u0000b"')
    with pytest.raises(BadValue, match="PostgreSQL cannot store a value of user_states"):
        world.preview()


# ── passwords ─────────────────────────────────────────────────────────────────────────────────────


def test_the_password_is_kept_nowhere(world: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    preview = world.correct("lang: en", "lang: de").preview()
    world.store.write_back.write(preview)
    world.store.journal.undo()
    world.store.checkpoint()
    shown = f"{preview}{world.newest_edit()}{caplog.text}".encode()
    files = b"".join(path.read_bytes() for path in world.store.path.parent.rglob("*") if path.is_file())
    assert world.base.url_without_password.encode() in files
    for spelled in (PASSWORD, QUOTED_PASSWORD):
        assert spelled.encode() not in shown + files


@pytest.mark.parametrize("given", ["PGPASSWORD", "PGPASSFILE"])
def test_undo_finds_the_password_again(
    world: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str
) -> None:
    before = world.foreign_rows()
    world.correct("lang: en", "lang: de").write()
    written = world.foreign_rows()
    monkeypatch.delenv("SESSION_SERVICE_URI")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
    with pytest.raises(WriteFailed, match="give one in SESSION_SERVICE_URI, PGPASSWORD or"):
        world.store.journal.undo()
    assert (world.foreign_rows(), world.newest_edit().kind) == (written, "write-back")
    if given == "PGPASSWORD":
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
    else:
        (tmp_path / "pgpass").write_text(f"*:*:{world.base.name}:postgres:{PASSWORD}\n")
        (tmp_path / "pgpass").chmod(0o600)
    world.store.journal.undo()
    assert world.foreign_rows() == before


def test_a_preview_without_a_password_says_where_one_may_stand(
    world: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SESSION_SERVICE_URI")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    with pytest.raises(Unreadable, match="give one in SESSION_SERVICE_URI, PGPASSWORD or"):
        world.preview()


# ── by the command line ───────────────────────────────────────────────────────────────────────────


def test_the_command_line_says_what_was_backed_up(world: Served) -> None:
    world.correct("lang: en", "lang: de")
    before = world.foreign_rows()
    line = CommandLine(world.store.path)
    shown = line("write-back", world.session.id, "--dry-run")
    assert shown.out.splitlines() == [
        "user_states dak ana",
        '  - state: {"lang": "en"}',
        '  + state: {"lang": "de"}',
    ]
    assert world.foreign_rows() == before
    written = line("write-back", world.session.id)
    assert written.status == 0
    assert f"1 row written to {world.base.url_without_password}; the old rows are saved in " in written.err
    assert line("undo").status == 0
    assert world.foreign_rows() == before
