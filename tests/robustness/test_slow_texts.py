"""These tests show texts that take seconds to parse, wrap or measure: the thread that paints never does it itself.

What is limited is the processor time of one step of the event loop, and the limit is generous: each text would take
that thread seconds.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser_driver import add_session, answer_entry, make_browser, prompt_entry, time_ago, wait_until
from textual.events import Paste
from textual.pilot import Pilot

from store.model.entry import NewEntry, NewRecord, Text, ToolCall, ToolResult
from store.store import Store
from tui.screens.conversation import ConversationPane

MAX_STEP_SECONDS = 1.0
AT = time_ago(minutes=5)
MEGABYTE = 1_000_000
LINES = "".join(f"line {n} {'x' * 40}\n" for n in range(MEGABYTE // 48))


def answer(text: str) -> list[NewEntry]:
    return [prompt_entry("Look at this", AT), answer_entry(text, AT)]


def call(name: str, arguments: Any, result: Any) -> list[NewEntry]:
    return [
        prompt_entry("Call it", AT),
        NewEntry(role="assistant", parts=(ToolCall("c1", name, arguments),), created_at=AT),
        NewEntry(role="tool", parts=(ToolResult("c1", result),), created_at=AT),
    ]


def record(data: bytes) -> list[NewEntry]:
    return [NewEntry(role="user", parts=(Text("deep"),), created_at=AT, record=NewRecord(data))]


OPEN = ["enter", "end", "w", "home", "pagedown"]
FIND_X = ["enter", "slash", "x", "enter", "w", "n"]
OPEN_CALL = ["enter", "x", "enter", "w", "end", "i", "d", "end"]
OPEN_RECORD = ["enter", "home", "3", "H", "end", "slash", "a", "enter"]

TEXTS: dict[str, tuple[list[NewEntry], list[str]]] = {
    "a table with many cells": (answer("|" + "a|" * 2_000 + "\n|" + "-|" * 2_000 + "\n" + "|\n" * 122), OPEN),
    "images that never end": (answer("![" * 30_000), OPEN),
    "quotes in quotes": (answer("> " * 5_000 + "x\n" * 20_000), OPEN),
    "emphasis that never ends": (answer("*a **b " * 20_000), OPEN),
    "code that is hard to highlight": (answer("```python\nx = 1\n" + "(\n" * 30_000 + "```\n"), OPEN),
    "many lines": (answer("x\n" * MEGABYTE), FIND_X),
    "one long line": (answer("x" * MEGABYTE), FIND_X),
    "one long line of words": (answer("x y " * 250_000), FIND_X),
    "many wide characters": (answer("漢字" * 500_000), ["enter", "slash", "漢", "enter", "w", "n"]),
    "a large edit": (call("Edit", {"old_string": LINES, "new_string": LINES.replace("7", "8")}, "ok"), OPEN_CALL),
    "a long command": (call("Bash", {"command": "x" * MEGABYTE}, "\x1b[31m" * 200_000 + LINES), OPEN_CALL),
    "links": (answer("[a](" * 20_000 + "https://x.example/" * 5_000 + ")" * 50_000), ["enter", "O", "escape"]),
    "a deep record": (record(b"[" * MEGABYTE + b"]" * MEGABYTE), OPEN_RECORD),
    "a deep value in a text": (call("Odd", {"a": "[" * MEGABYTE + "]" * MEGABYTE}, "ok"), [*OPEN_CALL, "o"]),
}


class Stopwatch:
    """Measures the processor time of the longest step of the event loop."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def run(self, step: Callable[[asyncio.Handle], None], handle: asyncio.Handle) -> None:
        start = time.thread_time()
        step(handle)
        self.seconds = max(self.seconds, time.thread_time() - start)


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stopwatch]:
    stopwatch, step = Stopwatch(), asyncio.Handle._run
    monkeypatch.setattr(asyncio.Handle, "_run", lambda handle: stopwatch.run(step, handle))
    gc.disable()  # a collection of everything that other tests have left may take long
    yield stopwatch
    gc.enable()


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys one after the other, each when the threads that the last one started have finished."""
    for key in keys:
        await pilot.press(key)
        await pilot.pause(0.1)  # words are searched for after a pause in typing
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()


async def open_conversation(pilot: Pilot[Any], stopwatch: Stopwatch) -> None:
    """Wait for the conversation. What the test itself did before does not count."""
    stopwatch.seconds = 0.0
    await wait_until(pilot, lambda: pilot.app.screen.query(ConversationPane))
    pane = pilot.app.screen.query_one(ConversationPane)
    await wait_until(pilot, lambda: pane.session is not None)


@pytest.mark.parametrize("name", TEXTS)
async def test_a_text_that_takes_seconds_never_blocks_the_screen(store: Store, stopwatch: Stopwatch, name: str) -> None:
    entries, keys = TEXTS[name]
    add_session(store, "slow", AT, *entries, agent_title="Slow")
    async with make_browser(store).run_test(size=(150, 45)) as pilot:
        await open_conversation(pilot, stopwatch)
        await press(pilot, *keys)
    assert stopwatch.seconds < MAX_STEP_SECONDS


@pytest.mark.parametrize("key", ["slash", "enter slash"], ids=["search", "find"])
@pytest.mark.parametrize("text", ["word " * MEGABYTE, "漢字" * 4 * MEGABYTE], ids=["words", "wide characters"])
async def test_pasting_megabytes_into_an_input_never_blocks_the_screen(
    store: Store, stopwatch: Stopwatch, key: str, text: str
) -> None:
    add_session(store, "one", AT, *answer("Some words"))
    async with make_browser(store).run_test(size=(150, 45)) as pilot:
        await open_conversation(pilot, stopwatch)
        await press(pilot, *key.split())
        pilot.app.post_message(Paste(text))
        await press(pilot, "a", "b", "enter")
    assert stopwatch.seconds < MAX_STEP_SECONDS


async def test_a_title_of_megabytes_never_blocks_the_screen(store: Store, stopwatch: Stopwatch) -> None:
    add_session(store, "one", AT, *answer("Some words"), agent_title="漢字" * 4 * MEGABYTE)
    async with make_browser(store).run_test(size=(150, 45)) as pilot:
        await open_conversation(pilot, stopwatch)
        await press(pilot, "t", "x", "escape", "I", "end", "escape", "P", "a", "escape", "escape", "F", "escape")
    assert stopwatch.seconds < MAX_STEP_SECONDS
