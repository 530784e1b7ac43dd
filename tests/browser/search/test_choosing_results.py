"""Tests the arrow keys in the search box: they choose a result, and letters go on with the search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
from pty_terminal import Terminal
from textual.pilot import Pilot

from store.store import Store
from tui.app import Backscroll
from tui.screens.browser.screen import BrowserScreen
from tui.screens.picker import PickerScreen
from tui.widgets.top_bar import QueryInput

BROWSER = """
import sys
from store.store import Store
from tui.app import Backscroll

app = Backscroll(Store.open(sys.argv[1]))
app.run()
app.close_stores()
"""


@pytest.fixture
def whales(store: Store) -> Store:
    """A store with three sessions that match "whale", the newest first."""
    for hours, name in enumerate(("blue", "grey", "white")):
        at = time_ago(hours=hours)
        add_session(store, name, at, prompt_entry(f"A {name} whale", at), answer_entry(f"The {name} one.", at))
    return store


def query_box(pilot: Pilot[Any]) -> QueryInput:
    return pilot.app.screen.query_one(QueryInput)


async def search(pilot: Pilot[Any], text: str = "whale") -> None:
    await wait_for_text(pilot, "3 sessions")
    await pilot.press("slash", *text)
    await wait_for_text(pilot, "3 found")


async def test_letters_after_an_arrow_go_on_with_the_search(whales: Store) -> None:
    async with make_browser(whales).run_test(size=(100, 30)) as pilot:
        await search(pilot)
        await pilot.press("down", "down")
        await wait_for_text(pilot, "↵ Open", "tab To the list", "a-z Keep searching")
        await wait_until(pilot, lambda: session_list(pilot).cursor == 1)
        await pilot.press("space", *"djkpat")
        await wait_for_text(pilot, "No session matches 'whale djkpat'.")
        assert query_box(pilot).value == "whale djkpat"
        assert not whales.sessions.trash()
        assert not any(session.pinned or session.archived for session in whales.sessions.newest())
        assert not whales.journal.list_edits()


async def test_enter_opens_the_chosen_result_and_up_goes_back(whales: Store) -> None:
    app = make_browser(whales)
    async with app.run_test(size=(100, 30)) as pilot:
        await search(pilot)
        order = [whales.sessions.by_key(key).id for key in session_list(pilot).keys]
        await pilot.press("down", "down", "down", "up", "enter")
        await wait_until(pilot, lambda: isinstance(app.screen, BrowserScreen) and app.screen.is_reading)
        await wait_for_text(pilot, f"The {order[1]} one.")
        await pilot.press("escape", "escape")
        await wait_until(pilot, lambda: session_list(pilot).has_focus)
        assert query_box(pilot).value == "whale"


@pytest.mark.parametrize("key", ["tab", "escape"])
async def test_tab_and_escape_end_choosing_and_keep_the_query(whales: Store, key: str) -> None:
    async with make_browser(whales).run_test(size=(100, 30)) as pilot:
        await search(pilot)
        await pilot.press("down", "down", key)
        await wait_until(pilot, lambda: session_list(pilot).has_focus)
        chosen = selected_id(pilot)
        assert session_list(pilot).cursor == 1
        await pilot.press("p")
        await wait_until(pilot, lambda: whales.sessions.get(chosen).pinned)
        assert query_box(pilot).value == "whale"


async def test_a_click_ends_choosing(whales: Store) -> None:
    async with make_browser(whales).run_test(size=(100, 30)) as pilot:
        await search(pilot)
        await pilot.press("down")
        assert query_box(pilot).is_choosing
        await pilot.click("SessionListView", offset=(10, 3))
        await wait_until(pilot, lambda: session_list(pilot).has_focus)
        assert not query_box(pilot).is_choosing


async def test_page_keys_choose_as_well(whales: Store) -> None:
    async with make_browser(whales).run_test(size=(100, 30)) as pilot:
        await search(pilot)
        await pilot.press("down", "pagedown")
        await wait_until(pilot, lambda: session_list(pilot).cursor == 2)
        await pilot.press("pageup")
        await wait_until(pilot, lambda: session_list(pilot).cursor == 0)


async def test_the_resume_list_chooses_in_the_same_way(whales: Store) -> None:
    app = Backscroll(whales, pick=True)
    async with app.run_test(size=(100, 20)) as pilot:
        await wait_until(pilot, lambda: isinstance(app.screen, PickerScreen))
        await wait_for_text(pilot, "3 sessions")
        await pilot.press("down", "down", *"sgrey")
        await wait_until(pilot, lambda: query_box(pilot).value == "sgrey")


async def test_the_screen_of_tool_calls_chooses_in_the_same_way(tool_store: Store) -> None:
    async with make_browser(tool_store).run_test(size=(140, 30)) as pilot:
        await wait_for_text(pilot, "9 sessions")
        await pilot.press("A")
        await wait_for_text(pilot, "5 calls ·")
        await pilot.press("slash", *"bash", "down", "down", "q")
        await wait_until(pilot, lambda: query_box(pilot).value == "bashq")
        await pilot.press("backspace")
        await wait_for_text(pilot, "5 calls ·")
        await pilot.press("down", "down", "enter")
        await wait_for_text(pilot, "Go to turn")


async def test_without_results_no_key_leads_to_them(whales: Store) -> None:
    async with make_browser(whales).run_test(size=(100, 30)) as pilot:
        await wait_for_text(pilot, "3 sessions")
        await pilot.press("slash", *"zzzz")
        await wait_for_text(pilot, "No session matches 'zzzz'.", "Esc to clear the search")
        footer = screen_text(pilot).splitlines()[-1]
        assert "To the list" not in footer
        assert "Open" not in footer
        await pilot.press("down", "enter", "enter")
        assert query_box(pilot).has_focus
        assert len(pilot.app.screen_stack) == 1


def test_keys_in_one_write_reach_their_targets(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with Store.open(path) as store:
        for hours, name in enumerate(("blue", "grey", "white")):
            at = time_ago(hours=hours)
            turns = (prompt_entry(f"A {name} whale", at), answer_entry(f"The {name} one.", at), prompt_entry("Bye", at))
            add_session(store, name, at, *turns)
    down = "\x1b[B"
    with Terminal(BROWSER, str(path), columns=120) as terminal:
        terminal.wait_for_text("3 sessions", "The blue one.")
        terminal.press("/whale")
        terminal.wait_for_text("3 found")
        terminal.press(f"{down}{down}\rI")
        terminal.wait_for_text("Session card")


async def test_typing_replaces_the_query_that_is_in_the_box(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", *"upload", "enter", "slash", *"bracket")
        query_input = pilot.app.screen.query_one(QueryInput)
        await wait_until(pilot, lambda: query_input.value == "bracket")
        await pilot.press("enter", "slash", "end", *"s")
        await wait_until(pilot, lambda: query_input.value == "brackets")
