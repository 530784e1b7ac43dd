"""What could be meant, under the line in which it is typed: a few offers, of which one may be chosen."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.widgets import Static

from store.text.sanitize import one_line
from tui.messages import DataMessage
from tui.render.styles import FAINT

MAX_SHOWN = 8


class CompletionList(Static):
    DEFAULT_CSS = """
    CompletionList {
        display: none;
        overlay: screen;
        constrain: inside inside;
        width: auto;
        max-width: 60;
        height: auto;
        padding: 0 1;
        background: $surface-lighten-1;
    }
    """

    class Clicked(DataMessage):
        completion: str

    def __init__(self) -> None:
        super().__init__()
        self.completions: Sequence[str] = ()
        self.selected_index: int | None = None
        "Which of them the person stands on; none before they have moved."

    def show(self, offers: Sequence[str]) -> None:
        if not offers and not self.display:
            return
        self.completions = offers[:MAX_SHOWN]
        self.selected_index = None
        self.display = bool(offers)
        self._redraw()

    def move(self, by: int) -> None:
        """Up from the first is back to the words."""
        at = (-1 if self.selected_index is None else self.selected_index) + by
        self.selected_index = None if at < 0 else min(at, len(self.completions) - 1)
        self._redraw()

    @property
    def selected_completion(self) -> str:
        """The one that is chosen, else the first."""
        return self.completions[self.selected_index or 0]

    def _redraw(self) -> None:
        self.update(Content("\n").join([self._render_row(n, offer) for n, offer in enumerate(self.completions)]))

    def _render_row(self, number: int, offer: str) -> Content:
        name, colon, value = offer.partition(":")
        style = "bold $block-cursor-foreground on $block-cursor-background" if number == self.selected_index else ""
        # What a folder is called may come from anywhere.
        return Content.assemble((name + colon, style or FAINT), (one_line(value, 50), style))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if event.y < len(self.completions):
            self.post_message(self.Clicked(self.completions[event.y]))
