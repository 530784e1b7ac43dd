"""The line on top: the program's name, the words that filter the list, and how much is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, Static

PAUSE = 0.1
"""Seconds without a key before the words are looked for."""


class Words(Input):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,down", "submit", "To the list", id="filter.leave", tooltip="Go to what was found"),
    ]


class TopBar(Horizontal):
    words = query_one(Words)

    @dataclass
    class Asked(Message):
        query: str

    @dataclass
    class Left(Message):
        """The person is done with the words and wants the list."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._shown_name = name
        self._pause: Timer | None = None
        self._asked = ""

    def compose(self) -> ComposeResult:
        yield Static(Content(self._shown_name), id="name")
        yield Static(Content("/"), id="slash")
        yield Words(compact=True, placeholder="filter by title or words said", select_on_focus=False)
        yield Static(id="status")
        yield Static(id="count")

    def show_count(self, text: str) -> None:
        self.query_one("#count", Static).update(Content(text))

    def show_status(self, text: str) -> None:
        status = self.query_one("#status", Static)
        status.display = bool(text)
        status.update(Content(text))

    def clear(self) -> None:
        self.words.value = ""
        self._ask()

    @on(Input.Changed)
    def _wait_for_a_pause(self) -> None:
        self._stop_waiting()
        self._pause = self.set_timer(PAUSE, self._ask)

    @on(Input.Submitted)
    def _leave(self) -> None:
        self._ask()
        self.post_message(self.Left())

    def _ask(self) -> None:
        self._stop_waiting()
        if self.words.value != self._asked:
            self._asked = self.words.value
            self.post_message(self.Asked(self._asked))

    def _stop_waiting(self) -> None:
        if self._pause is not None:
            self._pause.stop()
            self._pause = None
