"""Tests docs/library.md: its examples run and print what it says, and it lists exactly the public names."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path

import pytest

import store
from store import ChatHistory, Recorder, Store
from store.agent_api.methods import AgentMethods

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "library.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FIRST_CELLS = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
CLASSES: dict[str, type] = {"Store": Store, "Recorder": Recorder, "ChatHistory": ChatHistory}
ADK_NAMES = {"StoreSessionService", "session_service"}


def run_program(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)


def list_rows(prefix: str) -> dict[str, list[str]]:
    """Return the methods that the tables list below a prefix such as `store.`, each with its parameters."""
    rows: dict[str, list[str]] = {}
    for cell in FIRST_CELLS:
        if matched := re.fullmatch(rf"{re.escape(prefix)}([\w.]+)\((.*)\)", cell):
            rows[matched[1]] = [name.strip(" *") for name in matched[2].split(",") if name.strip()]
    return rows


def list_parameters(function: object) -> list[str]:
    assert callable(function)
    return [name for name in inspect.signature(function).parameters if name != "self"]


def list_methods_for_agents() -> dict[str, object]:
    return {name: value for name, value in vars(AgentMethods).items() if not name.startswith("_")}


# ── examples ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("example", EXAMPLES, ids=[f"example {number}" for number in range(1, len(EXAMPLES) + 1)])
def test_an_example_prints_what_the_page_says(example: str, tmp_path: Path) -> None:
    if any(name in example for name in ADK_NAMES) and find_spec("google.adk") is None:
        pytest.skip("google-adk is not installed; `make test` installs it")
    printed = re.findall(r"^ *# > (.*)$", example, re.MULTILINE)
    assert printed, "an example must show what it prints"
    ran = run_program(example, tmp_path)
    assert (ran.returncode, ran.stdout.splitlines()) == (0, printed), ran.stderr


def test_every_section_but_the_lists_has_an_example() -> None:
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    without = [section.splitlines()[0] for section in sections if "```python" not in section]
    assert without == ["OpenAI Agents SDK, LangChain, Pydantic AI", "Examples to copy"]


def test_every_public_name_is_in_an_example() -> None:
    words = {word for example in EXAMPLES for word in re.findall(r"\w+", example)}
    assert {*store.__all__, *ADK_NAMES} - words == set()


def test_every_method_for_agents_is_called_in_an_example() -> None:
    called = {name for example in EXAMPLES for name in re.findall(r"\b(?:store|aio)\.(\w+)\b", example)}
    assert set(list_methods_for_agents()) - called == set()


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_lists_exactly_the_public_names() -> None:
    names = [cell for cell in FIRST_CELLS if cell.isidentifier()]
    assert len(names) == len(set(names)), "a name is listed twice"
    assert set(names) == {*store.__all__, *ADK_NAMES}


def test_the_page_lists_every_method_for_agents_with_its_parameters() -> None:
    listed = list_rows("")
    for name in [name for name in listed if "." in name]:
        del listed[name]
    assert listed == {name: list_parameters(method) for name, method in list_methods_for_agents().items()}


@pytest.mark.parametrize("class_name", sorted(CLASSES))
def test_the_methods_of_the_classes_exist(class_name: str) -> None:
    rows = list_rows(f"{class_name}.")
    assert rows
    for name, parameters in rows.items():
        assert set(parameters) <= set(list_parameters(getattr(CLASSES[class_name], name)))


def test_the_methods_of_the_collections_exist() -> None:
    rows = list_rows("store.")
    assert len(rows) > 30
    with Store.memory() as opened:
        missing = [path for path in rows if not callable(attrgetter(path)(opened))]
    assert missing == []


def test_every_linked_example_exists_and_every_example_is_linked() -> None:
    linked = set(re.findall(r"\(examples/([\w.]+)\)", PAGE))
    assert linked == {path.name for path in (DOCS / "examples").glob("*.py")}
