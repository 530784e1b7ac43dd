"""The programs that Backscroll is measured beside, each in an environment of its own that pip fills by name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bench import browser
from bench.processes import Failed, environment

OURS, HELLO, FAST_RESUME, AGENTSVIEW = "Backscroll", "hello", "fast-resume", "agentsview"


class Program(NamedTuple):
    """How one is started without a person: for its list on a screen, and to read what there is and end."""

    name: str
    path: Path
    screen: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()
    settings: Mapping[str, str] = {}
    before_words: str = ""
    "The key after which words are typed."
    greeting: bytes = b""
    "What is waited for where there are no rows."

    def command(self) -> list[str | Path]:
        return [self.path, *self.reading]

    def env(self, home: Path, state: Path) -> dict[str, str]:
        return environment(home, state) | {name: value.format(state=state) for name, value in self.settings.items()}


def programs(folder: Path) -> dict[str, Program | Failed]:
    """All of them, or why one is missing."""
    ours = Program(OURS, Path(sys.executable).with_name("backscroll"), reading=("sync",), before_words="/")
    hello = Program(HELLO, Path(sys.executable), ("-c", browser.HELLO), greeting=browser.GREETING)
    found: dict[str, Program | Failed] = {OURS: ours, HELLO: hello}
    for name, install in ((FAST_RESUME, fast_resume), (AGENTSVIEW, agentsview)):
        try:
            found[name] = install(folder)
        except Failed as reason:
            found[name] = reason
    return found


def fast_resume(folder: Path) -> Program:
    """Asked for one row, it reads what is new first. Theme and pictures are told, so that it need not ask for them."""
    path = _installed(folder, FAST_RESUME, "2.14.0", "fr")
    return Program(FAST_RESUME, path, ("--theme", "dark", "--no-images"), ("--list", "--limit", "1"))


def agentsview(folder: Path) -> Program:
    """Without the daemon that it otherwise leaves running, and without a word to anybody."""
    path = _installed(folder, AGENTSVIEW, "0.46.1", "agentsview")
    quiet = {"AGENTSVIEW_TELEMETRY_ENABLED": "0", "DO_NOT_TRACK": "1", "AGENTSVIEW_DISABLE_UPDATE_CHECK": "1"}
    alone = {"AGENTSVIEW_NO_DAEMON": "1", "AGENTSVIEW_DATA_DIR": "{state}"}
    return Program(AGENTSVIEW, path, reading=("sync",), settings=quiet | alone)


def _installed(folder: Path, package: str, version: str, program: str) -> Path:
    place = folder / f"{package}-{version}"
    path = place / "bin" / program
    if not path.exists():
        print(f"installing {package} {version} …", file=sys.stderr, flush=True)
        shutil.rmtree(place, ignore_errors=True)
        _run(package, sys.executable, "-m", "venv", str(place))
        pip = (str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _run(package, *pip, "--only-binary", ":all:", f"{package}=={version}")
    return path


def _run(package: str, *command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["without a word"]
        raise Failed(f"{package} cannot be installed: {words[-1]}")
