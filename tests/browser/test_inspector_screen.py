"""Tests the inspector of a tool call: both sides, neighbours, all calls, copying, and going to the turn."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser_driver import add_session, prompt_entry, resize_terminal, screen_text, time_ago, wait_for_text, wait_until
from textual import on
from textual.app import App
from textual.pilot import Pilot

import tui
from store.model.entry import Json, NewEntry, NewRecord, PairedCall, Text, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store
from tui.dialogs.tool_call_picker import ToolCallPickerDialog
from tui.messages import Copy
from tui.screens.inspector import InspectorScreen
from tui.widgets.tool_call_pane import ToolCallPane

AT = time_ago(minutes=4)
LOG = "\n".join(f"line {n}" for n in range(200)) + "\n1 failed\nExit code 1"
OLD, NEW = "def f():\n    return 1", "def f():\n    return 2"


def call(number: int, name: str, arguments: Json, output: Json, *, failed: bool = False) -> list[NewEntry]:
    asked = Text("ok"), ToolCall(str(number), name, arguments)
    answered = ToolResult(str(number), output, is_error=failed, duration_ms=2140.0)
    return [
        NewEntry(role="assistant", parts=asked, created_at=AT),
        NewEntry(role="tool", parts=(answered,), created_at=AT),
    ]


def fill(store: Store) -> Session:
    return add_session(
        store,
        "claude:1",
        AT,
        prompt_entry("Run it", AT),
        *call(1, "Bash", {"command": "pytest -q", "timeout": 120}, LOG, failed=True),
        *call(2, "Read", {"file_path": "/code/alpha/app.py"}, "def f(): ..."),
        prompt_entry("Fix it", AT),
        *call(3, "Edit", {"file_path": "/code/alpha/app.py", "old_string": OLD, "new_string": NEW}, "updated"),
        *call(4, "Bash", {"command": "pytest -x"}, "1 passed"),
        NewEntry(role="assistant", parts=(ToolCall("5", "Bash", {"command": "sleep 9"}),), created_at=AT),
        cwd="/code/alpha",
    )


class Alone(App[None]):
    CSS_PATH = Path(tui.__file__).with_name("app.tcss")

    def __init__(self) -> None:
        super().__init__()
        self.copied: list[Copy] = []
        self.answers: list[str | None] = []

    @on(Copy)
    def _copy(self, copy: Copy) -> None:
        self.copied.append(copy)


def app_of(pilot: Pilot[Any]) -> Alone:
    assert isinstance(pilot.app, Alone)
    return pilot.app


def asked(pilot: Pilot[Any]) -> ToolCallPane:
    return pilot.app.screen.query_one("#asked", ToolCallPane)


def answered(pilot: Pilot[Any]) -> ToolCallPane:
    return pilot.app.screen.query_one("#answered", ToolCallPane)


@asynccontextmanager
async def inspecting(
    store: Store, session: Session, at: int, size: tuple[int, int] = (140, 40)
) -> AsyncIterator[Pilot[Any]]:
    app = Alone()
    calls = store.chains.tool_calls(session.key)
    async with app.run_test(size=size) as pilot:
        await app.push_screen(InspectorScreen(store, session, calls[at].key), app.answers.append)
        await wait_for_text(pilot, calls[at].name, f" of {len(calls)} ")
        await pilot.pause()
        yield pilot


async def shows(pilot: Pilot[Any], heading: str) -> None:
    await wait_until(pilot, lambda: heading in screen_text(pilot).splitlines()[0])


# ── one call ──────────────────────────────────────────────────────────────────────────────────────


async def test_both_sides_are_next_to_each_other(store: Store) -> None:
    async with inspecting(store, fill(store), 0) as pilot:
        text = screen_text(pilot)
        assert "Bash · 1 of 5 · ✗ exit 1 · 2.1 s · turn 1, 11:56:00" in text
        assert "result, 202 lines" in text
        assert any('command: "pytest -q"' in line and "line 0" in line for line in text.splitlines()), text
        assert "same tool after: turn 2 ✓, turn 2 …" in text
        assert answered(pilot).text.has_focus


@pytest.mark.parametrize(
    "record",
    [
        {"type": "tool.execution_complete", "data": {"shellExecution": {"exitCode": 3}, "result": {"content": "x"}}},
        {"id": "prt_1", "data": json.dumps({"type": "tool", "state": {"output": "x", "metadata": {"exit": 3}}})},
        {
            "payload": {
                "type": "function_call_output",
                "output": "Wall time: 0 s\nProcess exited with code 3\nOutput:\nx",
            }
        },
    ],
)
async def test_the_exit_code_is_found_next_to_the_output(store: Store, record: Json) -> None:
    asked, answered = call(1, "bash", {"command": "ls"}, "x", failed=True)
    whole = replace(answered, record=NewRecord(json.dumps(record).encode()))
    session = add_session(store, "copilot:1", AT, prompt_entry("Run it", AT), asked, whole)
    async with inspecting(store, session, 0) as pilot:
        await shows(pilot, "bash · 1 of 1 · ✗ exit 3")


async def test_a_narrow_terminal_shows_one_side_above_the_other(store: Store) -> None:
    async with inspecting(store, fill(store), 0, size=(80, 24)) as pilot:
        lines = screen_text(pilot).splitlines()
        above = next(n for n, line in enumerate(lines) if "pytest -q" in line)
        below = next(n for n, line in enumerate(lines) if "line 0" in line)
        assert above < below


async def test_a_long_command_is_shown_in_full(store: Store) -> None:
    command = "echo " + " ".join(f"word{n}" for n in range(30)) + "; exit 3"
    session = add_session(store, "claude:2", AT, prompt_entry("Go", AT), *call(1, "Bash", {"command": command}, "no"))
    for size in ((140, 45), (80, 24)):
        async with inspecting(store, session, 0, size=size) as pilot:
            await wait_for_text(pilot, "▾ command", "word29; exit 3")


async def test_a_call_without_a_result(store: Store) -> None:
    async with inspecting(store, fill(store), 4) as pilot:
        text = screen_text(pilot)
        assert "… no result" in text
        assert "no result yet" in text


async def test_an_edit_is_shown_as_a_diff_and_a_key_shows_its_arguments(store: Store) -> None:
    async with inspecting(store, fill(store), 2) as pilot:
        text = screen_text(pilot)
        assert "edit  +1 −1" in text
        assert "−     return 1" in text
        assert "+     return 2" in text
        asked(pilot).view.focus()
        await pilot.press("d")
        await wait_for_text(pilot, "old_string:")
        assert asked(pilot).tree_view.has_focus
        await pilot.press("d")
        await wait_for_text(pilot, "+     return 2")


async def test_a_result_with_many_fields_can_be_shown_as_a_tree(store: Store) -> None:
    fields = {"stdout": "one line", "stderr": "a warning", "exit_code": 3}
    session = add_session(
        store, "s", AT, prompt_entry("x", AT), *call(1, "Say", {}, fields), *call(2, "Say", {}, [[], []])
    )
    async with inspecting(store, session, 0) as pilot:
        assert "✓ exit 3" in screen_text(pilot)
        assert "a warning" not in screen_text(pilot)
        await pilot.press("d")
        await wait_for_text(pilot, 'stderr: "a warning"')
        await pilot.press("down", "c")
        await wait_until(pilot, lambda: app_of(pilot).copied)
        assert app_of(pilot).copied[-1].text == "a warning"
        await pilot.press("d", "J")
        await wait_for_text(pilot, "1 []")
        await wait_until(pilot, lambda: answered(pilot).tree_view.has_focus)


async def test_a_result_without_a_call(store: Store) -> None:
    alone = NewEntry(role="tool", parts=(ToolResult("x", "an answer", name="Say"),), created_at=AT)
    session = add_session(store, "s", AT, prompt_entry("x", AT), alone)
    async with inspecting(store, session, 0) as pilot:
        await wait_for_text(pilot, "an answer", "No tool call is known for this result.")
        await pilot.press("g")
        await wait_until(pilot, lambda: app_of(pilot).answers == ["s#1"])


async def test_other_calls_have_no_diff(store: Store) -> None:
    async with inspecting(store, fill(store), 0) as pilot:
        asked(pilot).view.focus()
        await pilot.press("d")
        await pilot.pause()
        assert 'command: "pytest -q"' in screen_text(pilot)


# ── to other calls ────────────────────────────────────────────────────────────────────────────────


async def test_keys_go_from_call_to_call(store: Store) -> None:
    async with inspecting(store, fill(store), 0) as pilot:
        for key, heading in (
            ("K", "Bash · 1 of 5"),
            ("J", "Read · 2 of 5"),
            ("J", "Edit · 3 of 5"),
            ("K", "Read · 2 of 5"),
            ("right_square_bracket", "Read · 2 of 5"),
            ("K", "Bash · 1 of 5"),
            ("right_square_bracket", "Bash · 4 of 5"),
            ("right_square_bracket", "Bash · 5 of 5"),
            ("right_square_bracket", "Bash · 5 of 5"),
            ("J", "Bash · 5 of 5"),
            ("left_square_bracket", "Bash · 4 of 5"),
        ):
            await pilot.press(key)
            await shows(pilot, heading)
        await wait_for_text(pilot, "1 passed")


async def test_all_calls_are_filtered_while_typing(store: Store) -> None:
    async with inspecting(store, fill(store), 0) as pilot:
        await pilot.press("a")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, ToolCallPickerDialog))
        await wait_for_text(pilot, "All calls of this session  5", "app.py", "argument")
        await pilot.press(*"bash pytest")
        await wait_for_text(pilot, "2 of 5")
        assert "sleep" not in screen_text(pilot)
        await pilot.press("down", "up", "pagedown", "enter")
        await shows(pilot, "Bash · 4 of 5")


async def test_the_table_works_with_the_mouse_and_its_own_keys(store: Store) -> None:
    async with inspecting(store, fill(store), 0) as pilot:
        await pilot.press("a")
        await wait_for_text(pilot, "All calls")
        await pilot.click("ToolCallTable", offset=(20, 1), times=2)
        await shows(pilot, "Read · 2 of 5")
        await pilot.press("a")
        await wait_for_text(pilot, "All calls")
        await pilot.press("tab", "j", "end", "enter")
        await shows(pilot, "Bash · 5 of 5")


async def test_a_filter_without_matches(store: Store) -> None:
    async with inspecting(store, fill(store), 0) as pilot:
        await pilot.press("a")
        await wait_for_text(pilot, "All calls")
        await pilot.press(*"zebra", "down", "enter")
        await wait_for_text(pilot, "0 of 5")
        await pilot.press("escape")
        await shows(pilot, "Bash · 1 of 5")


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


async def test_each_side_has_its_own_find(store: Store) -> None:
    async with inspecting(store, fill(store), 0) as pilot:
        await pilot.press("slash", *"LINE 19", "enter")
        await wait_for_text(pilot, "1 of 11")
        await pilot.press("n")
        await wait_for_text(pilot, "2 of 11", "line 190")
        await pilot.press("N", "N")
        await wait_for_text(pilot, "11 of 11", "line 199")
        asked(pilot).view.focus()
        await pilot.press("slash", *"timeout")
        await wait_for_text(pilot, "1 of 1")
        await pilot.press("escape", "tab")
        await pilot.press("escape")
        await pilot.pause()
        assert "11 of 11" not in screen_text(pilot)
        assert isinstance(pilot.app.screen, InspectorScreen)
        await pilot.press("escape")
        await wait_until(pilot, lambda: app_of(pilot).answers == [None])


async def test_words_across_a_line_break_are_found(store: Store) -> None:
    text = "word " * 60 + "\nfirst half\nsecond half"
    session = add_session(store, "s", AT, prompt_entry("x", AT), *call(1, "Say", {}, text))
    async with inspecting(store, session, 0) as pilot:
        await pilot.press("slash", *"half second", "enter")
        await wait_for_text(pilot, "1 of 1")


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


async def test_the_result_scrolls(store: Store) -> None:
    async with inspecting(store, fill(store), 0) as pilot:
        view = answered(pilot).text
        for key, top in (("j", 1), ("down", 2), ("k", 1), ("up", 0), ("end", int(view.max_scroll_y)), ("home", 0)):
            await pilot.press(key)
            assert view.scroll_offset.y == top
        await pilot.press("space")
        assert view.scroll_offset.y == view.page.height - 1
        await pilot.press("b")
        assert view.scroll_offset.y == 0


async def test_a_result_of_megabytes_scrolls_to_its_end_and_is_wrapped_again(store: Store) -> None:
    text = "\n".join(f"{n} " + "x" * 200 for n in range(10_000)) + "\nthe end"
    session = add_session(
        store, "s", AT, prompt_entry("x", AT), *call(1, "Say", {}, text), *call(2, "Say", {}, "short")
    )
    async with inspecting(store, session, 0, size=(160, 30)) as pilot:
        view = answered(pilot).text
        await wait_until(pilot, lambda: view.line_count > 20_000)
        await pilot.press("end")
        await wait_for_text(pilot, "the end")
        await pilot.press("slash", *"9999 xx", "enter")
        await wait_for_text(pilot, "1 of 1")
        wide = view.line_count
        await resize_terminal(pilot, 104, 30)
        await wait_until(pilot, lambda: view.line_count > wide)
        await pilot.press("J")
        await wait_for_text(pilot, "short")


# ── copying and leaving ───────────────────────────────────────────────────────────────────────────


async def test_copying_arguments_result_and_value(store: Store) -> None:
    async with inspecting(store, fill(store), 0) as pilot:
        copied = app_of(pilot).copied
        await pilot.press("Y")
        await wait_until(pilot, lambda: copied)
        assert copied[-1].text == LOG
        await pilot.press("y")
        await wait_until(pilot, lambda: len(copied) > 1)
        assert json.loads(copied[-1].text) == {"command": "pytest -q", "timeout": 120}
        asked(pilot).view.focus()
        await pilot.press("c")
        await wait_until(pilot, lambda: len(copied) > 2)
        assert copied[-1].text == "pytest -q"


@pytest.mark.parametrize("key", ["enter", "g"])
async def test_going_to_the_turn_returns_the_entry(store: Store, key: str) -> None:
    session = fill(store)
    expected: PairedCall = store.chains.tool_calls(session.key)[2]
    async with inspecting(store, session, 2) as pilot:
        await pilot.press(key)
        await wait_until(pilot, lambda: app_of(pilot).answers)
        assert app_of(pilot).answers == [expected.entry]


async def test_nothing_hostile_reaches_the_screen(store: Store) -> None:
    evil = "\x1b]52;c;eA==\x07\x1b[2J\x9b1m\x00[@click=app.quit]x[/]\u202e\t漢字👩\u200d👧\r\n" * 3
    session = add_session(
        store,
        "s",
        AT,
        prompt_entry("x", AT),
        *call(1, evil, {evil: evil, "path": evil, "old_string": evil, "new_string": "x"}, evil * 100, failed=True),
        *call(2, evil, {"command": evil}, {"text": evil}),
    )
    app = Alone()
    async with app.run_test(size=(120, 40)) as pilot:
        await app.push_screen(InspectorScreen(store, session, store.chains.tool_calls(session.key)[0].key))
        for keys in ([], ["d"], ["end"], ["J"], ["slash", "x", "enter"], ["a"], ["x"]):
            await pilot.press(*keys)
            await pilot.pause(0.3)
            assert not set(screen_text(pilot)) & set("\x1b\x07\x9b\x00\t\r\u202e")
        assert "[@click=app.quit]x[/]" in screen_text(pilot)
