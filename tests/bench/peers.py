"""This module installs the programs that Backscroll is compared with, each in an environment of its own."""

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
CCUSAGE, CCUSAGE_VERSION = "ccusage", "18.0.11"


class MeasuredProgram(NamedTuple):
    """Describes how to start a program: to show its list on a screen, and to import everything and exit."""

    name: str
    path: Path
    screen_arguments: tuple[str, ...] = ()
    import_arguments: tuple[str, ...] = ()
    extra_environment: Mapping[str, str] = {}
    search_key: str = ""
    "Opens the search box."
    greeting: bytes = b""
    "Is the text to wait for if the program shows no rows."

    def import_command(self) -> list[str | Path]:
        return [self.path, *self.import_arguments]

    def make_environment(self, home: Path, state: Path) -> dict[str, str]:
        return isolated_environment(home, state) | {
            name: value.format(state=state) for name, value in self.extra_environment.items()
        }


def prepare_programs(folder: Path) -> dict[str, MeasuredProgram | BenchmarkError]:
    """Return every program, or the reason why it is missing."""
    ours = MeasuredProgram(
        OURS, Path(sys.executable).with_name("backscroll"), import_arguments=("sync",), search_key="/"
    )
    hello = MeasuredProgram(HELLO, Path(sys.executable), ("-c", browser.HELLO_PROGRAM), greeting=browser.GREETING)
    programs: dict[str, MeasuredProgram | BenchmarkError] = {OURS: ours, HELLO: hello}
    for name, install in ((FAST_RESUME, install_fast_resume), (AGENTSVIEW, install_agentsview)):
        try:
            programs[name] = install(folder)
        except BenchmarkError as reason:
            programs[name] = reason
    return programs


def install_fast_resume(folder: Path) -> MeasuredProgram:
    """Install fast-resume. To print one row, it reads what is new first. Theme and pictures are set so that it does not
    query the terminal for them."""
    path = _install(folder, FAST_RESUME, "2.14.0", "fr")
    return MeasuredProgram(FAST_RESUME, path, ("--theme", "dark", "--no-images"), ("--list", "--limit", "1"))


def install_agentsview(folder: Path) -> MeasuredProgram:
    """Install agentsview. It runs without its daemon, telemetry and update check."""
    path = _install(folder, AGENTSVIEW, "0.46.1", "agentsview")
    quiet = {"AGENTSVIEW_TELEMETRY_ENABLED": "0", "DO_NOT_TRACK": "1", "AGENTSVIEW_DISABLE_UPDATE_CHECK": "1"}
    no_daemon = {"AGENTSVIEW_NO_DAEMON": "1", "AGENTSVIEW_DATA_DIR": "{state}"}
    return MeasuredProgram(AGENTSVIEW, path, import_arguments=("sync",), extra_environment=quiet | no_daemon)


def install_ccusage(folder: Path) -> Path:
    """Install ccusage, which adds up the tokens of Claude Code, with npm. Newer versions need a native package."""
    target = folder / f"{CCUSAGE}-{CCUSAGE_VERSION}"
    path = target / "node_modules" / ".bin" / CCUSAGE
    if not path.exists():
        if shutil.which("npm") is None:
            raise BenchmarkError(f"{CCUSAGE} cannot be installed: npm is missing")
        print(f"Installing {CCUSAGE} {CCUSAGE_VERSION} …", file=sys.stderr, flush=True)
        npm = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(target))
        _run_or_fail(CCUSAGE, *npm, f"{CCUSAGE}@{CCUSAGE_VERSION}")
    return path


def install_python(folder: Path, package: str, version: str) -> Path:
    """Install a package, and return the Python that can import it."""
    return _install(folder, package, version, "python").parent / "python"


def _install(folder: Path, package: str, version: str, program: str) -> Path:
    environment = folder / f"{package}-{version}"
    path = environment / "bin" / program
    if not path.exists():
        print(f"Installing {package} {version} …", file=sys.stderr, flush=True)
        shutil.rmtree(environment, ignore_errors=True)
        _run_or_fail(package, sys.executable, "-m", "venv", str(environment))
        pip = (str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _run_or_fail(package, *pip, "--only-binary", ":all:", f"{package}=={version}")
    return path


def _run_or_fail(package: str, *command: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["no message"]
        raise BenchmarkError(f"{package} cannot be installed: {lines[-1]}")
