"""Tests that a wheel holds everything that running needs, and that its own dependencies are enough."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from pty_terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=os.sep)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def pip(*arguments: str | Path) -> None:
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments)


def find_dependencies(requirements: list[str]) -> Iterator[Distribution]:
    """Yield the installed packages that satisfy these requirements, those of their extras, and so on."""
    waiting = [(Requirement(line), "") for line in requirements]
    seen = set()
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        for wanted in ["", *requirement.extras]:
            if (requirement.name, wanted) not in seen:
                seen.add((requirement.name, wanted))
                found = distribution(requirement.name)
                waiting += [(Requirement(line), wanted) for line in found.requires or ()]
                if not wanted:
                    yield found


def read_requirements(wheel: Path) -> list[str]:
    """Return what the wheel needs without an extra."""
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        lines = archive.read(name).decode().splitlines()
    return [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: ")]


def link_package(package: Distribution, site_packages: Path) -> None:
    tops = {file.parts[0] for file in package.files or () if file.parts[0] not in ("..", "__pycache__")}
    for name in tops:
        link = site_packages / name
        if not link.exists():
            link.symlink_to(Path(str(package.locate_file(name))))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel and nothing but its dependencies into an empty environment, and return its programs.

    The packages are linked, not downloaded, so that the test needs no network.
    """
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    (wheel,) = folder.glob("backscroll-*.whl")
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    (site_packages,) = environment.glob("lib/python*/site-packages")
    for package in find_dependencies(read_requirements(wheel)):
        link_package(package, site_packages)
    pip("--python", environment / "bin/python", "install", "--no-deps", "--no-index", wheel)
    return environment / "bin"


def test_the_wheel_runs_in_an_empty_environment(programs: Path, tmp_path: Path) -> None:
    backscroll, store = programs / "backscroll", tmp_path / "demo.db"
    assert run(backscroll, "--version").startswith("backscroll ")
    run(backscroll, "--store", store, "demo")
    assert len(run(backscroll, "--store", store, "list").splitlines()) > 5
    assert '"hits"' in run(backscroll, "--store", store, "search", "test", "--json")


def test_the_browser_of_the_wheel_opens(programs: Path, tmp_path: Path) -> None:
    store = tmp_path / "demo.db"
    run(programs / "backscroll", "--store", store, "demo")
    with Terminal(programs / "backscroll", str(store)) as terminal:
        terminal.wait_for_text("sessions")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0


@pytest.mark.parametrize("package", ["mypy", "pytest", "textual_dev", "hatchling", "starlette"])
def test_development_packages_are_not_needed(programs: Path, package: str) -> None:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is not None)"
    run(programs / "python", "-c", code)
