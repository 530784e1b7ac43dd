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

from tui.messages import DataMessage


class FilterInput(Input):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "drop", "All again", id="filter.drop", tooltip="Without words"),
        Binding("enter,down,tab", "leave", "To the list", id="filter.leave", tooltip="Keep the words, go to the list"),
    ]

    class Exited(Message):
        """To the list."""

    def action_drop(self) -> None:
        self.value = ""
        self.post_message(self.Exited())

    def action_leave(self) -> None:
        self.post_message(self.Exited())


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

        FilterInput {
            width: 1fr;
            background: transparent;
        }
    }
    """

    heading = query_one("#told", Static)
    input = query_one(FilterInput)

    class WordsChanged(DataMessage):
        """As one types."""

        words: list[str]

    def __init__(self, placeholder: str) -> None:
        super().__init__()
        self._placeholder = placeholder

    def compose(self) -> ComposeResult:
        yield Static(id="told")
        yield Static(Content("/"), id="slash")
        yield FilterInput(compact=True, placeholder=self._placeholder, select_on_focus=False)

    def show_heading(self, told: Content) -> None:
        self.heading.update(told)

    @property
    def filter_words(self) -> list[str]:
        """All of them must be there, in any case."""
        return self.input.value.casefold().split()

    @on(Input.Changed)
    def _post_words_changed(self, changed: Input.Changed) -> None:
        changed.stop()
        self.post_message(self.WordsChanged(self.filter_words))
