"""The programs that Backscroll is measured beside, each in an environment of its own that pip fills by name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bench import browser
from bench.processes import BenchmarkError, isolated_environment

OURS, HELLO, FAST_RESUME, AGENTSVIEW = "Backscroll", "hello", "fast-resume", "agentsview"


class MeasuredProgram(NamedTuple):
    """How one is started without a person: for its list on a screen, and to read what there is and end."""

    name: str
    path: Path
    screen_arguments: tuple[str, ...] = ()
    import_arguments: tuple[str, ...] = ()
    extra_environment: Mapping[str, str] = {}
    search_key: str = ""
    "The key after which words are typed."
    greeting: bytes = b""
    "What is waited for where there are no rows."

    def import_command(self) -> list[str | Path]:
        return [self.path, *self.import_arguments]

    def make_environment(self, home: Path, state: Path) -> dict[str, str]:
        return isolated_environment(home, state) | {
            name: value.format(state=state) for name, value in self.extra_environment.items()
        }


def prepare_programs(folder: Path) -> dict[str, MeasuredProgram | BenchmarkError]:
    """All of them, or why one is missing."""
    ours = MeasuredProgram(
        OURS, Path(sys.executable).with_name("backscroll"), import_arguments=("sync",), search_key="/"
    )
    hello = MeasuredProgram(HELLO, Path(sys.executable), ("-c", browser.HELLO_PROGRAM), greeting=browser.GREETING)
    found: dict[str, MeasuredProgram | BenchmarkError] = {OURS: ours, HELLO: hello}
    for name, install in ((FAST_RESUME, install_fast_resume), (AGENTSVIEW, install_agentsview)):
        try:
            found[name] = install(folder)
        except BenchmarkError as reason:
            found[name] = reason
    return found


def install_fast_resume(folder: Path) -> MeasuredProgram:
    """Asked for one row, it reads what is new first. Theme and pictures are told, so that it need not ask for them."""
    path = _install(folder, FAST_RESUME, "2.14.0", "fr")
    return MeasuredProgram(FAST_RESUME, path, ("--theme", "dark", "--no-images"), ("--list", "--limit", "1"))


def install_agentsview(folder: Path) -> MeasuredProgram:
    """Without the daemon that it otherwise leaves running, and without a word to anybody."""
    path = _install(folder, AGENTSVIEW, "0.46.1", "agentsview")
    quiet = {"AGENTSVIEW_TELEMETRY_ENABLED": "0", "DO_NOT_TRACK": "1", "AGENTSVIEW_DISABLE_UPDATE_CHECK": "1"}
    alone = {"AGENTSVIEW_NO_DAEMON": "1", "AGENTSVIEW_DATA_DIR": "{state}"}
    return MeasuredProgram(AGENTSVIEW, path, import_arguments=("sync",), extra_environment=quiet | alone)


def _install(folder: Path, package: str, version: str, program: str) -> Path:
    place = folder / f"{package}-{version}"
    path = place / "bin" / program
    if not path.exists():
        print(f"installing {package} {version} …", file=sys.stderr, flush=True)
        shutil.rmtree(place, ignore_errors=True)
        _run_or_fail(package, sys.executable, "-m", "venv", str(place))
        pip = (str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _run_or_fail(package, *pip, "--only-binary", ":all:", f"{package}=={version}")
    return path


def _run_or_fail(package: str, *command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["without a word"]
        raise BenchmarkError(f"{package} cannot be installed: {words[-1]}")
