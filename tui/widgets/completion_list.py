"""What could be meant, under the line in which it is typed: a few offers, of which one may be chosen."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.widgets import Static

from store.text.sanitize import one_line
from tui.messages import Told
from tui.render.styles import FAINT

MOST = 8


class Offers(Static):
    DEFAULT_CSS = """
    Offers {
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

    class Clicked(Told):
        offer: str

    def __init__(self) -> None:
        super().__init__()
        self.offers: Sequence[str] = ()
        self.chosen: int | None = None
        "Which of them the person stands on; none before they have moved."

    def show(self, offers: Sequence[str]) -> None:
        if not offers and not self.display:
            return
        self.offers = offers[:MOST]
        self.chosen = None
        self.display = bool(offers)
        self._paint()

    def move(self, by: int) -> None:
        """Up from the first is back to the words."""
        at = (-1 if self.chosen is None else self.chosen) + by
        self.chosen = None if at < 0 else min(at, len(self.offers) - 1)
        self._paint()

    @property
    def offer(self) -> str:
        """The one that is chosen, else the first."""
        return self.offers[self.chosen or 0]

    def _paint(self) -> None:
        self.update(Content("\n").join([self._line(n, offer) for n, offer in enumerate(self.offers)]))

    def _line(self, number: int, offer: str) -> Content:
        name, colon, value = offer.partition(":")
        style = "bold $block-cursor-foreground on $block-cursor-background" if number == self.chosen else ""
        # What a folder is called may come from anywhere.
        return Content.assemble((name + colon, style or FAINT), (one_line(value, 50), style))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if event.y < len(self.offers):
            self.post_message(self.Clicked(self.offers[event.y]))
