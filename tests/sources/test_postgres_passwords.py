"""These tests look for passwords of PostgreSQL in all that others can see: processes, messages, and what is stored."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from adk_postgres_database import QUOTED_PASSWORD, V0_SCHEMA, AdkPostgresDatabase, clear_postgres_environment  # noqa: F401 a fixture
from command_line import CommandLine
from foreign_databases import PINGU_SCHEMA, add_pingu_session, make_database
from postgres_server import PASSWORD, PostgresServer

from store.store import Store
from store.sync.worker_process import WorkerProcess

for needed in ("psycopg", "sqlalchemy"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; `make test` installs it")

SECRET = "S3CRET"
NOTICE = "The password is in the process list"


def all_that_is_shown(line: CommandLine, *paths: str) -> str:
    """Return the output of commands that may show an address, and what the store holds."""
    results = [
        line("sync", *paths),
        line("sync", "--json", *paths),
        line("sources"),
        line("sources", "--json"),
        line("log", "--json"),
    ]
    files = [path.read_bytes() for path in line.path.parent.glob(f"{line.path.name}*") if path.is_file()]
    return "".join(f"{result.out}{result.err}" for result in results) + str(files)


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://ana:{SECRET}",
        f"postgresql://ana:{SECRET}/dak",
        f"postgresql://ana:p@{SECRET}@localhost:1/dak",
        f"postgresql://ana:p@{SECRET}/x@localhost:1/dak",
        f"postgresql://ana:{SECRET}@localhost:port/dak",
        f"postgresql://ana:{SECRET}@localhost:1/dak?port=x",
        f"postgresql://ana:{SECRET}%00@localhost:1/dak",
        f"postgresql://ana:{SECRET}@{'a' * 300}:1/dak",
        f"postgresql://ana:{SECRET}@local..host:1/dak",
        f"postgresql://ana:{SECRET}\udcff@localhost:1/dak",
        f"postgresql:///dak?host=/nowhere&password={SECRET}",
        f"jdbc:postgresql://ana:{SECRET}@localhost/dak",
        f"host=localhost password={SECRET} dbname=dak",
        f"mysql://ana:{SECRET}@localhost/dak",
    ],
)
def test_a_wrong_address_is_shown_without_its_password(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, pingu = CommandLine(tmp_path / "store.db"), tmp_path / "pingu.db"
    make_database(pingu, PINGU_SCHEMA)
    add_pingu_session(pingu, "neighbour")
    assert line("sync", address).status == 3
    assert SECRET not in all_that_is_shown(line, address)
    assert SECRET not in all_that_is_shown(line, str(pingu), address)
    monkeypatch.setenv("SESSION_SERVICE_URI", address)
    assert SECRET not in all_that_is_shown(line)


def test_a_database_that_was_read_shows_no_password(
    postgres_server: PostgresServer,
    tmp_path: Path,
) -> None:
    base, line = AdkPostgresDatabase(postgres_server), CommandLine(tmp_path / "store.db")
    base.execute(V0_SCHEMA)
    shown = all_that_is_shown(line, base.url)
    assert base.url_without_password in shown
    assert NOTICE in shown
    for password in (PASSWORD, QUOTED_PASSWORD):
        assert password not in shown


# ── the process list ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def silent_server() -> Iterator[int]:
    """Provide the port of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def processes_below(pid: int) -> dict[int, str]:
    """Return the command line of a process and of all its descendants."""
    found = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            found |= processes_below(int(child))
    return found


needs_proc = pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="only Linux lists the children of a process"
)


@needs_proc
@pytest.mark.parametrize("variable", ["SESSION_SERVICE_URI", "PGPASSWORD"])
def test_a_password_in_the_environment_is_in_no_command_line(
    tmp_path: Path, silent_server: int, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"postgresql://ana{{}}@127.0.0.1:{silent_server}/dak"
    monkeypatch.setenv(variable, SECRET if variable == "PGPASSWORD" else address.format(f":{SECRET}"))
    command = CommandLine(tmp_path / "store.db").command("sync", address.format(""))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        seen = []
        while process.poll() is None:
            seen += list(processes_below(process.pid).values())
            time.sleep(0.05)
        assert process.stderr
        assert SECRET not in process.stderr.read() + "".join(seen)


@needs_proc
def test_the_worker_of_the_browser_has_no_password_in_its_command_line(
    store: Store, silent_server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSION_SERVICE_URI", f"postgresql://ana:{SECRET}@127.0.0.1:{silent_server}/dak")
    worker = WorkerProcess(store.path)
    try:
        worker.start()
        messages = [next(worker.messages()) for _ in range(2)]
        assert worker.pid
        assert SECRET not in f"{processes_below(worker.pid)}{messages}"
        assert "store.sync.worker" in str(processes_below(worker.pid))
    finally:
        worker.close()


@needs_proc
def test_a_typed_password_is_passed_to_no_other_process(tmp_path: Path, silent_server: int) -> None:
    """The person is told that it is in the process list, because no program can take it out safely."""
    typed = f"postgresql://ana:{SECRET}@127.0.0.1:{silent_server}/dak"
    command = CommandLine(tmp_path / "store.db").command("sync", typed)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert process.stderr.readline().startswith(NOTICE)
        others = [line for pid, line in processes_below(process.pid).items() if pid != process.pid]
        assert SECRET not in "".join(others) + process.stderr.read()
    assert process.returncode == 3
