"""A small card: in which order the sessions stand, and under which headings."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Static

from store.search.list_rows import Grouping, Order, Wanted
from tui.messages import Told
from tui.render.styles import FAINT, MUTED, STRONG


class Choice(NamedTuple):
    key: str
    name: str
    order: Order | None = None
    group: Grouping | None = None

    def of(self, wanted: Wanted) -> Wanted:
        return wanted._replace(order=self.order or wanted.order, group=self.group or wanted.group)

    def is_made(self, wanted: Wanted) -> bool:
        return self.of(wanted) == wanted


ORDERS = (
    Choice("b", "best, then newest", order="best"),
    Choice("n", "newest first", order="newest"),
    Choice("l", "oldest first", order="oldest"),
    Choice("t", "most turns first", order="turns"),
    Choice("e", "most errors first", order="errors"),
    Choice("i", "by title", order="title"),
)
GROUPS = (
    Choice("d", "days", group="day"),
    Choice("f", "folders", group="folder"),
    Choice("a", "agents", group="agent"),
    Choice("x", "no headings", group="none"),
)
CHOICES = (*ORDERS, *GROUPS)
BREAK = len(ORDERS) + 1
"""The line of the second title."""


class Card(Static):
    class Clicked(Told):
        line: int

    def on_click(self, event: Click) -> None:
        event.stop()
        self.post_message(self.Clicked(event.get_content_offset_capture(self).y))


class OrderScreen(ModalScreen[Wanted | None]):
    DEFAULT_CSS = """
    OrderScreen {
        align: left top;

        Card {
            width: 30;
            height: auto;
            margin: 2 0 0 2;
            padding: 1 2;
            background: $surface;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "choose", "Choose", id="order.choose", tooltip="List them so"),
        Binding("down,j,o", "move(1)", "Down", id="order.down", show=False, tooltip="The next"),
        Binding("up,k", "move(-1)", "Up", id="order.up", show=False, tooltip="The one before"),
        Binding("escape,q", "dismiss(None)", "Close", id="order.close", tooltip="Leave it as it is"),
        *(
            Binding(one.key, f"pick({number})", one.name, id=f"order.{one.order or one.group}", tooltip=one.name)
            for number, one in enumerate(CHOICES)
        ),
    ]

    card = query_one(Card)

    def __init__(self, wanted: Wanted) -> None:
        super().__init__()
        self._wanted = wanted
        self._at = next(number for number, one in enumerate(CHOICES) if one.is_made(wanted))

    def compose(self) -> ComposeResult:
        yield Card(self._page())

    def _page(self) -> Content:
        lines = [self._line(number, one) for number, one in enumerate(CHOICES)]
        title, headings = Content.styled("Order", MUTED), Content.styled("Headings", MUTED)
        return Content("\n").join([title, *lines[: len(ORDERS)], headings, *lines[len(ORDERS) :]])

    def _line(self, number: int, choice: Choice) -> Content:
        made = choice.is_made(self._wanted)
        bar = ("▌", "$accent") if number == self._at else (" ", "")
        style = STRONG if made else ""
        return Content.assemble(
            bar, ("● " if made else "  ", "$text-accent"), (f"{choice.key}  ", FAINT), (choice.name, style)
        )

    def action_move(self, by: int) -> None:
        self._at = (self._at + by) % len(CHOICES)
        self.card.update(self._page())

    def action_choose(self) -> None:
        self.action_pick(self._at)

    def action_pick(self, number: int) -> None:
        self.dismiss(CHOICES[number].of(self._wanted))

    @on(Card.Clicked)
    def _pick_line(self, clicked: Card.Clicked) -> None:
        if clicked.line not in (0, BREAK) and 0 <= clicked.line <= len(CHOICES) + 1:
            self.action_pick(clicked.line - 1 - (clicked.line > BREAK))

    def on_click(self) -> None:
        """Beside the card."""
        self.dismiss(None)
