"""Tests the screen with the tool calls of all sessions, and the search of the list."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_driver import fill_store, make_browser, screen_text, session_list, wait_for_text, wait_until
from sample_conversations import make_call_entries
from textual.app import App

from store.model.entry import NewEntry, Text
from store.store import Store
from tui.screens.browser.screen import BrowserScreen
from tui.screens.folder_scope import list_folder_scopes
from tui.screens.inspector import InspectorScreen
from tui.screens.tool_calls import ToolCallsScreen
from tui.widgets.tables.tool_stats_table import ToolStatsTable

HOSTILE = "ev\x1b[31mil [b]name[/b]"


@pytest.fixture
def world(store: Store) -> Store:
    fill_store(store)
    session = store.create_session("work")
    said = NewEntry(role="user", parts=(Text("please look for the narwhal"),))
    calls = [
        *make_call_entries(1, "Bash", "narwhal", 100, failed=True),
        *make_call_entries(2, "Bash", "walrus", 300),
        *make_call_entries(3, "Read", "dolphin", 9_000),
        *make_call_entries(4, HOSTILE, "[red]orca[/red]", None),
    ]
    store.chains.append(session.key, [said, *calls])
    return store


def tools(app: App[object]) -> ToolCallsScreen:
    assert isinstance(app.screen, ToolCallsScreen)
    return app.screen


def browsing(app: App[object]) -> BrowserScreen:
    assert isinstance(app.screen, BrowserScreen)
    return app.screen


async def test_a_key_lists_all_calls_and_opens_their_turns(world: Store) -> None:
    app = make_browser(world)
    async with app.run_test(size=(140, 45)) as pilot:
        await wait_for_text(pilot, "Fix the flaky")
        await pilot.press("A")
        await wait_for_text(pilot, "5 calls · newest first", "pytest -q tests/test_upload.py", "[red]orca[/red]")
        assert "\x1b" not in screen_text(pilot)
        await pilot.press("o")
        await wait_for_text(pilot, "slowest first")
        lines = screen_text(pilot).splitlines()
        assert "dolphin" in lines[3]
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(app.screen, InspectorScreen))
        await wait_for_text(pilot, "did dolphin")
        await pilot.press("escape")
        await wait_for_text(pilot, "slowest first")
        await pilot.press("enter")
        await wait_for_text(pilot, "did dolphin")
        await pilot.press("g")
        await wait_for_text(pilot, "please look for the narwhal", "▌ ⚙ Read  dolphin")
        assert len(app.screen_stack) == 1


async def test_calls_are_searched_and_typos_are_corrected(world: Store) -> None:
    app = make_browser(world)
    async with app.run_test(size=(110, 24)) as pilot:
        await wait_for_text(pilot, "Fix the flaky")
        await pilot.press("A")
        await wait_for_text(pilot, "5 calls")
        await pilot.press("slash", *"narwahl")
        await wait_for_text(pilot, "1 call ·", "Showing “narwhal…”; nothing for “narwahl…”.")
        await pilot.press("ctrl+u", *"tool:bash is:error")
        await wait_for_text(pilot, "2 calls ·", "called bash…, with failed calls")
        await pilot.press("ctrl+u", *"zzzzzz")
        await wait_for_text(pilot, "no calls ·", "No tool calls match.")
        await pilot.press("escape")
        await wait_for_text(pilot, "5 calls")
        await pilot.press("escape")
        await wait_until(pilot, lambda: not isinstance(app.screen, ToolCallsScreen))


async def test_totals_by_tool_open_the_calls_of_a_tool(world: Store) -> None:
    app = make_browser(world)
    async with app.run_test(size=(110, 24)) as pilot:
        await wait_for_text(pilot, "Fix the flaky")
        await pilot.press("A")
        await wait_for_text(pilot, "5 calls")
        await pilot.press("n")
        await wait_for_text(pilot, "3 tools · most used", "median", "66.7%")
        await pilot.press("o")
        await wait_for_text(pilot, "most failing")
        await pilot.press("o")
        await wait_for_text(pilot, "3 tools · slowest")
        await wait_until(pilot, lambda: isinstance(app.focused, ToolStatsTable))
        await pilot.press("enter")
        await wait_for_text(pilot, 'tool:"Read"', "1 call ·")
        await pilot.press("n")
        await wait_for_text(pilot, "1 tool ·")
        await pilot.press("escape")
        await wait_for_text(pilot, "3 tools ·")
        await pilot.press("escape")
        await wait_for_text(pilot, "5 calls")


async def test_the_query_of_the_list_is_used(world: Store) -> None:
    app = make_browser(world)
    async with app.run_test(size=(140, 30)) as pilot:
        await wait_for_text(pilot, "Fix the flaky")
        await pilot.press("slash", *"narwhal", "enter")
        await wait_for_text(pilot, "1 found")
        await pilot.press("A")
        await wait_for_text(pilot, "1 call ·")
        assert tools(app).bar.query_input.value == "narwhal"


async def test_only_calls_of_the_scope_are_listed(store: Store, tmp_path: Path) -> None:
    for name, calls in (("here", 1), ("there", 2)):
        session = store.create_session(name, cwd=str(tmp_path / name))
        said = NewEntry(role="user", parts=(Text(f"a walrus {name}"),))
        store.chains.append(
            session.key, [said, *(one for n in range(calls) for one in make_call_entries(n, "Bash", "seal", 1))]
        )
    app = make_browser(store)
    async with app.run_test(size=(140, 30)) as pilot:
        await wait_for_text(pilot, "2 sessions")
        browsing(app).session_list.folder_scopes = list_folder_scopes(tmp_path / "here")
        await pilot.press("slash", *"walrus OR seal", "enter")
        await wait_for_text(pilot, "2 found · everywhere")
        await pilot.press("s")
        await wait_for_text(pilot, "1 found · in here")
        await pilot.press("A")
        await wait_for_text(pilot, "1 call · in here · newest first")
        await pilot.press("n")
        await wait_for_text(pilot, "1 tool · in here · most used")
        await pilot.press("s")
        await wait_for_text(pilot, "1 tool · most used")
        await pilot.press("n")
        await wait_for_text(pilot, "3 calls · newest first")
        await pilot.press("escape", "escape")
        await wait_for_text(pilot, "1 found · in here")


async def test_a_new_call_is_shown_and_the_cursor_stays(world: Store) -> None:
    app = make_browser(world)
    async with app.run_test(size=(110, 24)) as pilot:
        await wait_for_text(pilot, "Fix the flaky")
        await pilot.press("A")
        await wait_for_text(pilot, "5 calls")
        await pilot.press("down")
        chosen = tools(app).calls_table.selected
        with Store.open(world.path) as other:
            other.chains.append(other.sessions.get("work").key, make_call_entries(9, "Bash", "seal", 1))
        await wait_for_text(pilot, "6 calls", "seal")
        assert tools(app).calls_table.selected == chosen


# ── the list while typing ─────────────────────────────────────────────────────────────────────────


async def test_the_list_is_sorted_by_relevance_and_typos_are_corrected(world: Store) -> None:
    async with make_browser(world).run_test(size=(140, 30)) as pilot:
        await wait_for_text(pilot, "Fix the flaky")
        await pilot.press("slash", *"the")
        await wait_for_text(pilot, "5 found", "Best match  5")
        await pilot.press("ctrl+u", *"narwahl")
        await wait_for_text(pilot, "1 found", "Showing “narwhal…”; nothing for “narwahl…”.")
        assert session_list(pilot).listing.query.corrections == (("narwahl…", "narwhal…"),)
        await pilot.press("ctrl+u")
        await wait_for_text(pilot, "7 sessions")
        assert "nothing for" not in screen_text(pilot)


async def test_the_cursor_stays_on_its_session_when_the_order_changes(world: Store) -> None:
    async with make_browser(world).run_test(size=(140, 30)) as pilot:
        await wait_for_text(pilot, "Fix the flaky")
        await pilot.press("slash", *"the", "enter")
        await wait_until(pilot, lambda: session_list(pilot).listing.query.terms)
        before = session_list(pilot).selected_key
        await wait_for_text(pilot, "Best match  5")
        assert session_list(pilot).selected_key == before
