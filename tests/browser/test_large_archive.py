"""A hundred thousand sessions are listed like ten."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_driver import add_many, browser, screen_text, session_list, until, until_shown

from store.store import Store
from tui.widgets.session_list_view import PAGE, ROWS_KEPT

MANY = 100_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "store.db"
    with Store.open(path) as store:
        add_many(store, MANY)
    return path


async def test_the_end_of_a_hundred_thousand_sessions_is_one_key_away(large: Path) -> None:
    with Store.open(large) as store:
        async with browser(store).run_test(size=(80, 24)) as pilot:
            await until_shown(pilot, "100,000 sessions", "Session number 0 ")
            await pilot.press("end")
            await until_shown(pilot, "Session number 99999", "Session number 99991")
            await pilot.press("up", "pageup")
            await until_shown(pilot, "Session number 99988")
            await pilot.press("home")
            await until_shown(pilot, "Session number 0 ")


async def test_what_is_kept_in_memory_does_not_grow_with_what_was_seen(large: Path) -> None:
    with Store.open(large) as store:
        async with browser(store).run_test(size=(80, 24)) as pilot:
            await until_shown(pilot, "100,000 sessions")
            shown = session_list(pilot)
            for index in range(0, 60 * PAGE, PAGE):
                shown.cursor = index
                await until(pilot, lambda: shown.selected)
                await until_shown(pilot, f"Session number {index} ")
            assert len(shown._strips) <= shown.STRIPS_KEPT
            assert len(shown._rows) <= ROWS_KEPT + 3 * PAGE
            assert len(shown.keys) == MANY


async def test_a_filter_narrows_them_and_lets_go_again(large: Path) -> None:
    with Store.open(large) as store:
        async with browser(store).run_test(size=(80, 24)) as pilot:
            await until_shown(pilot, "100,000 sessions")
            await pilot.press("slash", *"number 7777")
            await until_shown(pilot, "19 found", "Session number 17777")
            await pilot.press("9", "enter")
            await until_shown(pilot, "1 found", "▌  Session number 77779")
            await pilot.press("escape")
            await until_shown(pilot, "100,000 sessions", "▌  Session number 77779", "Session number 77778")


async def test_a_session_added_elsewhere_leaves_the_view_where_it_was(large: Path) -> None:
    with Store.open(large) as store:
        async with browser(store).run_test(size=(80, 24)) as pilot:
            await until_shown(pilot, "100,000 sessions")
            await pilot.press("pagedown", "pagedown", "pagedown")
            await until_shown(pilot, "▌  Session number 30")
            seen = screen_text(pilot).splitlines()[2:-1]
            with Store.open(large) as other:
                created = other.sessions.create("new")
            await until_shown(pilot, "100,001 sessions")
            await until(pilot, lambda: screen_text(pilot).splitlines()[2:-1] == seen)
            with Store.open(large) as other:
                other.sessions.purge([created])
