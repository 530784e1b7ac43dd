"""This module holds the bases of the screens that show a table of the store over the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.getters import query_one
from textual.widget import Widget

from tui.screens.store_screen import Clock, StoreScreen
from tui.widgets.cursor_view import CursorView
from tui.widgets.filter_line import FilterInput, FilterLine

if TYPE_CHECKING:
    from store.store import Store


class TableScreen(StoreScreen[str | None]):
    """Returns the public id of the entry to go to, or None. Subclasses read the store in `load`, and show the message
    `#none` instead of an empty table."""

    DEFAULT_CSS = """
    TableScreen {
        #none {
            display: none;
            height: 1fr;
            content-align: center middle;
            text-align: center;
        }

        &.-nothing #none {
            display: block;
        }
    }
    """

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


class FilteredTableScreen(TableScreen):
    """Has a line above the table that filters it by words. The table is the first list of the screen."""

    bar = query_one(FilterLine)

    @on(FilterInput.Exited)
    def _focus_table(self) -> None:
        self.set_focus(self.query_one(CursorView))

    def action_filter(self) -> None:
        self.set_focus(self.bar.input)

    def action_leave(self) -> None:
        """Clear the filter first; then leave."""
        if self.bar.input.value:
            self.bar.input.value = ""
        else:
            self.dismiss(None)
