"""A screen over the browser that keeps true to the store: whatever changes there, by whomever, is shown."""

from __future__ import annotations

from textual.widget import Widget

from tui.screens.store_screen import NoticingScreen


class WatchingScreen(NoticingScreen[str | None]):
    """Answers with the public id of the entry to go to, or None. Subclasses say what to read with `load`."""

    def on_mount(self) -> None:
        self.load()

    def load(self) -> None:
        raise NotImplementedError

    def changed(self) -> None:
        self.load()

    def show_nothing(self, nothing: bool, table: Widget, words: Widget) -> None:
        """What is not displayed cannot have the focus: it goes, and comes back with the first row."""
        if nothing != self.has_class("-nothing"):
            self.set_class(nothing, "-nothing")
            if not words.has_focus:
                self.call_after_refresh(self.set_focus, None if nothing else table)
