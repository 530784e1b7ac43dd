"""This module provides people with home folders of their own, who use the command line as members of one team."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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
        return subprocess.Popen(
            [str(_PROGRAM), *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, status: int = 0) -> str:
        with self.start(*arguments) as process:
            output, _ = process.communicate()
        assert process.returncode == status, output
        return output

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def store(self) -> Store:
        return Store.open(self.home / "data/backscroll/store.db")

    @property
    def fingerprint(self) -> str:
        return str(self.json("team")["team"]["machine"])


def make_team(address: str, *homes: Path) -> list[Person]:
    """Return people who joined one team and trust each other."""
    people = [Person(home) for home in homes]
    for person in people:
        person.run("team", "join", address, "--name", person.home.name)
    fingerprints = {person.home.name: person.fingerprint for person in people}
    for person in people:
        for name, fingerprint in fingerprints.items():
            if name != person.home.name:
                person.run("team", "trust", name, fingerprint)
    return people
