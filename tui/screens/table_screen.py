"""This module holds the base of the screens that show a table of the store over the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widget import Widget

from tui.screens.store_screen import Clock, StoreScreen

if TYPE_CHECKING:
    from store.store import Store


class TableScreen(StoreScreen[str | None]):
    """Returns the public id of the entry to go to, or None. Subclasses read the store in `load`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store, clock)
        self._generation = 0
        "Numbers the requests; an answer to an older one is dropped."

    def on_mount(self) -> None:
        self.load()

    def load(self) -> None:
        raise NotImplementedError

    def handle_store_change(self) -> None:
        self.load()

    def show_empty_state(self, is_empty: bool, table: Widget, search_input: Widget) -> None:
        """Hide the table if it is empty. A hidden widget cannot have the focus, so the table gets it back later."""
        if is_empty != self.has_class("-nothing"):
            self.set_class(is_empty, "-nothing")
            if not search_input.has_focus:
                self.call_after_refresh(self.set_focus, None if is_empty else table)
