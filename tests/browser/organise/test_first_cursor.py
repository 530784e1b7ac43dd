"""Tests where the cursor of the list is while the first sessions are read."""

from __future__ import annotations

from browser_driver import add_session, fixed_clock, prompt_entry, selected_id, time_ago, wait_for_text

from store.store import Store
from tui.app import Backscroll
from tui.screens.browser.screen import BrowserScreen


class SlowStartScreen(BrowserScreen):
    """Finds more sessions between the first rows and the whole list, as during a first sync."""

    def handle_first_rows(self) -> None:
        super().handle_first_rows()
        at = time_ago(minutes=1)
        add_session(self._store, "claude:newest", at, prompt_entry("The newest one", at))


class SlowStartBrowser(Backscroll):
    def get_default_screen(self) -> BrowserScreen:
        return SlowStartScreen(self._stores[-1], self._clock, is_new_store=True)


async def test_the_cursor_stays_on_the_newest_session_while_a_new_store_is_filled(store: Store) -> None:
    at = time_ago(days=1)
    add_session(store, "claude:first", at, prompt_entry("Read first", at))
    async with SlowStartBrowser(store, fixed_clock).run_test() as pilot:
        await wait_for_text(pilot, "2 sessions", "The newest one")
        assert selected_id(pilot) == "claude:newest"
