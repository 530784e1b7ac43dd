"""This module measures a team: sending an archive to its database for the first time, and receiving it in an empty
store, beside `pg_dump | psql` of the same database. The server, both machines and the tools run on one computer.

Whole runs are compared. Ours also scans for leaks, compresses, encrypts and signs, or writes a store with its index;
the tools only copy.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import psycopg
from bench.corpus import MB, load_or_make_corpus
from bench.processes import ProcessUsage, isolated_environment, run_measured
from bench.table import ResultRow
from postgres_server import PASSWORD, PostgresServer, start_postgres_server

PROGRAM = Path(sys.executable).with_name("backscroll")
RATIO = 2.0
MEMORY_MB = 200.0
COPIED_BY = "pg_dump | psql"


class Machine:
    """Is a machine with a home folder and a store of its own."""

    def __init__(self, home: Path, folder: Path, name: str) -> None:
        self.name = name
        self.state = folder / name / "state"
        self.state.mkdir(parents=True)
        self._environment = isolated_environment(home, self.state) | {"PGPASSWORD": PASSWORD}

    def run(self, *arguments: str) -> ProcessUsage:
        return run_measured([PROGRAM, *arguments], self._environment)

    @property
    def store(self) -> Path:
        return self.state / "backscroll" / "store.db"

    @property
    def id(self) -> str:
        with closing(sqlite3.connect(self.store)) as connection:
            return str(connection.execute("select machine from team").fetchone()[0])

    def count_sessions(self) -> int:
        with closing(sqlite3.connect(self.store)) as connection:
            return int(connection.execute("select count(*) from sessions").fetchone()[0])


def measure(folder: Path, megabytes: int) -> list[ResultRow]:
    corpus = load_or_make_corpus(folder / "corpora", megabytes)
    with tempfile.TemporaryDirectory() as temporary, start_postgres_server() as server:
        server.create_database("team")
        sender = Machine(corpus.home, Path(temporary), "anna")
        receiver = Machine(Path(temporary), Path(temporary), "ben")
        _form_team(server, sender, receiver)
        (sender.state / "backscroll").mkdir(exist_ok=True)
        (sender.state / "backscroll" / "config.toml").write_text('[team]\nshare = ["/"]\n')
        sender.run("sync")
        push = sender.run("team", "sync")
        pull = receiver.run("team", "sync")
        assert receiver.count_sessions() == sender.count_sessions()
        copy = _copy_database(server)
        size = _measure_database(server)
    rows: list[ResultRow] = []
    for label, usage in (("first push", push), ("pull into an empty store", pull)):
        name = f"{label}, {corpus.name}"
        memory = ResultRow(name="the same, memory", ours=[usage.peak_megabytes], unit="MB", limit=MEMORY_MB)
        rows += [*_compare(name, usage, copy), memory]
    return [*rows, ResultRow(name=f"size of the database, {corpus.name}", ours=[size / MB], unit="MB")]


def _form_team(server: PostgresServer, *machines: Machine) -> None:
    for machine in machines:
        machine.run("team", "join", server.url("team"), "--name", machine.name)
    for machine in machines:
        for other in machines:
            if other is not machine:
                machine.run("team", "trust", other.name, other.id)


def _copy_database(server: PostgresServer) -> ProcessUsage:
    """Copy the database of the team to another one on the same server."""
    server.create_database("copy")
    dump, restore = (server.binaries / name for name in ("pg_dump", "psql"))
    login = f"-h {server.folder} -U postgres"
    script = f"{dump} {login} team | {restore} {login} -q -o /dev/null copy"
    return run_measured(["sh", "-ec", script], {"PATH": os.defpath, "PGPASSWORD": PASSWORD})


def _measure_database(server: PostgresServer) -> int:
    with psycopg.connect(server.url("team"), password=PASSWORD) as connection:
        row = connection.execute("select pg_database_size('team')").fetchone()
    return int(row[0]) if row else 0


def _compare(name: str, ours: ProcessUsage, copy: ProcessUsage) -> list[ResultRow]:
    processor = "the same, processor time without the server"
    return [
        ResultRow(name=name, ours=[ours.seconds], baseline=[copy.seconds], baseline_name=COPIED_BY, ratio=RATIO),
        ResultRow(
            name=processor,
            ours=[ours.processor_seconds],
            baseline=[copy.processor_seconds],
            baseline_name=COPIED_BY,
        ),
    ]
