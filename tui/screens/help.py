"""All keys of the screen beneath, told by the keys themselves."""

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

KeyLine = tuple[str, str]
"""The keys, and what they do."""


class HelpScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,enter,q", "dismiss", "Close", id="help.close", tooltip="Close this page"),
    ]

    def __init__(self, keys: Iterable[KeyLine]) -> None:
        super().__init__()
        self._keys = list(keys)

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self._page())

    def _page(self) -> Content:
        width = max(cells(keys) for keys, _ in self._keys)
        lines = [
            Content.assemble((" " * (width - cells(keys)) + keys, "bold $text-accent"), "  ", told)
            for keys, told in self._keys
        ]
        return Content("\n").join([*lines, Content(""), Content.styled("Esc closes this page", "$foreground 60%")])
