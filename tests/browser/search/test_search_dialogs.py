"""Tests saved and recent searches in the browser: their dialogs, their names in queries, and the top bar."""

from __future__ import annotations

from typing import Any

import pytest
from browser_driver import fill_store, make_browser, screen_text, session_list, wait_for_text, wait_until
from textual.pilot import Pilot

from store.search.saved_searches import RecentSearches, SavedSearch
from store.store import Store
from tui.dialogs.searches import SearchesDialog
from tui.widgets.top_bar import PinnedSearches, QueryInput

UPLOADS = SavedSearch("uploads", "upload agent:claude")


@pytest.fixture
def searched(store: Store) -> Store:
    """A store with a pinned search, another one, and two recent ones."""
    fill_store(store)
    store.saved_searches.save("uploads", UPLOADS.query)
    store.saved_searches.pin("uploads")
    store.saved_searches.save("codex", "agent:codex")
    for query in ("disk", "config keys"):
        RecentSearches().add(query)
    return store


def query_box(pilot: Pilot[Any]) -> QueryInput:
    return pilot.app.screen_stack[0].query_one(QueryInput)


async def recall(pilot: Pilot[Any]) -> SearchesDialog:
    await wait_for_text(pilot, "6 sessions", "@uploads")
    await pilot.press("slash", "ctrl+r")
    await wait_for_text(pilot, "2 saved, 2 recent", "config keys")
    assert isinstance(pilot.app.screen, SearchesDialog)
    return pilot.app.screen


async def test_a_search_is_saved_under_a_name_and_undone(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(100, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", *"upload", "ctrl+s")
        await wait_for_text(pilot, "Save this search", "Type @ and this name to run it.")
        await wait_for_text(pilot, "A name has at most 40 letters, digits, dots, - or _, and no blanks.")
        await pilot.press("!", "enter")
        await wait_until(pilot, lambda: screen_text(pilot).count("A name has at most 40 letters") == 2)
        await pilot.press("backspace", "space", *"two words", "enter")
        notice = "Saved @two-words. Press u in the list to undo."
        await wait_until(pilot, lambda: notice in [str(one.message) for one in pilot.app._notifications])
        assert filled_store.saved_searches.list_searches() == [SavedSearch("two-words", "upload")]
        await pilot.press("enter", "u")
        await wait_until(pilot, lambda: not filled_store.saved_searches.list_searches())


async def test_nothing_typed_is_nothing_to_save(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(100, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", "ctrl+s")
        assert len(pilot.app.screen_stack) == 1
        assert "^s Save" not in screen_text(pilot)


async def test_a_name_is_completed_and_runs_its_search(searched: Store) -> None:
    async with make_browser(searched).run_test(size=(100, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions", "@uploads")
        await pilot.press("slash", "@", "u")
        await wait_until(pilot, lambda: query_box(pilot).is_completing)
        assert "No session matches" not in screen_text(pilot)
        await pilot.press("tab")
        await wait_for_text(pilot, "1 found", "“upload”, agent claude…", "Fix the flaky")
        assert query_box(pilot).value == "@uploads "
        assert session_list(pilot).listing.options.query.strip() == UPLOADS.query


async def test_a_click_on_a_pinned_search_runs_and_clears_it(searched: Store) -> None:
    async with make_browser(searched).run_test(size=(100, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions", " @uploads ")
        assert "@codex" not in screen_text(pilot)
        await pilot.click(PinnedSearches, offset=(3, 0))
        await wait_for_text(pilot, "1 found")
        assert query_box(pilot).value == "@uploads"
        await pilot.click(PinnedSearches, offset=(3, 0))
        await wait_for_text(pilot, "6 sessions")


async def test_a_saved_or_recent_search_is_chosen_from_the_list(searched: Store) -> None:
    async with make_browser(searched).run_test(size=(100, 30)) as pilot:
        await recall(pilot)
        await pilot.press("enter")
        await wait_until(pilot, lambda: query_box(pilot).value == "@uploads")
        await wait_for_text(pilot, "1 found")
        await pilot.press("ctrl+r")
        await wait_for_text(pilot, "2 saved")
        await pilot.press(*"keys")
        await wait_for_text(pilot, "1 of 2 saved")
        await pilot.press("enter")
        await wait_until(pilot, lambda: query_box(pilot).value == "config keys")
        await pilot.press("ctrl+r")
        await wait_for_text(pilot, "2 saved")
        await pilot.press(*"nothing like it")
        await wait_for_text(pilot, "No search matches.")
        await pilot.press("enter", "escape")
        await wait_until(pilot, lambda: len(pilot.app.screen_stack) == 1)
        assert query_box(pilot).value == "config keys"


async def test_searches_are_pinned_renamed_and_deleted_there(searched: Store) -> None:
    saved = searched.saved_searches
    async with make_browser(searched).run_test(size=(100, 30)) as pilot:
        dialog = await recall(pilot)
        await pilot.press("ctrl+t")
        await wait_until(pilot, lambda: not saved.get("uploads").pinned)
        await wait_until(pilot, lambda: dialog.table.selected and not dialog.table.selected.pinned)
        assert dialog.table.selected is not None
        assert dialog.table.selected.name == "uploads"
        await pilot.press("f2")
        await wait_for_text(pilot, "Rename @uploads", "A name has at most 40 letters")
        await pilot.press(*["backspace"] * 7, *"up", "enter")
        await wait_until(pilot, lambda: saved.get("up").query == UPLOADS.query)
        await wait_for_text(pilot, "@up  ")
        await pilot.press(*"up", "ctrl+x")
        await wait_until(pilot, lambda: [search.name for search in saved.list_searches()] == ["codex"])


async def test_recent_searches_are_saved_removed_and_cleared_there(searched: Store) -> None:
    async with make_browser(searched).run_test(size=(100, 30)) as pilot:
        await recall(pilot)
        await pilot.press(*"disk", "ctrl+s")
        await wait_for_text(pilot, "Save this search")
        await pilot.press(*"full", "enter")
        await wait_until(pilot, lambda: searched.saved_searches.get("full").query == "disk")
        await wait_for_text(pilot, "3 saved, 2 recent")
        await pilot.press(*["backspace"] * 4, *"keys", "ctrl+x")
        await wait_until(pilot, lambda: RecentSearches().list_queries() == ["disk"])
        await pilot.press("f8")
        await wait_for_text(pilot, "Forget all recent searches?")
        await pilot.press("y")
        await wait_until(pilot, lambda: not RecentSearches().list_queries())
        assert len(searched.saved_searches.list_searches()) == 3


async def test_queries_that_are_left_or_cleared_are_remembered(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(100, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", *"upload", "enter")
        await wait_until(pilot, lambda: RecentSearches().list_queries() == ["upload"])
        await pilot.press("escape")
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", *"disk", "escape")
        await wait_until(pilot, lambda: RecentSearches().list_queries() == ["disk", "upload"])


async def test_an_empty_list_says_how_to_save(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", "ctrl+r")
        await wait_for_text(pilot, "No searches yet. Ctrl+S in the search box saves one.")


async def test_a_search_that_another_program_saves_appears(searched: Store) -> None:
    async with make_browser(searched).run_test(size=(100, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions", "@uploads")
        with Store.open(searched.path) as other:
            other.saved_searches.pin("codex")
        await wait_for_text(pilot, "@codex")


async def test_a_warning_covers_the_pinned_searches(searched: Store) -> None:
    async with make_browser(searched).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions", "@uploads")
        await pilot.press("slash", *"has:ban")
        await wait_for_text(pilot, "has: has no value 'ban'.")
        await wait_until(pilot, lambda: "@uploads" not in screen_text(pilot))
        await pilot.press(*["backspace"] * 7)
        await wait_for_text(pilot, "@uploads")
