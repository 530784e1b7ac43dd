"""A screen over the browser that keeps true to the store: whatever changes there, by whomever, is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen
from textual.widget import Widget

from store.errors import StoreError
from tui.screens.listing import AGES_SECONDS, POLL_SECONDS, Clock

if TYPE_CHECKING:
    from store.store import Store
    from tui.app import Backscroll


class WatchingScreen(Screen[str | None]):
    """Answers with the public id of the entry to go to, or None. Subclasses say what to read with `load`."""

    app: Backscroll

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._generation = 0
        "Of what was asked for last; an answer to anything before is dropped."
        self._version = store.sessions.data_version()

    def on_mount(self) -> None:
        self.load()
        self._poll = self.set_interval(POLL_SECONDS, self._notice_changes)
        self.set_interval(AGES_SECONDS, self.tell_time)

    def load(self) -> None:
        raise NotImplementedError

    def tell_time(self) -> None:
        """Ages are told from now on by another hour."""

    def show_nothing(self, nothing: bool, table: Widget, words: Widget) -> None:
        """What is not displayed cannot have the focus: it goes, and comes back with the first row."""
        if nothing != self.has_class("-nothing"):
            self.set_class(nothing, "-nothing")
            if not words.has_focus:
                self.call_after_refresh(self.set_focus, None if nothing else table)

    def _notice_changes(self) -> None:
        """Here and not in a worker: the number tells of changes only to the connection that asked before."""
        try:
            version = self._store.sessions.data_version()
        except StoreError as error:
            self._poll.stop()
            self.app.show_error(error)
            return
        if version != self._version:
            self._version = version
            self.load()
