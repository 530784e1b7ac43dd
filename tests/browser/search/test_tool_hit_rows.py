"""Tests the sessions at the end of the list that were found in tool calls only."""

from __future__ import annotations

import pytest
from browser_driver import (
    add_session,
    answer_entry,
    make_browser,
    prompt_entry,
    screen_text,
    selected_id,
    session_list,
    time_ago,
    wait_for_text,
    wait_until,
)
from textual.app import App

from store.model.entry import NewEntry, ToolCall, ToolResult
from store.search import hits
from store.store import Store
from tui.screens.browser.screen import BrowserScreen

HEADING = "In tool output  2"


def browser(app: App[object]) -> BrowserScreen:
    assert isinstance(app.screen, BrowserScreen)
    return app.screen


async def test_sessions_with_hits_in_tool_output_only_are_listed_below_the_others(tool_store: Store) -> None:
    async with make_browser(tool_store).run_test(size=(160, 30)) as pilot:
        await wait_for_text(pilot, "9 sessions")
        await pilot.press("slash", *"dolphin")
        await wait_for_text(
            pilot, "1 found · 2 more in tool output · everywhere", HEADING, "ok a dolphin ok", "grep dolphin"
        )
        lines = screen_text(pilot).splitlines()
        heading = next(n for n, line in enumerate(lines) if HEADING in line)
        assert [line[:30].strip(" ▌│") for line in lines[heading + 1 : heading + 5 : 2]] == [
            "Look around in harbour",
            "Look around in aquarium",
        ]
        assert any("Tell me of the dolphin" in line for line in lines[:heading])


@pytest.mark.parametrize("size", [(160, 30), (80, 24)])
async def test_enter_opens_the_session_at_the_call_unfolded(tool_store: Store, size: tuple[int, int]) -> None:
    app = make_browser(tool_store)
    async with app.run_test(size=size) as pilot:
        await wait_for_text(pilot, "9 sessions")
        await pilot.press("slash", *"dolphin", "enter")
        await wait_for_text(pilot, HEADING)
        await pilot.press("j")
        await wait_until(pilot, lambda: selected_id(pilot) == "harbour")
        await pilot.press("enter")
        await wait_for_text(pilot, "│ a dolphin")
        timeline = browser(app).conversation.timeline_pane.timeline_view
        await wait_until(pilot, lambda: timeline.has_hits)
        item = timeline.current_item
        assert item is not None
        assert item.call is not None
        assert item.call.arguments == {"command": "cat log"}
        assert timeline.cards.is_open(timeline.cursor)
        await pilot.press("end", "n")
        await wait_until(pilot, lambda: timeline.current_item is not None and timeline.current_item.call is not None)


async def test_the_whole_call_is_in_view_in_a_small_terminal(tool_store: Store) -> None:
    at = time_ago(minutes=30)
    call, result = (
        ToolCall("c", "Bash", {"command": "cat seahorse"}),
        ToolResult("c", "seahorse\ntwo\nthree\nfour\nfive"),
    )
    add_session(
        tool_store,
        "reef",
        at,
        *(prompt_entry("Look around", at), answer_entry("Nothing here.\n\n" * 5, at)),
        *(prompt_entry("And there?", at), answer_entry("Let me look.\n\n" * 4, at)),
        NewEntry(role="assistant", parts=(call,), created_at=at),
        NewEntry(role="tool", parts=(result,), created_at=at),
        answer_entry("That is all.", at),
    )
    async with make_browser(tool_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "10 sessions")
        await pilot.press("slash", *"seahorse", "enter")
        await wait_for_text(pilot, "1 found in tool output")
        await pilot.press("enter")
        await wait_for_text(pilot, "cat seahorse", "│ five")


async def test_without_other_sessions_the_first_of_them_is_selected(tool_store: Store) -> None:
    async with make_browser(tool_store).run_test(size=(160, 30)) as pilot:
        await wait_for_text(pilot, "9 sessions")
        await pilot.press("slash", *"notes.txt")
        await wait_for_text(pilot, " 2 found in tool output · everywhere", HEADING)
        assert "No session matches" not in screen_text(pilot)
        await wait_until(pilot, lambda: selected_id(pilot) == "harbour")


async def test_a_mistyped_word_of_a_tool_is_corrected(tool_store: Store) -> None:
    async with make_browser(tool_store).run_test(size=(160, 30)) as pilot:
        await wait_for_text(pilot, "9 sessions")
        await pilot.press("slash", *"ntoes ")
        await wait_for_text(pilot, "Showing “notes”; nothing for “ntoes”.", HEADING)


async def test_a_corrected_word_that_tools_have_written_is_found_as_it_was_typed(tool_store: Store) -> None:
    at = time_ago(hours=6)
    add_session(tool_store, "noted", at, prompt_entry("Take notse", at))
    async with make_browser(tool_store).run_test(size=(160, 30)) as pilot:
        await wait_for_text(pilot, "10 sessions")
        await pilot.press("slash", *"notes ")
        await wait_for_text(pilot, "Showing “notse”; “notes” is only in tool output.", HEADING, "Take notse")


async def test_the_cursor_stays_on_such_a_session_when_the_store_changes(tool_store: Store) -> None:
    async with make_browser(tool_store).run_test(size=(160, 30)) as pilot:
        await wait_for_text(pilot, "9 sessions")
        await pilot.press("slash", *"dolphin", "enter")
        await wait_for_text(pilot, HEADING)
        await pilot.press("end")
        assert selected_id(pilot) == "aquarium"
        at = time_ago(minutes=1)
        with Store.open(tool_store.path) as other:
            add_session(other, "new", at, prompt_entry("Another dolphin", at))
        await wait_for_text(pilot, "2 found · 2 more in tool output", "Another dolphin")
        assert selected_id(pilot) == "aquarium"


async def test_the_next_letter_removes_them_until_the_pause(tool_store: Store) -> None:
    async with make_browser(tool_store).run_test(size=(160, 30)) as pilot:
        await wait_for_text(pilot, "9 sessions")
        await pilot.press("slash", *"dolphin")
        await wait_for_text(pilot, HEADING)
        await pilot.press(*"qqq")
        await wait_for_text(pilot, "No session matches 'dolphinqqq'.")
        assert not session_list(pilot).listing.tool_hits.hits


async def test_the_number_of_them_is_limited_and_said(tool_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    find = hits.Search.find_tool_hits

    def find_one(self: hits.Search, *arguments: object, **options: object) -> object:
        return find(self, *arguments, **(options | {"limit": 1}))  # type: ignore[arg-type]

    monkeypatch.setattr(hits.Search, "find_tool_hits", find_one)
    async with make_browser(tool_store).run_test(size=(90, 30)) as pilot:
        await wait_for_text(pilot, "9 sessions")
        await pilot.press("slash", *"dolphin")
        await wait_for_text(pilot, "1 found · 1+ more in tool output", "In tool output  the newest 1 · A shows all")
