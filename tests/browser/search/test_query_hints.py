"""Tests the hints below the search box about filters and values that are not known."""

from __future__ import annotations

from typing import Any

import pytest
from browser_driver import make_browser, resize_terminal, screen_text, wait_for_text, wait_until
from textual.content import Content
from textual.pilot import Pilot

from store.search.query import STATES
from store.store import Store
from tui.widgets.top_bar import EXPLAIN_DELAY

UNKNOWN_STATE = "is: has no value 'banana'. Use error, pinned"


async def type_query(pilot: Pilot[Any], text: str) -> None:
    await wait_for_text(pilot, "6 sessions")
    await pilot.press("slash", *text)
    await wait_until(pilot, lambda: pilot.app.screen.query_one("QueryInput").value == text)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("is:banana", UNKNOWN_STATE),
        ("after:banana", "after: 'banana' is not a date. Use 2026-11-01, yesterday, 3d."),
        ("upload OR agnt:claude", "agnt: is not a filter, so it is searched as a word. Did you mean agent:?"),
    ],
)
async def test_an_unknown_value_or_filter_gives_a_hint(filled_store: Store, typed: str, hint: str) -> None:
    async with make_browser(filled_store).run_test(size=(140, 30)) as pilot:
        await type_query(pilot, typed + " ")
        await wait_for_text(pilot, hint)


@pytest.mark.parametrize("typed", ["is:pin", "after:yes", "TypeError:x", "https://is.it/here"])
async def test_an_unfinished_value_or_another_word_gives_no_hint(filled_store: Store, typed: str) -> None:
    async with make_browser(filled_store).run_test(size=(140, 30)) as pilot:
        await type_query(pilot, typed)
        await pilot.pause(3 * EXPLAIN_DELAY)
        assert "has no value" not in screen_text(pilot)
        assert "not a" not in screen_text(pilot)


async def test_the_hint_appears_when_a_value_is_left_unfinished(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(140, 30)) as pilot:
        await type_query(pilot, "is:pin ")
        await wait_for_text(pilot, "is: has no value 'pin'.")


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("is:arch", "is: has no value 'arch'. Use error, pinned"),
        ("after:yes", "after: 'yes' is not a date."),
        ("@bash", "No saved search is named 'bash'."),
        ("@nope", "No saved search is named 'nope'."),
    ],
)
@pytest.mark.parametrize("in_tool_calls", [False, True])
async def test_the_hint_appears_when_an_unfinished_query_is_entered(
    filled_store: Store, in_tool_calls: bool, typed: str, hint: str
) -> None:
    filled_store.saved_searches.save("bash-errors", "is:error tool:bash")
    async with make_browser(filled_store).run_test(size=(140, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        if in_tool_calls:
            await pilot.press("A")
            await wait_for_text(pilot, "1 call ·")
        await pilot.press("slash", *typed, "enter")
        await wait_for_text(pilot, hint)
        await pilot.pause(3 * EXPLAIN_DELAY)
        assert hint in screen_text(pilot)


async def test_the_hint_appears_after_a_pause_once_no_completions_are_offered(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(140, 30)) as pilot:
        await type_query(pilot, "is:arch")
        await pilot.press("escape")
        await wait_for_text(pilot, "is: has no value 'arch'.")


async def test_the_beginning_of_a_saved_name_gives_no_hint(filled_store: Store) -> None:
    filled_store.saved_searches.save("bash-errors", "is:error tool:bash")
    async with make_browser(filled_store).run_test(size=(140, 30)) as pilot:
        await type_query(pilot, "@bash")
        await pilot.pause(3 * EXPLAIN_DELAY)
        assert "No saved search" not in screen_text(pilot)
        await pilot.press(*"-errors")
        await wait_for_text(pilot, "with failed calls")
        assert "No saved search" not in screen_text(pilot)


@pytest.mark.parametrize("width", [80, 140])
async def test_a_long_hint_uses_the_whole_row_and_more(filled_store: Store, width: int) -> None:
    whole = f"is: has no value 'banana'. Use {', '.join(STATES)}."
    async with make_browser(filled_store).run_test(size=(width, 24)) as pilot:
        await type_query(pilot, "is:banana")
        await wait_for_text(pilot, *(line.plain.strip() for line in Content(whole).wrap(width - 2)))
        await resize_terminal(pilot, 200, 24)
        await wait_for_text(pilot, whole)


async def test_the_screen_of_tool_calls_gives_the_hint_as_well(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(140, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("A")
        await wait_for_text(pilot, "1 call ·")
        await pilot.press("slash", *"is:banana")
        await wait_for_text(pilot, UNKNOWN_STATE)


async def test_several_hints_are_shown_in_full_in_a_narrow_terminal(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await type_query(pilot, "is:banana after:banana agnt:codex ")
        await wait_for_text(pilot, "waiting, idle, ended", "is not a date", "agent:?")
        top_bar = pilot.app.screen.query_one("TopBar")
        assert top_bar.size.height > 2
        await pilot.press("ctrl+u")
        await wait_until(pilot, lambda: top_bar.size.height == 2)
