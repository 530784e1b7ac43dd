"""Tests that a server that cannot be used costs one sentence, and that local work goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from postgres_server import PASSWORD, PostgresServer
from teams.stores import OpenMember, sync_all, trust_all

from store.errors import Refused, StoreError, WriteFailed
from store.store import Store


@pytest.fixture
def small_disk(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Provide the address of a database on a disk of 20 MB, and a function that makes the disk larger."""
    folder, name = postgres_server.folder / f"small-{uuid4().hex[:8]}", f"small_{uuid4().hex[:8]}"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("Only root can make a small disk.")
    try:
        shutil.chown(folder, "nobody")
        folder.chmod(0o700)
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
        with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
            connection.execute(f"create tablespace {name} location '{folder}'")
            connection.execute(f"create database {name} tablespace {name}")
            yield postgres_server.url(name), lambda: _remount(folder)
            connection.execute(f"drop database {name} with (force)")
            connection.execute(f"drop tablespace {name}")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _remount(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=100m", str(folder)], check=True)


def test_a_full_disk_of_the_server_is_one_sentence_and_loses_nothing(
    small_disk: tuple[str, Callable[[], None]], store: Store, tmp_path: Path, blank: Path
) -> None:
    address, grow = small_disk
    store.team.join(address, "anna")
    for n in range(12):
        store.create_session(f"s{n}")
        store.append_message(f"s{n}", "user", [{"type": "text", "text": os.urandom(1_000_000).hex()}])
        store.team.share(store.sessions.get(f"s{n}"))
    with pytest.raises(WriteFailed, match=r"The disk of the server .* is full\. .* sent later\."):
        store.team.sync()
    waiting = store.team.status().waiting
    assert waiting > 0
    store.append_message("s0", "user", [{"type": "text", "text": "Local work goes on."}])
    grow()
    store.team.sync()
    assert store.team.status().waiting == 0
    with Store.open(shutil.copy(blank, tmp_path / "ben.db")) as ben:
        ben.team.join(address, "ben")
        trust_all(store, ben)
        sync_all(store, ben)
        assert sorted(session.turns for session in ben.sessions.newest()) == [1] * 11 + [2]


def test_a_role_that_may_not_create_a_schema_is_told_so(
    team_address: str, store: Store, postgres_server: PostgresServer
) -> None:
    role = f"reader_{uuid4().hex[:8]}"
    with psycopg.connect(team_address, autocommit=True) as connection:
        connection.execute(f"create role {role} login password '{PASSWORD}'")
    with pytest.raises(Refused, match=r"does not allow that: permission denied .* Ask its owner\."):
        store.team.join(team_address.replace("postgres@", f"{role}@"), "anna")
    assert not store.team.is_member


def test_a_database_that_is_not_there_is_one_sentence(
    store: Store, team_address: str, postgres_server: PostgresServer
) -> None:
    with pytest.raises(StoreError, match=r'database "nowhere" does not exist\. Your own sessions are not affected\.'):
        store.team.join(postgres_server.url("nowhere"), "anna")  # the password is in the environment
    assert not store.team.is_member


@pytest.mark.parametrize(
    "damage",
    [
        "create schema backscroll_team; create table backscroll_team.migrations (name text)",
        "create schema backscroll_team; create table backscroll_team.team (name text)",
        "create schema backscroll_team; create view backscroll_team.migrations as select 1 as number",
    ],
)
def test_a_database_with_tables_of_somebody_else_is_left_alone(store: Store, team_address: str, damage: str) -> None:
    with psycopg.connect(team_address, autocommit=True) as connection:
        connection.execute(damage)
    with pytest.raises(StoreError) as error:
        store.team.join(team_address, "anna")
    assert str(error.value).count("\n") == 0
    assert not store.team.is_member


def test_tables_that_were_dropped_are_one_sentence(open_member: OpenMember, team_address: str) -> None:
    anna = open_member("anna")
    anna.create_session("s1")
    anna.append_message("s1", "user", [{"type": "text", "text": "Begin."}])
    anna.team.share(anna.sessions.get("s1"))
    with psycopg.connect(team_address, autocommit=True) as connection:
        connection.execute("drop schema backscroll_team cascade")
    with pytest.raises(StoreError, match="has no team any more") as error:
        anna.team.sync()
    assert "Run `backscroll team leave`" in str(error.value)
    assert anna.sessions.get("s1").turns == 1
