"""Provides fixtures for the agents' programs: a scripted model, a working folder, and no other network."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from agent_conversation import SCRIPT
from agent_programs import (
    API_KEY,
    BIN,
    CLEARED_PREFIXES,
    PROGRAMS,
    PROXY_SUFFIXES,
    QUIET_ENVIRONMENT,
    AgentProgram,
    write_configuration,
)
from command_line import CommandLine
from scripted_model import ScriptedModel


def _reason_to_skip() -> str:
    if {name for _, name in socket.if_nameindex()} != {"lo"}:
        return "run `make test-agents`; it needs a network namespace that has only the loopback interface"
    if not all((BIN / program.name).exists() for program in PROGRAMS):
        return "npm is missing" if shutil.which("npm") is None else "run `make test-agents` to install them"
    return ""


REASON_TO_SKIP = _reason_to_skip()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if REASON_TO_SKIP:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"Claude Code and Codex: {REASON_TO_SKIP}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the log of the scripted model to the report of a failed test."""
    report = yield
    model = getattr(item, "funcargs", {}).get("model")
    if report.failed and isinstance(model, ScriptedModel):
        report.sections.append(("The scripted model", "\n".join(model.log)))
    return report


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the working folder of the programs."""
    path = tmp_path / "work"
    path.mkdir()
    (path / "notes.txt").write_text("The lamp is green.\n")
    return path


@pytest.fixture
def model(home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedModel]:
    """Start the scripted model, the only one that both programs are configured to use."""
    for name in [name for name in os.environ if name.startswith(CLEARED_PREFIXES) or name.endswith(PROXY_SUFFIXES)]:
        monkeypatch.delenv(name)
    with ScriptedModel(SCRIPT) as model:
        settings = {**QUIET_ENVIRONMENT, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": API_KEY}
        for name, value in {**settings, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}.items():
            monkeypatch.setenv(name, value)
        write_configuration(model.url, folder)
        yield model


@pytest.fixture(params=PROGRAMS, ids=lambda program: program.name)
def program(request: pytest.FixtureRequest, model: ScriptedModel) -> AgentProgram:
    assert isinstance(request.param, AgentProgram)
    return request.param


@pytest.fixture
def backscroll(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "store.db")
