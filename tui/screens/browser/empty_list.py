"""This module shows why the list is empty, and offers a demo if the store is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.errors import StoreError
from store.paths import data_dir
from store.search.list_rows import SessionListLayout
from tui.messages import DataMessage
from tui.render.browser_notices import render_empty_list, render_welcome
from tui.render.session_lines import abbreviate_home
from tui.workers import run_in_thread

if TYPE_CHECKING:
    from store.store import Store
    from tui.screens.browser.screen import BrowserScreen


class DemoMade(DataMessage):
    """Reports that the demo is ready, in a store of its own."""

    store: Store


class EmptyList:
    """Replaces the list by a message while there is no session to show."""

    def __init__(self, screen: BrowserScreen, store: Store) -> None:
        self.is_store_empty = False
        self._screen = screen
        self._store = store
        self._is_making_demo = False

    @property
    def can_make_demo(self) -> bool:
        return self.is_store_empty and not self._is_making_demo

    def update(self, shown: SessionListLayout) -> None:
        """Show or hide the message, depending on the list that is shown."""
        is_narrowed = shown.options.query.strip() or shown.options.folder or shown.archived or shown.trashed
        self.is_store_empty = not shown.keys and not is_narrowed
        self._screen.set_class(self.is_store_empty, "-empty")
        self._screen.set_class(not shown.keys, "-nothing")
        if self.is_store_empty:
            self._show_welcome()
        elif not shown.keys:
            self._screen.empty_message.update(render_empty_list(shown))
        else:
            self._screen.call_after_refresh(self._focus_list)

    def _focus_list(self) -> None:
        """Focus the list once it is visible. Textual takes the focus away when it notices that the list was hidden."""
        if self._screen.focused is None and not self.is_store_empty:
            self._screen.set_focus(self._screen.sessions)

    def _show_welcome(self) -> None:
        self._screen.set_focus(None)
        path = abbreviate_home(str(self._store.path))
        self._screen.empty_message.update(render_welcome(path, self._is_making_demo))
        self._screen.refresh_bindings()

    # ── the demo ──────────────────────────────────────────────────────────────────────────────────

    def make_demo(self) -> None:
        self._is_making_demo = True
        self._show_welcome()
        run_in_thread(self._screen, self._make_demo_in_thread, group="demo")

    def _make_demo_in_thread(self) -> None:
        """Fill a store of its own, so that the person's store stays clean."""
        from store import demo
        from store.store import Store

        try:
            store = Store.open(data_dir() / "demo.db")
            if not store.sessions.newest(1):
                demo.fill_store(store)
        except StoreError as error:
            self._screen.call_later(self._report_failure, error)
        else:
            self._screen.post_message(DemoMade(store))

    def _report_failure(self, error: StoreError) -> None:
        self._is_making_demo = False
        self._show_welcome()
        self._screen.app.show_error(error)
