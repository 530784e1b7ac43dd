"""Runs the examples of sessions behind the interfaces of other libraries, twice each."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_line import CommandLine

from store.agent_api.histories import INTERFACES
from store.store import Store

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


@pytest.mark.parametrize(
    ("name", "package", "session", "calls"),
    [
        ("openai_agents_session", "agents", "example:openai-agents", 2),
        ("langchain_history", "langchain_core", "example:langchain", 0),
        ("pydantic_ai_history", "pydantic_ai", "example:pydantic-ai", 2),
    ],
)
def test_the_example_continues_its_conversation(
    tmp_path: Path, name: str, package: str, session: str, calls: int
) -> None:
    if find_spec(package) is None:
        pytest.skip(f"needs the package {package}")
    path = tmp_path / "store.db"
    printed = []
    for _ in range(2):
        ran = subprocess.run([sys.executable, str(EXAMPLES / f"{name}.py"), str(path)], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        printed.append(ran.stdout)
    assert printed == [f"The lamp is green. This was question {number}.\n" for number in (1, 2)]
    with Store.open(path) as store:
        found = store.get_session(session)
        assert (found.turns, found.tool_calls, found.errors) == (2, calls, 0)
        assert store.search.find("lamp")[1] >= 2
        interface = INTERFACES[found.channel]
    cli = CommandLine(path)
    assert [row["id"] for row in cli("list", "--json").json["sessions"]] == [session]
    assert session in cli("list", "lamp").out
    hint = cli("resume", session).err
    assert f"`{interface.class_name}(store, {session!r})`" in hint
    module = importlib.import_module(f"store.agent_api.histories.{interface.module}")
    assert hasattr(module, interface.class_name)
