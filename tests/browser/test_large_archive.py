"""Tests the list with a hundred thousand sessions."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_driver import add_many_sessions, make_browser, screen_text, session_list, wait_for_text, wait_until

from store.store import Store
from tui.widgets.session_list_view import MAX_CACHED_ROWS, ROWS_PER_PAGE

MANY = 100_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "store.db"
    with Store.open(path) as store:
        add_many_sessions(store, MANY)
    return path


async def test_a_key_goes_to_the_end_of_a_hundred_thousand_sessions(large: Path) -> None:
    with Store.open(large) as store:
        async with make_browser(store).run_test(size=(80, 24)) as pilot:
            await wait_for_text(pilot, "100,000 sessions", "Session number 0 ")
            await pilot.press("end")
            await wait_for_text(pilot, "Session number 99999", "Session number 99991")
            await pilot.press("up", "pageup")
            await wait_for_text(pilot, "Session number 99988")
            await pilot.press("home")
            await wait_for_text(pilot, "Session number 0 ")


async def test_the_cache_does_not_grow_with_the_rows_that_were_shown(large: Path) -> None:
    with Store.open(large) as store:
        async with make_browser(store).run_test(size=(80, 24)) as pilot:
            await wait_for_text(pilot, "100,000 sessions")
            shown = session_list(pilot)
            for index in range(0, 60 * ROWS_PER_PAGE, ROWS_PER_PAGE):
                shown.cursor = index
                await wait_until(pilot, lambda: shown.selected)
                await wait_for_text(pilot, f"Session number {index} ")
            assert len(shown._strips) <= shown.MAX_CACHED_STRIPS
            assert len(shown._rows) <= MAX_CACHED_ROWS + 3 * ROWS_PER_PAGE
            assert len(shown.keys) == MANY


async def test_a_filter_is_applied_and_removed(large: Path) -> None:
    with Store.open(large) as store:
        async with make_browser(store).run_test(size=(80, 24)) as pilot:
            await wait_for_text(pilot, "100,000 sessions")
            await pilot.press("slash", *"number 7777")
            await wait_for_text(pilot, "19 found", "Session number 17777")
            await pilot.press("9", "enter")
            await wait_for_text(pilot, "1 found", "▌  Session number 77779")
            await pilot.press("escape")
            await wait_for_text(pilot, "100,000 sessions", "▌  Session number 77779", "Session number 77778")


async def test_a_session_added_elsewhere_does_not_move_the_view(large: Path) -> None:
    with Store.open(large) as store:
        async with make_browser(store).run_test(size=(80, 24)) as pilot:
            await wait_for_text(pilot, "100,000 sessions")
            await pilot.press("pagedown", "pagedown", "pagedown")
            await wait_for_text(pilot, "▌  Session number 30")
            seen = screen_text(pilot).splitlines()[2:-1]
            with Store.open(large) as other:
                created = other.sessions.create("new")
            await wait_for_text(pilot, "100,001 sessions")
            await wait_until(pilot, lambda: screen_text(pilot).splitlines()[2:-1] == seen)
            with Store.open(large) as other:
                other.sessions.purge([created])
