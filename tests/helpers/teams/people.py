"""This module provides people with home folders of their own, who use the command line as members of one team."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from store.cli import run
from store.store import Store

_FOLDERS = {"XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": "config", "XDG_STATE_HOME": "state"}
_PROGRAM = Path(sys.executable).with_name("backscroll")


class Person:
    """Runs `backscroll` in a home folder of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir()
        self._environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        self._environment |= {"HOME": str(home), **{name: str(home / folder) for name, folder in _FOLDERS.items()}}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a process of its own, which can be killed."""
        return subprocess.Popen(
            [str(_PROGRAM), *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, status: int = 0) -> str:
        """Run a command in this process, because starting another one takes longer than most commands."""
        with CliRunner().isolation(env=self._environment) as (out, err, _):
            returned = run(None, arguments)
            output = (out.getvalue() + err.getvalue()).decode()
        assert returned == status, output
        return output

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def store(self) -> Store:
        return Store.open(self.home / "data/backscroll/store.db")

    @property
    def fingerprint(self) -> str:
        return str(self.json("team")["team"]["machine"])


def make_team(address: str, *homes: tuple[Path, str]) -> list[Person]:
    """Return people with home folders and names, who joined one team and trust each other's machines."""
    people = [(Person(home), name) for home, name in homes]
    for person, name in people:
        person.run("team", "join", address, "--name", name)
    fingerprints = {person.fingerprint: name for person, name in people}
    for person, _ in people:
        for fingerprint, name in fingerprints.items():
            if fingerprint != person.fingerprint:
                person.run("team", "trust", name, fingerprint)
    return [person for person, _ in people]
