"""Tests that all machines hold the same in the end, whatever happened in between."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer
from teams.people import Person, make_team
from teams.stores import OpenMember, sync_all, trust_all

from store.doctor import check_store
from store.errors import StoreError
from store.store import Store
from store.team.incoming import SHORT_ID

KILLS = int(os.environ.get("BACKSCROLL_KILLS", "50"))
PRIVATE = "nobody else may see this"


class Chaos:
    """Lets stores do at random what people do with them, and compares them in the end."""

    def __init__(self, stores: Sequence[Store], seed: int) -> None:
        self._stores = stores
        self._random = random.Random(seed)
        self._count = 0

    def act(self) -> None:
        self._count += 1
        store = self._random.choice(self._stores)
        talk = (self._retitle, self._summarize, self._comment, self._learn, self._change_fact)
        action = self._random.choice(
            (self._write, self._write, self._share, self._unshare, *talk, self._sync, self._sync)
        )
        with suppress(StoreError):  # such as sharing what another one shares
            action(store)

    def _name(self) -> str:
        return f"n{self._count}"

    def _own_sessions(self, store: Store) -> list[str]:
        return [session.id for session in store.sessions.newest(1_000) if not store.team.find_owner(session.id)]

    def _any_session(self, store: Store) -> str:
        return self._random.choice([session.id for session in store.sessions.newest(1_000)] or ["none"])

    def _write(self, store: Store) -> None:
        own = self._own_sessions(store)
        if not own or self._random.random() < 0.3:
            store.create_session(self._name())
            store.append_message(self._name(), "user", [{"type": "text", "text": PRIVATE}])
        else:
            store.append_message(self._random.choice(own), "assistant", [{"type": "text", "text": self._name()}])

    def _share(self, store: Store) -> None:
        store.team.share(store.sessions.get(self._random.choice(self._own_sessions(store) or ["none"])))

    def _unshare(self, store: Store) -> None:
        if self._random.random() < 0.3:
            store.team.unshare(store.sessions.get(self._any_session(store)))

    def _retitle(self, store: Store) -> None:
        store.sessions.set_title(store.sessions.get(self._any_session(store)), self._name())

    def _summarize(self, store: Store) -> None:
        store.summaries.set(store.sessions.get(self._any_session(store)), self._name())

    def _comment(self, store: Store) -> None:
        store.team.comment(store.sessions.get(self._any_session(store)), self._name())

    def _learn(self, store: Store) -> None:
        store.facts.learn(self._name(), scope=self._random.choice(["team", "global"]))

    def _change_fact(self, store: Store) -> None:
        facts = store.facts.current(("team",))
        if facts:
            fact = self._random.choice(facts)
            if self._random.random() < 0.3:
                store.facts.retire(fact.id)
            else:
                store.facts.edit(fact.id, self._name())

    def _sync(self, store: Store) -> None:
        store.team.sync()


def describe(store: Store, session_id: str) -> dict[str, Any]:
    session = store.sessions.get(session_id)
    summary = store.summaries.current(session)
    own_name = store.team.status().name
    return {
        "texts": [entry.text for entry in store.chains.entries(session.key, 0)],
        "title": session.own_title,
        "summary": summary.text if summary else None,
        "comments": sorted(
            (note.author or own_name, note.text) for note in store.notes.notes(session) if note.is_comment
        ),
    }


def check_equal(stores: Sequence[Store]) -> int:
    """Compare what is shared on all machines. Return how many sessions that are."""
    facts = [{(fact.text, fact.category) for fact in store.facts.current(("team",))} for store in stores]
    assert all(one == facts[0] for one in facts)
    shared: dict[str, dict[str, Any]] = {}
    for store in stores:
        machine = store.team.status().machine
        for share in store.team.list_shares():
            if share.is_own and share.session_id and not share.held:
                shared[f"{share.session_id}@{machine[:SHORT_ID]}"] = describe(store, share.session_id)
    for store in stores:
        received = {one.session_id for one in store.team.list_shares() if not one.is_own}
        expected = {name for name in shared if not name.endswith(store.team.status().machine[:SHORT_ID])}
        assert received == expected
        assert {name: describe(store, name) for name in expected} == {name: shared[name] for name in expected}
        listed = {session.id for session in store.sessions.newest(1_000) if "@" in session.id}
        assert listed == expected
        assert check_store(store) == []
    return len(shared)


@pytest.mark.parametrize("seed", [1, 2])
def test_three_stores_agree_after_random_edits(open_member: OpenMember, seed: int) -> None:
    stores = [open_member(name) for name in ("anna", "ben", "cleo")]
    trust_all(*stores)
    chaos = Chaos(stores, seed)
    for _ in range(60):
        chaos.act()
    sync_all(*stores)
    assert check_equal(stores) > 0


@pytest.mark.long
def test_three_stores_agree_after_many_random_edits(open_member: OpenMember, postgres_server: PostgresServer) -> None:
    """They make 300 edits each. In every third part of them, the server is away for a while."""
    stores = [open_member(name) for name in ("anna", "ben", "cleo")]
    trust_all(*stores)
    chaos = Chaos(stores, 7)
    for number in range(900):
        if number % 300 == 100:
            postgres_server.stop()
        elif number % 300 == 150:
            postgres_server.start()
        chaos.act()
    sync_all(*stores)
    assert check_equal(stores) > 0


def test_a_server_that_is_stopped_and_started_loses_nothing(
    open_member: OpenMember, postgres_server: PostgresServer
) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    anna.create_session("s1")
    anna.append_message("s1", "user", [{"type": "text", "text": "Begin."}])
    anna.team.share(anna.sessions.get("s1"))
    sync_all(anna, ben)
    postgres_server.stop()
    anna.append_message("s1", "user", [{"type": "text", "text": "Written without the server."}])
    ben.sessions.set_title(ben.sessions.newest()[0], "So is this")
    for store in (anna, ben):
        with pytest.raises(StoreError, match="Your own sessions are not affected"):
            store.team.sync()
    postgres_server.start()
    sync_all(anna, ben)
    assert check_equal([anna, ben]) == 1
    assert (ben.sessions.newest()[0].turns, anna.sessions.get("s1").title) == (2, "So is this")


def test_connections_that_are_cut_lose_and_double_nothing(open_member: OpenMember, team_address: str) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    for n in range(3):
        anna.create_session(f"s{n}")
        for _ in range(20):
            anna.append_message(f"s{n}", "user", [{"type": "text", "text": os.urandom(30_000).hex()}])
        anna.team.share(anna.sessions.get(f"s{n}"))
    is_over = threading.Event()

    def cut() -> None:
        with psycopg.connect(team_address, autocommit=True) as connection:
            while not is_over.wait(0.02):
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where application_name = 'backscroll' and datname = current_database()"
                )

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        for _ in range(10):
            for store in (anna, ben):
                with suppress(StoreError):
                    store.team.sync()
    finally:
        is_over.set()
        cutter.join()
    sync_all(anna, ben)
    assert check_equal([anna, ben]) == 3


@pytest.mark.long
def test_kills_while_pushing_and_pulling_lose_and_double_nothing(tmp_path: Path, team_address: str) -> None:
    anna, ben = make_team(team_address, (tmp_path / "anna", "anna"), (tmp_path / "ben", "ben"))
    with anna.store() as store:
        store.create_session("s1")
        store.append_message("s1", "user", [{"type": "text", "text": "Begin."}])
    anna.run("team", "share", "s1")
    for n in range(KILLS):
        with anna.store() as store:
            for _ in range(10):
                store.append_message("s1", "user", [{"type": "text", "text": f"{n} {os.urandom(5_000).hex()}"}])
        for person in (anna, ben):
            kill_sync(person, n)
    for _ in range(2):
        anna.run("team", "sync")
        ben.run("team", "sync")
    with anna.store() as one, ben.store() as other:
        assert check_equal([one, other]) == 1


def kill_sync(person: Person, n: int) -> None:
    """Kill a sync at some moment of its work."""
    with person.start("team", "sync") as process:
        time.sleep(0.15 + n % 25 * 0.02)
        process.send_signal(signal.SIGKILL)
