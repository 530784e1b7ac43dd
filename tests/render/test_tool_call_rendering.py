"""Tests how the inspector renders a tool call: its heading, its neighbours, its row in the table, its exit code."""

from __future__ import annotations

import json

import pytest
from textual.content import Content

from store.formats.exit_code import find_exit_code
from store.model.entry import Entry, Json, PairedCall, Status
from tui.render.inspection.tool_call_details import (
    ToolCallRow,
    build_call_row,
    render_arguments_title,
    render_call_heading,
    render_call_row,
    render_result_title,
    render_same_calls,
    render_table_head,
)
from tui.render.timeline_items import TimelineItem
from tui.render.tool_call import describe_call, render_call_line, render_failure_reason
from tui.render.viewport import Viewport

HOSTILE = "\x1b]52;c;eA==\x07\x9b1m\u202e[bold]x[/]\t\r\n漢字" * 40


def make_call(name: str = "Bash", status: Status = "error", **fields: Json) -> PairedCall:
    call = PairedCall(
        7, "s", 12, "c1", name, status, 2140.0, "s#3", "s#4", {"command": "ls"}, "x", "2026-11-03T10:41:07Z"
    )
    return call._replace(**fields)


def make_row(key: int, turn: int, name: str = "Bash", status: Status = "ok", subject: str = "ls") -> ToolCallRow:
    return ToolCallRow(key, turn, name, subject, status, 10.0)


# ── one call ──────────────────────────────────────────────────────────────────────────────────────


def test_the_heading() -> None:
    assert render_call_heading(make_call(), 2, 52, 1).plain == "Bash · 3 of 52 · ✗ exit 1 · 2.1 s · turn 12, 10:41:07"
    unknown = make_call(status="pending", duration_ms=None, at="whenever")
    assert render_call_heading(unknown, 0, 0, None).plain == "Bash · … no result · turn 12"
    assert render_call_heading(make_call(name="", status="ok"), 0, 1, None).plain.startswith(
        "unnamed tool · 1 of 1 · ✓ ok"
    )


def test_titles() -> None:
    assert render_result_title("a\nb", "ok").plain == "result, 2 lines"
    assert render_result_title("a\nb\n", "ok").plain == "result, 2 lines"
    assert render_result_title("", "ok").plain == "result"
    assert render_result_title("", "pending").plain == "no result yet"
    assert render_arguments_title(None).plain == "arguments"
    assert render_arguments_title((12, 3)).plain == "edit  +12 −3"


def test_the_calls_of_the_same_name() -> None:
    rows = [
        make_row(1, 9, status="error"),
        make_row(2, 10, "Read"),
        make_row(3, 11, status="error"),
        make_row(4, 12),
        make_row(5, 13),
    ]
    assert render_same_calls(rows, 3).plain == "same call before: turn 9 ✗, turn 11 ✗   after: turn 13 ✓"
    assert render_same_calls(rows, 0).plain == "same call after: turn 11 ✗, turn 12 ✓, turn 13 ✓"
    assert render_same_calls(rows, 1).plain == "no other calls of this tool"


def test_without_the_same_command_the_calls_of_the_same_tool_are_named() -> None:
    rows = [make_row(1, 9, subject="make"), make_row(2, 10), make_row(3, 11, subject="make test")]
    assert render_same_calls(rows, 1).plain == "same tool before: turn 9 ✓   after: turn 11 ✓"


def test_only_the_nearest_of_very_many_are_named() -> None:
    text = render_same_calls([make_row(n, n) for n in range(100)], 50).plain
    assert text == (
        "same call before: 47 more … turn 47 ✓, turn 48 ✓, turn 49 ✓   after: turn 51 ✓, turn 52 ✓, turn 53 ✓ … 46 more"
    )


# ── the table ─────────────────────────────────────────────────────────────────────────────────────


def test_a_row_of_the_table_shows_the_tool_and_its_argument() -> None:
    row = build_call_row(make_call(arguments={"file_path": "/home/ada/alpha/src/app.py"}), "/home/ada/alpha")
    assert row.subject == "src/app.py"
    shown = render_call_row(row, 4, 60)
    assert shown.plain.split() == ["12", "✗", "Bash", "src/app.py", "2.1", "s"]
    assert shown.cell_length == 60 == render_table_head(4, 60).cell_length


def test_a_row_matches_all_its_words() -> None:
    row = build_call_row(make_call())
    for words in (["bash"], ["ls", "failed"], ["turn 12"], []):
        assert row.matches(words)
    assert not row.matches(["bash", "ok"])


@pytest.mark.parametrize("width", [20, 60, 140])
def test_nothing_hostile_survives(width: int) -> None:
    evil = make_call(name=HOSTILE, arguments={HOSTILE: HOSTILE})
    for shown in (render_call_row(build_call_row(evil), 400, width), render_call_heading(evil, 0, 1, None)):
        assert isinstance(shown, Content)
        assert not set(shown.plain) & set("\x1b\x07\x9b\u202e\t\r\n")
    assert render_call_row(build_call_row(evil), 400, width).cell_length <= width


# ── exit code ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ({"exit_code": 1, "stdout": ""}, 1),
        ({"output": "x", "metadata": {"exit_code": 0, "duration_seconds": 0.1}}, 0),
        ({"title": "x", "metadata": {"exit": 127}}, 127),
        (json.dumps({"output": "x", "metadata": {"exit_code": 2}}), 2),
        ({"output": "Exit code 3\nls: no such file"}, 3),
        ([{"type": "text", "text": "Exit code 1\nTraceback"}], 1),
        ("Error: Exit code 1\nboom", 1),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nx", 0),
        ("Chunk ID: 1\nWall time: 1 s\nProcess exited with code 101\nOutput:", 101),
        ("lines\nof output\n\nCommand exited with code 2\n", 2),
        ("(exit status 5)", 5),
        ("(Exit Code: -1)", -1),
        ("x\n" * 100_000 + "Exit code 9", 9),
    ],
)
def test_an_exit_code_is_found(result: Json, code: int) -> None:
    assert find_exit_code(result) == code


@pytest.mark.parametrize(
    "result",
    [
        None,
        "",
        "all good",
        "The docs say that exit code 1 means failure",
        {"exit_code": True},
        {"exit_code": "1"},
        {"a": {"b": 1}},
        [1, None, []],
        12,
        "x\n" * 20 + "Exit code 1\n" + "y\n" * 20,
        "[" * 5_000,
    ],
)
def test_no_exit_code_is_found(result: Json) -> None:
    assert find_exit_code(result) is None


# ── commands and failures in the timeline ─────────────────────────────────────────────────────────

QWEN_RESULT = """Command: cat x; exit 3
Directory: (root)
Output: about to fail
cat: x: No such file or directory
Error: (none)
Exit Code: 3
Signal: 0
Process Group PGID: 20707"""
GEMINI_RESULT = (
    "<untrusted_context>\nOutput: one\nlast words\nExit Code: 3\nProcess Group PGID: 2\n</untrusted_context>"
)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"command": "cd src &&\n    make \\\n  test\n"}, "cd src && ⏎ make \\ ⏎ test"),
        ({"command": ["bash", "-lc", "ls\npwd"]}, "ls ⏎ pwd"),
        ({"cmd": "ls"}, "ls"),
        ({"description": "two\nlines"}, "two\nlines"),
    ],
)
def test_line_breaks_of_commands_are_marked(arguments: Json, expected: str) -> None:
    assert describe_call("Bash", arguments) == expected
    assert build_call_row(make_call(arguments=arguments)).subject == " ".join(expected.split())


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (QWEN_RESULT, "cat: x: No such file or directory"),
        (GEMINI_RESULT, "last words"),
        ("about\nto break\n\nCommand exited with code 3\n", "to break"),
        ("Exit code 3", "Exit code 3"),
    ],
)
def test_the_reason_of_a_failure_is_what_the_command_said_last(result: str, reason: str) -> None:
    item = TimelineItem("call", make_entry(), 0, "", "Bash", make_call(result=result))
    assert [line.plain.strip(" └") for line in render_failure_reason(item, Viewport(100))] == [reason]


def test_an_exit_code_that_is_known_elsewhere_is_shown() -> None:
    item = TimelineItem("call", make_entry(), 0, "", "Bash", make_call(result="no", exit_code=3))
    assert render_call_line(item, Viewport(80), is_open=False).plain.endswith("✗ exit 3")


def make_entry() -> Entry:
    return Entry(
        1, 1, None, 0, None, 1, "message", "assistant", "", "", "", "", (), False, None, "2026-11-03T10:41:07Z"
    )
