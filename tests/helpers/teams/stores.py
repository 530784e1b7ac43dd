"""This module provides stores that are members of one team, with a real PostgreSQL server between them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from postgres_server import PASSWORD, PostgresServer

from store.store import Store

OpenMember = Callable[[str], Store]


def sync_all(*stores: Store) -> None:
    """Exchange changes until nothing is new anywhere."""
    for _ in range(2):
        for store in stores:
            store.team.sync()


def trust_all(*stores: Store) -> None:
    for store in stores:
        store.team.sync()
        for machine in store.team.members():
            if not machine.is_own:
                store.team.trust(machine.name, machine.machine)


@pytest.fixture(scope="session")
def team_database(postgres_server: PostgresServer) -> str:
    """Provide the address of a database that all tests use, because creating one takes longer than most tests."""
    postgres_server.create_database("team")
    return postgres_server.url("team")


@pytest.fixture
def team_address(team_database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Provide the address of a database without a team, whose password is in the environment."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with psycopg.connect(team_database, autocommit=True) as connection:
        connection.execute("drop schema if exists backscroll_team cascade")
    return team_database


@pytest.fixture
def open_member(tmp_path: Path, blank: Path, team_address: str) -> Iterator[OpenMember]:
    """Provide a function that opens a new store which joins the team under a name."""
    stores: list[Store] = []

    def open_store(name: str) -> Store:
        store = Store.open(shutil.copy(blank, tmp_path / f"{name}-{len(stores)}.db"))
        stores.append(store)
        store.team.join(team_address, name)
        return store

    yield open_store
    for store in stores:
        store.close()
