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

Answer = TypeVar("Answer")
Clock = Callable[[], datetime]

POLL_SECONDS = 0.25
AGES_SECONDS = 30


class NoticingScreen(Screen[Answer]):
    app: Backscroll

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._clock = clock
        self._generation = 0
        "Of what was asked for last; an answer to anything before is dropped."
        self._version = store.sessions.data_version()

    def on_mount(self) -> None:
        self._poll = self.set_interval(POLL_SECONDS, self.notice_changes)
        self.set_interval(AGES_SECONDS, self.tell_time)

    def changed(self) -> None:
        """Somebody wrote to the store: read again what is shown."""
        raise NotImplementedError

    def tell_time(self) -> None:
        """Ages are told from now on by another hour."""

    def notice_changes(self) -> None:
        """Here and not in a worker: the number tells of changes only to the connection that asked before."""
        try:
            version = self._store.sessions.data_version()
        except StoreError as error:
            self._poll.stop()
            self.app.show_error(error)
            return
        if version != self._version:
            self._version = version
            self.changed()
