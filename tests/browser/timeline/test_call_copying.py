"""Tests the keys that copy the command, the patch, the path or the output of a tool call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browser_driver import add_session, make_browser, prompt_entry, screen_text, time_ago, wait_for_text, wait_until
from fake_clipboard import FakeClipboard
from textual.pilot import Pilot

from store.model.entry import Json, NewEntry, NewRecord, ToolCall, ToolResult
from store.store import Store
from tui.screens.inspector import InspectorScreen
from tui.widgets.timeline.timeline_view import TimelineView

AT = time_ago(minutes=4)
COMMAND = "cd src &&\n  pytest -q"
EDIT = {"file_path": "/code/alpha/src/app.py", "old_string": "return 1", "new_string": "return 2"}
HUNK = {
    "oldStart": 1,
    "oldLines": 2,
    "newStart": 1,
    "newLines": 2,
    "lines": [" def f():", "-  return 1", "+  return 2"],
}
PATCH = "--- a/src/app.py\n+++ b/src/app.py\n@@ -1,2 +1,2 @@\n def f():\n-  return 1\n+  return 2\n"


def call(name: str, arguments: Json, output: str, record: Json = None) -> list[NewEntry]:
    new_record = NewRecord(json.dumps(record).encode(), "x.jsonl", "1") if record else None
    return [
        NewEntry(role="assistant", parts=(ToolCall(name, name, arguments),), created_at=AT),
        NewEntry(role="tool", parts=(ToolResult(name, output),), created_at=AT, record=new_record),
    ]


@pytest.fixture
def calls(store: Store) -> Store:
    entries = [
        *call("Bash", {"command": COMMAND}, "2 passed"),
        *call("Edit", EDIT, "updated", {"toolUseResult": {"structuredPatch": [HUNK]}}),
        *call("TodoWrite", {"todos": []}, ""),
    ]
    add_session(store, "claude:1", AT, prompt_entry("Fix it", AT), *entries, cwd="/code/alpha", agent_title="Copying")
    return store


async def open_timeline(pilot: Pilot[Any], tool: str) -> None:
    """Open the only session, and move to the call of that tool."""
    await wait_for_text(pilot, "Copying")
    await pilot.press("enter")
    view = pilot.app.screen.query_one(TimelineView)
    await wait_until(pilot, lambda: view.has_focus and view.current_item is not None)
    await pilot.press("g")
    while view.current_item is None or view.current_item.label != tool:
        await pilot.press("x")
        await pilot.pause()


async def press_and_read(pilot: Pilot[Any], key: str, notice: str) -> None:
    await pilot.press(key)
    await wait_for_text(pilot, notice)


@pytest.mark.parametrize("inspects", [False, True], ids=["timeline", "inspector"])
@pytest.mark.parametrize(
    ("tool", "key", "notice", "text"),
    [
        ("Bash", "number_sign", "Copied the command.", COMMAND),
        ("Bash", "R", "Copied the output.", "2 passed"),
        ("Edit", "number_sign", "Copied the patch.", PATCH),
        ("Edit", "at", "Copied the path.", "/code/alpha/src/app.py"),
        ("Bash", "at", "This call has no path.", None),
        ("TodoWrite", "number_sign", "This call has no command.", None),
        ("TodoWrite", "R", "This call has no output.", None),
    ],
)
async def test_one_key_copies_one_part(
    calls: Store, clipboard: FakeClipboard, tool: str, key: str, notice: str, text: str | None, inspects: bool
) -> None:
    clipboard.copy("before")
    async with make_browser(calls).run_test(size=(140, 45), notifications=True) as pilot:
        await open_timeline(pilot, tool)
        if inspects:
            await pilot.press("i")
            await wait_until(pilot, lambda: isinstance(pilot.app.screen, InspectorScreen))
            await wait_for_text(pilot, f"{tool} · ", " of 3 ")
        await press_and_read(pilot, key, notice)
        assert clipboard.text == (text if text is not None else "before")


async def test_a_prompt_has_nothing_of_a_call(calls: Store) -> None:
    async with make_browser(calls).run_test(size=(140, 45), notifications=True) as pilot:
        await open_timeline(pilot, "Bash")
        await pilot.press("g")
        await press_and_read(pilot, "number_sign", "Not a tool call. Press x to go to the next one.")
        assert "Copied" not in screen_text(pilot)
