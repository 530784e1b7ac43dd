"""Tests the command `changes`, which shows the files that a session changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine

from store.model.entry import NewEntry, Text, ToolCall, ToolResult
from store.store import Store


@pytest.fixture
def cli(store: Store) -> CommandLine:
    session = store.sessions.create("s1", cwd="/w")
    calls = (
        ToolCall("1", "Write", {"file_path": "/w/a.py", "content": "x = 1\n"}),
        ToolCall("2", "Edit", {"file_path": "/w/b.py", "old_string": "a", "new_string": "b"}),
        ToolCall("3", "Edit", {"file_path": "/w/c.py", "old_string": "a", "new_string": "b"}),
        ToolCall("4", "Bash", {"command": "make"}),
    )
    results = tuple(ToolResult(call.id, "done", is_error=call.id == "3") for call in calls)
    store.chains.append(
        session.key,
        [
            NewEntry(role="user", parts=(Text("Go"),)),
            NewEntry(role="assistant", parts=calls),
            NewEntry(role="tool", parts=results),
        ],
    )
    store.sessions.create("empty")
    return CommandLine(store.path)


def test_files_are_listed_with_their_turns(cli: CommandLine) -> None:
    ran = cli("changes", "s1")
    assert ran.lines == [
        "a.py  +1 −0",
        "    turn 1  Write · +1 −0 · whole file",
        "b.py  +1 −1",
        "    turn 1  Edit · +1 −1 · line numbers not known",
    ]
    assert ran.err.splitlines() == [
        "2 files, +2 −1.",
        "1 hunk without line numbers.",
        "Left out: 1 failed edit.",
        "Not known: what 1 shell command changed.",
    ]


def test_a_patch_is_printed_or_written(cli: CommandLine, tmp_path: Path) -> None:
    printed = cli("changes", "s1", "--patch").out
    assert "--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+x = 1\n" in printed
    ran = cli("changes", "s1", "-o", str(tmp_path / "all.patch"))
    assert (ran.status, ran.out) == (0, "")
    assert (tmp_path / "all.patch").read_text() == printed


def test_changes_as_json(cli: CommandLine) -> None:
    found = cli("changes", "s1", "--json").json
    assert [(file["path"], file["added"], file["removed"]) for file in found["files"]] == [
        ("a.py", 1, 0),
        ("b.py", 1, 1),
    ]
    assert found["files"][1]["changes"] == [
        {
            "session": "s1",
            "turn": 1,
            "entry": "s1#1",
            "tool": "Edit",
            "at": found["files"][1]["changes"][0]["at"],
            "kind": "update",
            "moved_to": None,
            "left_out": None,
            "hunks": [{"old_start": None, "new_start": None, "lines": ["-a", "+b"]}],
        }
    ]
    assert (found["unknown_line_numbers"], found["failed_calls"], found["shell_calls"]) == (1, 1, 1)
    assert cli("changes", "s1", "--json", "--patch").json["patch"] == cli("changes", "s1", "--patch").out


def test_a_session_without_changes_and_an_unknown_one(cli: CommandLine) -> None:
    ran = cli("changes", "empty")
    assert (ran.status, ran.out, ran.err) == (0, "", "No file changes in this session.\n")
    assert cli("changes", "nope").status == 1
    assert cli("changes", "s1", "-o", "/nonexistent/x.patch").status == 1
