"""Tests the command `compactions`, and forks from before a compaction."""

from __future__ import annotations

import pytest
from command_line import CommandLine

from store.model.entry import NewEntry, Text, ToolCall, ToolResult
from store.store import Store


@pytest.fixture
def cli(store: Store) -> CommandLine:
    session = store.sessions.create("s1", cwd="/w")
    store.chains.append(
        session.key,
        [
            NewEntry(role="user", parts=(Text("Rename the columns"),), created_at="2026-11-03T10:00:00Z"),
            NewEntry(role="assistant", parts=(ToolCall("1", "Read", {"file_path": "/w/schema.sql"}),)),
            NewEntry(role="tool", parts=(ToolResult("1", "x"),)),
            NewEntry(kind="compaction", parts=(Text("The schema.sql was read."),)),
        ],
    )
    store.sessions.create("empty")
    return CommandLine(store.path)


def test_compactions_are_printed(cli: CommandLine) -> None:
    ran = cli("compactions", "s1")
    assert ran.lines[0].startswith("compaction 1  turn 1 · ")
    assert ran.lines[1:] == [
        "  missing    turn 1  Rename the columns",
        "  named      read  schema.sql",
        "the model saw after it",
        "The schema.sql was read.",
    ]


def test_compactions_as_json(cli: CommandLine) -> None:
    found = cli("compactions", "s1", "--json").json
    assert found["session"] == "s1"
    (compaction,) = found["compactions"]
    assert (compaction["number"], compaction["entry"], compaction["summary"]) == (1, "s1#3", "The schema.sql was read.")
    assert compaction["files"] == [{"path": "schema.sql", "turns": [1], "is_changed": False, "is_named": True}]
    assert cli("compactions", "empty", "--json").json["compactions"] == []


def test_a_session_without_compactions_says_so(cli: CommandLine) -> None:
    assert "No compaction in this session." in cli("compactions", "empty").err


def test_forks_from_before_a_compaction(cli: CommandLine) -> None:
    forked = cli("fork", "s1", "--before-compaction", "1", "--json").json["session"]["id"]
    assert cli("compactions", forked, "--json").json["compactions"] == []
    forked = cli("fork", "s1", "--before-compaction", "1", "--summary", "Mine.", "--json").json["session"]["id"]
    assert cli("compactions", forked, "--json").json["compactions"][0]["summary"] == "Mine."


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--summary", "x", "--turn", "1"],
        ["--before-compaction", "1", "--turn", "1"],
        ["--before-compaction", "1", "--native"],
    ],
)
def test_options_that_do_not_fit_together(cli: CommandLine, options: list[str]) -> None:
    assert cli("fork", "s1", *options).status == 2
