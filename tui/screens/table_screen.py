"""A screen over the browser that keeps true to the store: whatever changes there, by whomever, is shown."""

from __future__ import annotations

from textual.widget import Widget

from tui.screens.store_screen import StoreScreen


class TableScreen(StoreScreen[str | None]):
    """Answers with the public id of the entry to go to, or None. Subclasses say what to read with `load`."""

    def on_mount(self) -> None:
        self.load()

    def load(self) -> None:
        raise NotImplementedError

    def handle_store_change(self) -> None:
        self.load()

    def show_empty_state(self, is_empty: bool, table: Widget, search_input: Widget) -> None:
        """What is not displayed cannot have the focus: it goes, and comes back with the first row."""
        if is_empty != self.has_class("-nothing"):
            self.set_class(is_empty, "-nothing")
            if not search_input.has_focus:
                self.call_after_refresh(self.set_focus, None if is_empty else table)
