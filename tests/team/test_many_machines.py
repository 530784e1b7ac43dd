"""Measures many machines that share one server. It prints the figures of docs/scale.md.

`BACKSCROLL_MACHINES`, `BACKSCROLL_PULLERS` and `BACKSCROLL_SESSIONS` make a run smaller. All machines run in one
process, and share its processors with each other and with the server.
"""

from __future__ import annotations

import os
import random
import statistics
import threading
import time
from collections.abc import Iterable

import psycopg
import pytest
from teams.stores import OpenMember, trust_all

from store.store import Store
from store.team.membership import LocalTeam
from store.team.outgoing import ChangeCollector
from store.team.server import connect
from store.team.team import PUSHED_TOGETHER

MACHINES = int(os.environ.get("BACKSCROLL_MACHINES", "50"))
PULLERS = int(os.environ.get("BACKSCROLL_PULLERS", str(MACHINES)))
SESSIONS = int(os.environ.get("BACKSCROLL_SESSIONS", "200"))
TURNS = 5
ROUNDS = 20
ROUND_SECONDS = 60

_WORDS = "the upload retry test fails when a handler queue parser timeout migration schema index session token".split()


@pytest.mark.long
def test_many_machines_share_one_server(open_member: OpenMember, team_address: str) -> None:
    stores = [open_member(f"m{number:02}") for number in range(MACHINES)]
    trust_all(*stores)
    for number, store in enumerate(stores):
        add_sessions(store, random.Random(number))
    report("push of a session", (time_push(store, team_address) / SESSIONS for store in stores))
    report("push again, nothing new", (time_push(store, team_address) for store in stores))
    others = (MACHINES - 1) * SESSIONS
    report("pull of a session", (time_sync(store) / others for store in stores[:PULLERS]))
    report("sync, nothing new", (time_sync(store) for store in stores[:PULLERS]))
    for store in stores[:PULLERS]:
        assert len(LocalTeam(store).list_shares("session is not null")) == MACHINES * SESSIONS
        assert store.team.status().refused == ()
    report("lag", measure_lag(stores[0], stores[1:PULLERS]))
    with psycopg.connect(team_address) as connection:
        row = connection.execute("select pg_total_relation_size('backscroll_team.operations')").fetchone()
    assert row is not None
    print(f"database for a session: {row[0] / (MACHINES * SESSIONS) / 1000:.1f} kB")


def report(name: str, seconds: Iterable[float]) -> None:
    values = sorted(seconds)
    p95 = values[min(int(len(values) * 0.95), len(values) - 1)]
    print(f"{name}: median {statistics.median(values) * 1000:.1f} ms, p95 {p95 * 1000:.1f} ms, of {len(values)}")


def add_sessions(store: Store, words: random.Random) -> None:
    """Add sessions whose text is about 10 kB, and share them."""
    with store.transaction(durable=False):
        for number in range(SESSIONS):
            store.create_session(f"s{number}", working_dir="/src/alpha")
            for _ in range(TURNS):
                for role in ("user", "assistant"):
                    text = " ".join(f"{words.choice(_WORDS)} {words.getrandbits(32):x}" for _ in range(70))
                    store.append_message(f"s{number}", role, [{"type": "text", "text": text}])
            store.team.share(store.sessions.get(f"s{number}"))


def time_push(store: Store, address: str) -> float:
    """Push what is new without pulling, as `team sync` does after it has pulled."""
    started = time.perf_counter()
    collector = ChangeCollector(store, LocalTeam(store))
    with connect(address) as server:
        for _ in collector.collect():
            pass
        while outgoing := collector.read_outbox(PUSHED_TOGETHER):
            server.push(outgoing)
            collector.empty_outbox(outgoing[-1].operation.seq)
    return time.perf_counter() - started


def time_sync(store: Store) -> float:
    started = time.perf_counter()
    store.team.sync()
    return time.perf_counter() - started


def measure_lag(writer: Store, followers: list[Store]) -> list[float]:
    """Return how long each follower waits for each of several messages, while all of them follow."""
    is_over = threading.Event()
    arrivals: list[float] = []
    arrived = threading.Semaphore(0)

    def follow(store: Store) -> None:
        for result in store.team.follow(2):
            if result.pulled:
                arrivals.append(time.perf_counter())
                arrived.release()
            if is_over.is_set():
                return

    threads = [threading.Thread(target=follow, args=(store,)) for store in followers]
    for thread in threads:
        thread.start()
    lags: list[float] = []
    for number in range(ROUNDS):
        time.sleep(2)
        writer.append_message("s0", "user", [{"type": "text", "text": f"Message {number}"}])
        started = time.perf_counter()
        writer.team.sync()
        assert all(arrived.acquire(timeout=ROUND_SECONDS) for _ in followers)
        lags += [arrival - started for arrival in arrivals]
        arrivals.clear()
    is_over.set()
    for thread in threads:
        thread.join()
    return lags
