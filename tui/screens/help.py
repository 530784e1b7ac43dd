"""This page lists all keys of a screen, and what the signs mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from store.text.sanitize import cell_width
from tui.render.styles import MUTED

HelpLine = tuple[str, str]
"""Holds keys and their action, or a sign and its meaning."""

PADDING = 2
HORIZONTAL_MARGIN = 2 * PADDING + 2 + 4
"""Cells of a row that are not used for text: the padding, the scrollbar and the margin."""


class HelpScreen(ModalScreen[None]):
    DEFAULT_CSS = f"""
    HelpScreen {{
        align: center middle;

        VerticalScroll {{
            width: auto;
            height: auto;
            max-height: 90%;
            padding: 1 {PADDING};
            background: $surface;
            scrollbar-size-vertical: 1;
            scrollbar-background: $surface;
        }}

        Static {{
            width: auto;
            padding-right: 1;
        }}
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,enter,q", "dismiss", "Close", id="help.close", tooltip="Close this page"),
    ]

    def __init__(self, keys: Iterable[HelpLine], signs: Iterable[HelpLine]) -> None:
        super().__init__()
        self._keys = list(keys)
        self._signs = list(signs)

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static()

    def on_resize(self) -> None:
        self.query_one(Static).update(self._build_page(self.size.width - HORIZONTAL_MARGIN))

    def _build_page(self, room: int) -> Content:
        width = max(cell_width(sign) for sign, _ in self._keys)
        keys, signs = ([_format_line(line, width, room) for line in lines] for lines in (self._keys, self._signs))
        closing = Content.styled("Esc to close", MUTED)
        return Content("\n").join([*keys, Content(""), *signs, Content(""), closing])


def _format_line(line: HelpLine, width: int, room: int) -> Content:
    """Return a line, wrapped if it is too long."""
    sign, meaning = line
    head = Content.assemble((" " * (width - cell_width(sign)) + sign, "bold $text-accent"), "  ")
    return head + Content("\n" + " " * (width + 2)).join(Content(meaning).wrap(max(room - width - 2, 20)))
