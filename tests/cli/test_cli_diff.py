"""Tests the command `diff`: what it prints, and its exit status, which is that of `diff` programs."""

from __future__ import annotations

import pytest
from command_line import CommandLine

from store.model.entry import NewEntry, Text
from store.store import Store


@pytest.fixture
def cli(store: Store) -> CommandLine:
    for name, answer in (("a", "It is red."), ("b", "It is blue.")):
        session = store.sessions.create(name, agent_title=f"Session {name}")
        entries = [("user", "Hello"), ("assistant", "Hi."), ("user", "Which colour?"), ("assistant", answer)]
        store.chains.append(session.key, [NewEntry(role=role, parts=(Text(text),)) for role, text in entries])
    return CommandLine(store.path)


def test_different_sessions(cli: CommandLine) -> None:
    ran = cli("diff", "a", "b")
    assert (ran.status, ran.err) == (1, "")
    assert ran.lines == [
        "--- Session a",
        "+++ Session b",
        "= 1 shared turn",
        "# turn 2",
        "@@ -1,3 +1,3 @@",
        " Which colour?",
        " ",
        "-It is red.",
        "+It is blue.",
    ]


def test_equal_things(cli: CommandLine) -> None:
    ran = cli("diff", "a#t1", "b#t1")
    assert (ran.status, ran.out, ran.err) == (0, "", "They are equal.\n")


def test_as_json(cli: CommandLine) -> None:
    ran = cli("diff", "a#3", "b#3", "--json")
    assert ran.status == 1
    assert ran.json == {
        "schema": 1,
        "a": "entry 3 of turn 2, Session a",
        "b": "entry 3 of turn 2, Session b",
        "equal": False,
        "sections": [
            {
                "kind": "changed",
                "a": "text",
                "b": "text",
                "count": 1,
                "hunks": [{"old_start": 1, "new_start": 1, "lines": ["-It is red.", "+It is blue."]}],
            }
        ],
        "notes": [],
    }
    assert cli("diff", "a", "a", "--json").json["equal"] is True


@pytest.mark.parametrize("arguments", [("a", "nope"), ("a#t9", "b"), ("a", "b#t1"), ("a",)])
def test_errors_have_a_status_of_their_own(cli: CommandLine, arguments: tuple[str, ...]) -> None:
    ran = cli("diff", *arguments)
    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.count("\n") == 1
