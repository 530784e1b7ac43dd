"""What all screens over the store do: hear of whatever is written there, by whomever, and tell ages by the clock."""

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
    app: Backscroll

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._generation = 0
        "Of what was asked for last; an answer to anything before is dropped."
        self._data_version = store.sessions.data_version()

    def on_mount(self) -> None:
        self._poll_timer = self.set_interval(POLL_SECONDS, self.check_for_changes)
        self.set_interval(AGE_REFRESH_SECONDS, self.refresh_ages)

    def handle_store_change(self) -> None:
        """Somebody wrote to the store: read again what is shown."""
        raise NotImplementedError

    def refresh_ages(self) -> None:
        """Ages are told from now on by another hour."""

    def check_for_changes(self) -> None:
        """Here and not in a worker: the number tells of changes only to the connection that asked before."""
        try:
            version = self._store.sessions.data_version()
        except StoreError as error:
            self._poll_timer.stop()
            self.app.show_error(error)
            return
        if version != self._data_version:
            self._data_version = version
            self.handle_store_change()
