"""This module shows the first line of a list screen: a heading, and an input that filters the list."""

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
from tui.widgets.line_input import LineInput


class FilterInput(LineInput):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "drop", "Show all", id="filter.drop", tooltip="Clear the filter"),
        Binding(
            "enter,down,tab", "leave", "To the list", id="filter.leave", tooltip="Keep the filter and go to the list"
        ),
    ]

    class Exited(Message):
        """Says that the person left the input for the list."""

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

        #filter-heading {
            width: auto;
            max-width: 75%;
            height: 1;
            margin-right: 3;
        }

        #slash {
            width: 2;
            color: $foreground 60%;
        }

        FilterInput {
            width: 1fr;
            background: transparent;
        }
    }
    """

    heading = query_one("#filter-heading", Static)
    input = query_one(FilterInput)

    class WordsChanged(DataMessage):
        """Says that the filter changed while the person types."""

        words: list[str]

    def __init__(self, placeholder: str) -> None:
        super().__init__()
        self._placeholder = placeholder

    def compose(self) -> ComposeResult:
        yield Static(id="filter-heading")
        yield Static(Content("/"), id="slash")
        yield FilterInput(compact=True, placeholder=self._placeholder, select_on_focus=False)

    def show_heading(self, heading: Content) -> None:
        self.heading.update(heading)

    @property
    def filter_words(self) -> list[str]:
        """The words of the filter in lower case. A row must contain all of them."""
        return self.input.value.casefold().split()

    @on(Input.Changed)
    def _post_words_changed(self, changed: Input.Changed) -> None:
        changed.stop()
        self.post_message(self.WordsChanged(self.filter_words))
