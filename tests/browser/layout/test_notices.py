"""Tests the notices at the edge of the screen: what they say, and how long they stay."""

from __future__ import annotations

import sys

import pytest
from browser_driver import make_browser, wait_for_text, wait_until
from textual.pilot import Pilot
from textual.widgets._toast import Toast

from store.store import Store
from tui.app import WAS_UPDATED, Backscroll, was_updated


def list_notices(pilot: Pilot[object]) -> list[str]:
    """Return the notices that any of the open screens shows."""
    return [str(toast.render()) for screen in pilot.app.screen_stack for toast in screen.query(Toast)]


async def test_a_notice_does_not_stay_over_the_next_screen(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(notifications=True) as pilot:
        await wait_for_text(pilot, "6 sessions")
        for key, other_screen in (("question_mark", "Keys · press End"), ("U", "Journal")):
            await pilot.press("i")
            await wait_until(pilot, lambda: list_notices(pilot))
            await pilot.press(key)
            await wait_for_text(pilot, other_screen)
            await wait_until(pilot, lambda: not list_notices(pilot))
            await pilot.press("escape")
            await wait_for_text(pilot, "6 sessions")


async def test_a_notice_of_the_key_that_closed_a_screen_stays(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(notifications=True) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("m", *"Ask", "ctrl+s")
        await wait_until(pilot, lambda: any("Added the note" in notice for notice in list_notices(pilot)))


async def test_an_error_stays_over_the_next_screen(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(notifications=True) as pilot:
        await wait_for_text(pilot, "6 sessions")
        pilot.app.notify("It failed.", severity="error")
        await wait_until(pilot, lambda: list_notices(pilot))
        await pilot.press("U")
        await wait_for_text(pilot, "Journal")
        await wait_until(pilot, lambda: "It failed." in list_notices(pilot))


@pytest.mark.parametrize("key", ["i", "F", "O", "J", "x", "n", "plus", "at", "right_square_bracket"])
async def test_a_key_of_the_conversation_says_in_the_list_where_it_works(filled_store: Store, key: str) -> None:
    async with make_browser(filled_store).run_test(notifications=True) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press(key)
        await wait_until(pilot, lambda: any("works in the conversation" in notice for notice in list_notices(pilot)))


# ── an update while the browser is open ───────────────────────────────────────────────────────────


async def test_a_screen_of_another_version_is_not_opened(filled_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = make_browser(filled_store)
    async with browser.run_test(notifications=True) as pilot:
        await wait_for_text(pilot, "6 sessions")
        assert isinstance(browser, Backscroll)
        browser.started_at = 0.0  # so that the files of the program are newer
        monkeypatch.setitem(sys.modules, "tui.screens.journal", None)
        await pilot.press("U")
        await wait_until(pilot, lambda: WAS_UPDATED in list_notices(pilot))
        await pilot.press("i")  # it still works
        await wait_until(pilot, lambda: len(list_notices(pilot)) == 2)


def test_the_program_was_updated_if_its_files_are_newer() -> None:
    assert was_updated(since=0.0)
    assert not was_updated(since=sys.float_info.max)
