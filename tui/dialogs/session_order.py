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

from store.search.list_rows import Grouping, Order, SessionListOptions
from tui.messages import DataMessage
from tui.render.styles import FAINT, MUTED, STRONG


class OrderChoice(NamedTuple):
    key: str
    name: str
    order: Order | None = None
    group: Grouping | None = None

    def apply(self, wanted: SessionListOptions) -> SessionListOptions:
        return wanted._replace(order=self.order or wanted.order, group=self.group or wanted.group)

    def is_current(self, wanted: SessionListOptions) -> bool:
        return self.apply(wanted) == wanted


ORDERS = (
    OrderChoice("b", "best, then newest", order="best"),
    OrderChoice("n", "newest first", order="newest"),
    OrderChoice("l", "oldest first", order="oldest"),
    OrderChoice("t", "most turns first", order="turns"),
    OrderChoice("e", "most errors first", order="errors"),
    OrderChoice("i", "by title", order="title"),
)
GROUPS = (
    OrderChoice("d", "days", group="day"),
    OrderChoice("f", "folders", group="folder"),
    OrderChoice("a", "agents", group="agent"),
    OrderChoice("x", "no headings", group="none"),
)
CHOICES = (*ORDERS, *GROUPS)
HEADINGS_TITLE_LINE = len(ORDERS) + 1
"""The line of the second title."""


class OrderMenu(Static):
    class LineClicked(DataMessage):
        line: int

    def on_click(self, event: Click) -> None:
        event.stop()
        self.post_message(self.LineClicked(event.get_content_offset_capture(self).y))


class SessionOrderDialog(ModalScreen[SessionListOptions | None]):
    DEFAULT_CSS = """
    SessionOrderDialog {
        align: left top;

        OrderMenu {
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

    menu = query_one(OrderMenu)

    def __init__(self, options: SessionListOptions) -> None:
        super().__init__()
        self._list_options = options
        self._cursor_index = next(number for number, one in enumerate(CHOICES) if one.is_current(options))

    def compose(self) -> ComposeResult:
        yield OrderMenu(self._build_page())

    def _build_page(self) -> Content:
        lines = [self._format_line(number, one) for number, one in enumerate(CHOICES)]
        title, headings = Content.styled("Order", MUTED), Content.styled("Headings", MUTED)
        return Content("\n").join([title, *lines[: len(ORDERS)], headings, *lines[len(ORDERS) :]])

    def _format_line(self, number: int, choice: OrderChoice) -> Content:
        made = choice.is_current(self._list_options)
        bar = ("▌", "$accent") if number == self._cursor_index else (" ", "")
        style = STRONG if made else ""
        return Content.assemble(
            bar, ("● " if made else "  ", "$text-accent"), (f"{choice.key}  ", FAINT), (choice.name, style)
        )

    def action_move(self, by: int) -> None:
        self._cursor_index = (self._cursor_index + by) % len(CHOICES)
        self.menu.update(self._build_page())

    def action_choose(self) -> None:
        self.action_pick(self._cursor_index)

    def action_pick(self, number: int) -> None:
        self.dismiss(CHOICES[number].apply(self._list_options))

    @on(OrderMenu.LineClicked)
    def _pick_line(self, clicked: OrderMenu.LineClicked) -> None:
        if clicked.line not in (0, HEADINGS_TITLE_LINE) and 0 <= clicked.line <= len(CHOICES) + 1:
            self.action_pick(clicked.line - 1 - (clicked.line > HEADINGS_TITLE_LINE))

    def on_click(self) -> None:
        """Beside the card."""
        self.dismiss(None)
