"""One conversation, to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.getters import query_one
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer
from textual.worker import get_current_worker

from store.model import Session, Turn
from store.outline import Outline, Place
from tui.widgets.timeline import TimelinePane

if TYPE_CHECKING:
    from store.store import Store


class ConversationScreen(Screen[None]):
    AUTO_FOCUS = "Timeline"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "app.pop_screen", "Back", id="read.back", tooltip="Back to the list"),
    ]

    pane = query_one(TimelinePane)

    @dataclass
    class Outlined(Message):
        outline: Outline

    @dataclass
    class Read(Message):
        wanted: TimelinePane.Wanted
        turns: Sequence[Turn]

    @dataclass
    class Found(Message):
        wanted: TimelinePane.FindWanted
        hits: Sequence[Place]

    def __init__(self, store: Store, session: Session, clock: Callable[[], datetime]) -> None:
        super().__init__()
        from store.outlines import Outlines

        self._outlines = Outlines(store)
        self._session = session
        self._clock = clock

    def compose(self) -> ComposeResult:
        yield TimelinePane(self._clock)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._outline()

    @work(thread=True, group="outline")
    def _outline(self) -> None:
        self.post_message(self.Outlined(self._outlines.outline(self._session.key)))

    @work(thread=True, group="turns")
    def _read(self, wanted: TimelinePane.Wanted) -> None:
        self.post_message(self.Read(wanted, self._outlines.turns(self._session.key, wanted.turns)))

    @work(thread=True, exclusive=True, group="find")
    def _find(self, wanted: TimelinePane.FindWanted) -> None:
        worker = get_current_worker()
        hits = self._outlines.find(self._session.key, wanted.words, lambda: worker.is_cancelled)
        self.post_message(self.Found(wanted, hits))

    @on(Outlined)
    def _show(self, outlined: Outlined) -> None:
        self.pane.show(self._session, outlined.outline)

    @on(TimelinePane.Wanted)
    def _read_turns(self, wanted: TimelinePane.Wanted) -> None:
        self._read(wanted)

    @on(Read)
    def _supply(self, read: Read) -> None:
        self.pane.supply(read.wanted, read.turns)

    @on(TimelinePane.FindWanted)
    def _find_words(self, wanted: TimelinePane.FindWanted) -> None:
        self._find(wanted)

    @on(Found)
    def _show_hits(self, found: Found) -> None:
        self.pane.found(found.wanted.generation, found.hits)
