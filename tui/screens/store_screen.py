"""This module holds the base of all screens that show what is in the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from textual.screen import Screen

from store.errors import StoreError

if TYPE_CHECKING:
    from store.store import Store
    from tui.app import Backscroll

Result = TypeVar("Result")
Clock = Callable[[], datetime]

POLL_SECONDS = 0.25
AGE_REFRESH_SECONDS = 30


class StoreScreen(Screen[Result]):
    """Notices every change of the store, made by this or another program, and keeps the shown ages up to date."""

    app: Backscroll

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._data_version = store.sessions.data_version()

    def on_mount(self) -> None:
        self._poll_timer = self.set_interval(POLL_SECONDS, self.check_for_changes)
        self.set_interval(AGE_REFRESH_SECONDS, self.refresh_ages)

    def handle_store_change(self) -> None:
        """Read again what is shown, because the store was written to."""
        raise NotImplementedError

    def refresh_ages(self) -> None:
        """Show ages as they are now."""

    def check_for_changes(self) -> None:
        """Ask for the version of the data. SQLite reports changes only to a connection that asked before, so a worker
        with its own connection cannot do it."""
        try:
            version = self._store.sessions.data_version()
        except StoreError as error:
            self._poll_timer.stop()
            self.app.show_error(error)
            return
        if version != self._data_version:
            self._data_version = version
            self.handle_store_change()
