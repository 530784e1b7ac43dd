"""The line at the foot of a pane in which one types what to find there; the pane knows what finding means."""

from __future__ import annotations

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

from tui.messages import Told
from tui.workers import surely

PAUSE = 0.08
"""Seconds without a key before the words are looked for."""

NOTHING_FOUND = "nothing found"


class FindWords(Input):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep", id="find.keep", tooltip="Go to what was found"),
        Binding("escape", "drop", "Drop", id="find.drop", tooltip="Stop finding"),
    ]

    class Dropped(Message):
        """Escape: no hits any more, please."""

    def action_drop(self) -> None:
        self.post_message(self.Dropped())


class FindBar(Horizontal):
    DEFAULT_CSS = """
    FindBar {
        display: none;
        dock: bottom;
        height: 1;
        padding: 0 1;
        background: $surface;

        Static {
            width: auto;
            color: $foreground 65%;
        }

        .find-bar--none {
            color: $text-error;
        }

        FindWords {
            width: 1fr;
            background: transparent;
        }
    }
    """

    words = query_one(FindWords)
    told = query_one("#told", Static)

    class Asked(Told):
        """As one types, after the shortest of pauses."""

        text: str

    class Left(Told):
        """The person is done typing: Enter keeps the hits, Escape drops them and closes the bar."""

        kept: bool

    def __init__(self) -> None:
        super().__init__()
        self._pause: Timer | None = None
        self._asked = ""

    def compose(self) -> ComposeResult:
        yield Static(Content("find "))
        yield FindWords(compact=True)
        yield Static(id="told")

    @property
    def text(self) -> str:
        return self.words.value

    def open(self, text: str = "") -> None:
        """With what was looked for last, selected, so that typing replaces it and Enter finds it again."""
        self.display = True
        if text:
            self.words.value = text
        self.words.focus()
        self.words.select_all()
        self._ask()

    def close(self) -> None:
        self._stop_waiting()
        self._asked = ""
        self.display = False

    def tell(self, at: int, of: int, *, more: bool = False) -> None:
        """Which hit of how many: 3, 17 is `3 of 17`; `3 of 17+` when there are more than were counted."""
        nothing = not of and bool(self.text)
        self.told.set_class(nothing, "find-bar--none")
        self.told.update(Content(f"{at:,} of {of:,}{'+' if more else ''}" if of else NOTHING_FOUND if nothing else ""))

    # ── typing ────────────────────────────────────────────────────────────────────────────────────

    @on(Input.Changed)
    def _wait_for_a_pause(self, changed: Input.Changed) -> None:
        changed.stop()
        self._stop_waiting()
        self._pause = surely(self.set_timer(PAUSE, self._ask))

    @on(Input.Submitted)
    def _keep(self, submitted: Input.Submitted) -> None:
        submitted.stop()
        if not self.text:
            self._drop()
            return
        self._ask()
        self.post_message(self.Left(kept=True))

    @on(FindWords.Dropped)
    def _drop(self) -> None:
        self.close()
        self.post_message(self.Left(kept=False))

    def _ask(self) -> None:
        self._stop_waiting()
        if self.text != self._asked:
            self._asked = self.text
            self.post_message(self.Asked(self.text))

    def _stop_waiting(self) -> None:
        if self._pause is not None:
            self._pause.stop()
            self._pause = None
