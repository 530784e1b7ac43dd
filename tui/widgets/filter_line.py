"""The first line of a screen with a list: what is listed, and beside it the words that narrow it as one types."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.widgets import Input, Static

from tui.messages import Told


class FilterWords(Input):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "drop", "All again", id="filter.drop", tooltip="Without words"),
        Binding("enter,down,tab", "leave", "To the list", id="filter.leave", tooltip="Keep the words, go to the list"),
    ]

    class Left(Message):
        """To the list."""

    def action_drop(self) -> None:
        self.value = ""
        self.post_message(self.Left())

    def action_leave(self) -> None:
        self.post_message(self.Left())


class FilterLine(Horizontal):
    DEFAULT_CSS = """
    FilterLine {
        height: 2;
        padding: 0 1;

        #told {
            width: auto;
            max-width: 75%;
            height: 1;
            margin-right: 3;
        }

        #slash {
            width: 2;
            color: $foreground 45%;
        }

        FilterWords {
            width: 1fr;
            background: transparent;
        }
    }
    """

    told = query_one("#told", Static)
    words = query_one(FilterWords)

    class Asked(Told):
        """As one types."""

        words: list[str]

    def __init__(self, placeholder: str) -> None:
        super().__init__()
        self._placeholder = placeholder

    def compose(self) -> ComposeResult:
        yield Static(id="told")
        yield Static(Content("/"), id="slash")
        yield FilterWords(compact=True, placeholder=self._placeholder, select_on_focus=False)

    def tell(self, told: Content) -> None:
        self.told.update(told)

    @property
    def asked(self) -> list[str]:
        """All of them must be there, in any case."""
        return self.words.value.casefold().split()

    @on(Input.Changed)
    def _ask(self, changed: Input.Changed) -> None:
        changed.stop()
        self.post_message(self.Asked(self.asked))
