"""Tests the screen of a compaction: what was dropped, what the model saw, and the forks from before it."""

from __future__ import annotations

from typing import Any

import pytest
from browser_driver import (
    add_session,
    answer_entry,
    make_browser,
    prompt_entry,
    screen_text,
    time_ago,
    wait_for_text,
    wait_until,
)
from fake_clipboard import FakeClipboard
from textual.pilot import Pilot

from store.model.entry import NewEntry, Text, Tokens, ToolCall, ToolResult
from store.store import Store
from tui.screens.compaction import CompactionScreen, OwnSummaryDialog
from tui.widgets.timeline.timeline_view import TimelineView

AT = time_ago(minutes=4)
SUMMARY = "The retry in uploader.py was fixed.\nThe upload test passes."
HOSTILE = "\x1b[2J[bold]x[/]"


@pytest.fixture
def compacted(store: Store) -> Store:
    edit = {"file_path": "/code/alpha/uploader.py", "old_string": "a", "new_string": "b"}
    tokens = Tokens(input=1000, output=5, cache_read=9000)
    add_session(
        store,
        "claude:1",
        AT,
        prompt_entry("Fix the retry of the upload test", AT),
        NewEntry(role="assistant", parts=(ToolCall("1", "Edit", edit),), tokens=tokens, created_at=AT),
        NewEntry(role="tool", parts=(ToolResult("1", "done"),), created_at=AT),
        answer_entry(f"We decided to keep the old config format {HOSTILE}.", AT),
        prompt_entry("Rename every database column", AT),
        answer_entry("Done.", AT),
        NewEntry(kind="compaction", role="system", parts=(Text(SUMMARY),), created_at=AT),
        prompt_entry("Go on", AT),
        NewEntry(role="assistant", parts=(Text("ok"),), tokens=Tokens(input=300, output=1), created_at=AT),
        NewEntry(kind="compaction", role="system", created_at=AT),
        source="claude",
        cwd="/code/alpha",
        agent_title="Compacted",
    )
    return store


async def open_compaction(pilot: Pilot[Any]) -> None:
    """Open the session, and inspect its first compaction."""
    await wait_for_text(pilot, "Compacted")
    await pilot.press("enter")
    view = pilot.app.screen.query_one(TimelineView)
    await wait_until(pilot, lambda: view.has_focus and view.current_item is not None)
    await pilot.press("g")
    while view.current_item is None or view.current_item.kind != "compaction":
        await pilot.press("down")
        await pilot.pause()
    await pilot.press("i")
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, CompactionScreen))
    await wait_for_text(pilot, "Compaction 1 of 2")


@pytest.mark.parametrize("size", [(140, 45), (80, 24)], ids=["wide", "narrow"])
async def test_both_sides_are_shown(compacted: Store, size: tuple[int, int]) -> None:
    async with make_browser(compacted).run_test(size=size) as pilot:
        await open_compaction(pilot)
        await wait_for_text(
            pilot,
            "2 turns, 1 file · 10.0k → 300 tokens",
            "before: dropped, 2 of 4 missing in the summary",
            "named      1  Fix the retry of the upload test",
            "missing    2  Rename every database column",
            "after: what the model saw",
            "The upload test passes.",
        )
        assert "\x1b[2J" not in screen_text(pilot)


async def test_the_next_compaction_has_no_summary(compacted: Store) -> None:
    async with make_browser(compacted).run_test(size=(140, 45)) as pilot:
        await open_compaction(pilot)
        await pilot.press("J")
        await wait_for_text(pilot, "Compaction 2 of 2", "recorded that it compacted", "Go on")
        await pilot.press("J", "K")
        await wait_for_text(pilot, "Compaction 1 of 2", "The upload test passes.")


async def test_the_summary_is_copied(compacted: Store, clipboard: FakeClipboard) -> None:
    async with make_browser(compacted).run_test(size=(140, 45), notifications=True) as pilot:
        await open_compaction(pilot)
        await pilot.press("y")
        await wait_for_text(pilot, "Copied the summary.")
        assert clipboard.text == SUMMARY


async def test_enter_goes_to_the_compaction(compacted: Store) -> None:
    async with make_browser(compacted).run_test(size=(140, 45)) as pilot:
        await open_compaction(pilot)
        await pilot.press("enter")
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, CompactionScreen))
        view = pilot.app.screen.query_one(TimelineView)
        await wait_until(pilot, lambda: view.current_item is not None and view.current_item.kind == "compaction")


async def test_f_forks_from_before_it(compacted: Store) -> None:
    async with make_browser(compacted).run_test(size=(140, 45), notifications=True) as pilot:
        await open_compaction(pilot)
        await pilot.press("F")
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, CompactionScreen))
        await wait_until(pilot, lambda: compacted.sessions.children("claude:1"))
        (fork,) = compacted.sessions.children("claude:1")
        texts = [entry.text for entry in compacted.chains.entries(fork.key) if entry.kind == "message"]
        assert texts[-1] == "Done."


async def test_s_forks_with_a_summary_of_ones_own(compacted: Store) -> None:
    async with make_browser(compacted).run_test(size=(140, 45), notifications=True) as pilot:
        await open_compaction(pilot)
        await pilot.press("S")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, OwnSummaryDialog))
        await wait_for_text(pilot, "Fork with a summary of your own", "The upload test passes.")
        await pilot.press("enter", *"Keep it.", "ctrl+s")
        await wait_until(pilot, lambda: compacted.sessions.children("claude:1"))
        (fork,) = compacted.sessions.children("claude:1")
        last = compacted.chains.entries(fork.key)[-1]
        assert (last.kind, last.text) == ("compaction", f"{SUMMARY}\nKeep it.")
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, CompactionScreen | OwnSummaryDialog))


async def test_the_palette_offers_it(compacted: Store) -> None:
    async with make_browser(compacted).run_test(size=(140, 45)) as pilot:
        await wait_for_text(pilot, "Compacted")
        await pilot.press("enter")
        await wait_for_text(pilot, "Go on")
        await pilot.press("ctrl+p", *"compactions")
        await wait_for_text(pilot, "What the model saw before and after")
        await pilot.press("enter")
        await wait_for_text(pilot, "Compaction 2 of 2")
