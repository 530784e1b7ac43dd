"""This dialog asks for the order of the sessions and for their headings."""

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
from tui.dialogs.layout import HELP_BINDING
from tui.messages import DataMessage
from tui.render import glyphs
from tui.render.styles import FAINT, MUTED, STRONG
from tui.widgets.key_hints import KeyHintBar


class OrderChoice(NamedTuple):
    key: str
    name: str
    order: Order | None = None
    group: Grouping | None = None

    def apply(self, options: SessionListOptions) -> SessionListOptions:
        return options._replace(order=self.order or options.order, group=self.group or options.group)

    def is_current(self, options: SessionListOptions) -> bool:
        return self.apply(options) == options


ORDERS = (
    OrderChoice("b", "best, then newest", order="best"),
    OrderChoice("n", "newest first", order="newest"),
    OrderChoice("l", "oldest first", order="oldest"),
    OrderChoice("t", "most turns first", order="turns"),
    OrderChoice("e", "most errors first", order="errors"),
    OrderChoice("c", "highest API value first", order="cost"),
    OrderChoice("m", "most tokens first", order="tokens"),
    OrderChoice("i", "by title", order="title"),
)
GROUPS = (
    OrderChoice("d", "days", group="day"),
    OrderChoice("f", "folders", group="folder"),
    OrderChoice("a", "agents", group="agent"),
    OrderChoice("u", "users", group="user"),
    OrderChoice("x", "no headings", group="none"),
)
CHOICES = (*ORDERS, *GROUPS)
HEADINGS_TITLE_LINE = len(ORDERS) + 1
"""The line of the title `Headings`."""


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
            width: 33;
            height: auto;
            margin: 2 0 0 2;
            padding: 1 2;
            background: $surface;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "choose", "Choose", id="order.choose", tooltip="Use this order"),
        Binding("down,j,o", "move(1)", "Down", id="order.down", show=False, tooltip="Next choice"),
        Binding("up,k", "move(-1)", "Up", id="order.up", show=False, tooltip="Previous choice"),
        Binding("escape,q", "dismiss(None)", "Close", id="order.close", tooltip="Close without changes"),
        *(
            Binding(
                item.key, f"pick({n})", item.name, show=False, id=f"order.{item.order or item.group}", tooltip=item.name
            )
            for n, item in enumerate(CHOICES)
        ),
        HELP_BINDING,
    ]

    menu = query_one(OrderMenu)

    def __init__(self, options: SessionListOptions) -> None:
        super().__init__()
        self._list_options = options
        self._cursor_index = next(n for n, choice in enumerate(CHOICES) if choice.is_current(options))

    def compose(self) -> ComposeResult:
        yield OrderMenu(self._build_page())
        yield KeyHintBar()

    def _build_page(self) -> Content:
        lines = [self._format_line(number, choice) for number, choice in enumerate(CHOICES)]
        title, headings = Content.styled("Order", MUTED), Content.styled("Headings", MUTED)
        return Content("\n").join([title, *lines[: len(ORDERS)], headings, *lines[len(ORDERS) :]])

    def _format_line(self, number: int, choice: OrderChoice) -> Content:
        is_current = choice.is_current(self._list_options)
        bar = (glyphs.CURSOR, "$accent") if number == self._cursor_index else (" ", "")
        style = STRONG if is_current else ""
        return Content.assemble(
            bar,
            (f"{glyphs.CHOSEN} " if is_current else "  ", "$text-accent"),
            (f"{choice.key}  ", FAINT),
            (choice.name, style),
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
        """Close the dialog after a click outside of it."""
        self.dismiss(None)
