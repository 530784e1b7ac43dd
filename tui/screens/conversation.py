"""One conversation, to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Static
from textual.worker import get_current_worker

from store.model import Session, Turn
from tui.painting.turns import heading, turn_lines
from tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from store.store import Store

FIRST_TURNS = 20
"""So many are shown before the rest of a long conversation is laid out."""


class ConversationScreen(Screen[None]):
    AUTO_FOCUS = "Transcript"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,left", "app.pop_screen", "Back", id="read.back", tooltip="Back to the list"),
    ]

    title_lines = query_one("#heading", Static)
    transcript = query_one(Transcript)

    @dataclass
    class LaidOut(Message):
        width: int
        lines: Sequence[Content]

    def __init__(self, store: Store, session: Session, clock: Callable[[], datetime]) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._clock = clock
        self._turns: Sequence[Turn] | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="heading")
        yield Transcript()
        yield Footer(show_command_palette=False)

    @on(Transcript.Resized)
    def _lay_out_again(self, resized: Transcript.Resized) -> None:
        self.title_lines.update(heading(self._session, self.title_lines.size.width, self._clock()))
        self._lay_out(resized.width)

    @work(thread=True, exclusive=True, group="lay out")
    def _lay_out(self, width: int) -> None:
        worker = get_current_worker()
        if self._turns is None:
            self._turns = self._store.chains.turns(self._session.key)
        lines: list[Content] = []
        for number, turn in enumerate(self._turns):
            if worker.is_cancelled:
                return
            lines += turn_lines(self._session, turn, width)
            if number == FIRST_TURNS:
                self.post_message(self.LaidOut(width, lines.copy()))
        self.post_message(self.LaidOut(width, lines))

    @on(LaidOut)
    def _show(self, laid_out: LaidOut) -> None:
        if laid_out.width == self.transcript.text_width:
            self.transcript.show(laid_out.lines)
