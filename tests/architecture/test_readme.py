"""Tests that the README's table of agents agrees with `backscroll sources --all`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine

from store.store import Store

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def sources(store: Store) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = CommandLine(store.path)("sources", "--all", "--json").json["sources"]
    return listed


@pytest.fixture
def rows() -> dict[str, str]:
    """The rows of the table, by the agents that they describe."""
    table = README.read_text("utf-8").split("| agent |")[1].split("\n\n")[0]
    lines = [line.strip("| ") for line in table.splitlines()[2:]]
    return {label: line for line in lines for label in line.split(" | ")[0].split(", ")}


def test_every_source_has_a_row(sources: list[dict[str, Any]], rows: dict[str, str]) -> None:
    assert sorted(rows) == sorted(source["label"] for source in sources)


def test_a_row_names_the_resume_command_and_the_variables(sources: list[dict[str, Any]], rows: dict[str, str]) -> None:
    for source in sources:
        row = rows[source["label"]]
        command = (source["resume"] or "").removesuffix(" ID").removesuffix(" --session-id")
        assert command in row, source["source"]
        assert [name for name in re.findall(r"\$(\w+)", source["where"]) if name not in row] == [], source["source"]
