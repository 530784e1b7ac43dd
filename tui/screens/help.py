"""All keys of the screen beneath, told by the keys themselves, and what the signs mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from store.clean import cells
from tui.painting.pieces import MUTED

Line = tuple[str, str]
"""Keys and what they do, or a sign and what it means."""


class HelpScreen(ModalScreen[None]):
    DEFAULT_CSS = """
    HelpScreen {
        align: center middle;

        VerticalScroll {
            width: auto;
            height: auto;
            max-width: 90%;
            max-height: 90%;
            padding: 1 3;
            background: $surface;
        }

        Static {
            width: auto;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,enter,q", "dismiss", "Close", id="help.close", tooltip="Close this page"),
    ]

    def __init__(self, keys: Iterable[Line], signs: Iterable[Line]) -> None:
        super().__init__()
        self._keys = list(keys)
        self._signs = list(signs)

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self._page())

    def _page(self) -> Content:
        width = max(cells(sign) for sign, _ in self._keys)
        keys, signs = ([_line(line, width) for line in lines] for lines in (self._keys, self._signs))
        closing = Content.styled("Esc closes this page", MUTED)
        return Content("\n").join([*keys, Content(""), *signs, Content(""), closing])


def _line(line: Line, width: int) -> Content:
    sign, told = line
    return Content.assemble((" " * (width - cells(sign)) + sign, "bold $text-accent"), "  ", told)
