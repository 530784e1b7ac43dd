"""This part of the browser opens the list of leaks, and comes back to it from a turn that was opened there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.screens.store_screen import Clock

if TYPE_CHECKING:
    from store.store import Store
    from tui.screens.browser.screen import BrowserScreen


class LeaksOpener:
    """Remembers which leak a person opened, so that Escape leads back to it."""

    def __init__(self, screen: BrowserScreen, store: Store, clock: Clock) -> None:
        self._screen = screen
        self._store = store
        self._clock = clock
        self._left: str | None = None
        "Is the fingerprint of the leak that was opened."

    def open(self, fingerprint: str = "") -> None:
        from tui.screens.leaks.screen import LeaksScreen

        def follow(entry: str | None) -> None:
            self._left = screen.fingerprint if entry is not None else None
            self._screen.open_entry(entry, is_masked=True)

        screen = LeaksScreen(self._store, self._clock, fingerprint)
        self._screen.app.push_screen(screen, follow)

    def return_from_conversation(self) -> bool:
        """Go back from a turn that was opened in the list of leaks. Return False if another session is read."""
        if self._left is None or not self._screen.conversation.is_masked:
            return False
        self._screen.action_pane(0)
        self.open(self._left)
        return True
