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

from tui.messages import DataMessage
from tui.workers import reliable_timer

TYPING_PAUSE = 0.08
"""Seconds without a key before the words are looked for."""

NOTHING_FOUND = "nothing found"


class FindInput(Input):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep", id="find.keep", tooltip="Go to what was found"),
        Binding("escape", "drop", "Drop", id="find.drop", tooltip="Stop finding"),
    ]

    class Cancelled(Message):
        """Escape: no hits any more, please."""

    def action_drop(self) -> None:
        self.post_message(self.Cancelled())


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

        FindInput {
            width: 1fr;
            background: transparent;
        }
    }
    """

    input = query_one(FindInput)
    counter = query_one("#told", Static)

    class TextChanged(DataMessage):
        """As one types, after the shortest of pauses."""

        text: str

    class Exited(DataMessage):
        """The person is done typing: Enter keeps the hits, Escape drops them and closes the bar."""

        kept: bool

    def __init__(self) -> None:
        super().__init__()
        self._typing_timer: Timer | None = None
        self._last_text = ""

    def compose(self) -> ComposeResult:
        yield Static(Content("find "))
        yield FindInput(compact=True)
        yield Static(id="told")

    @property
    def text(self) -> str:
        return self.input.value

    def open(self, text: str = "") -> None:
        """With what was looked for last, selected, so that typing replaces it and Enter finds it again."""
        self.display = True
        if text:
            self.input.value = text
        self.input.focus()
        self.input.select_all()
        self._post_text_changed()

    def close(self) -> None:
        self._stop_typing_timer()
        self._last_text = ""
        self.display = False

    def show_position(self, at: int, of: int, *, more: bool = False) -> None:
        """Which hit of how many: 3, 17 is `3 of 17`; `3 of 17+` when there are more than were counted."""
        nothing = not of and bool(self.text)
        self.counter.set_class(nothing, "find-bar--none")
        self.counter.update(
            Content(f"{at:,} of {of:,}{'+' if more else ''}" if of else NOTHING_FOUND if nothing else "")
        )

    # ── typing ────────────────────────────────────────────────────────────────────────────────────

    @on(Input.Changed)
    def _restart_typing_timer(self, changed: Input.Changed) -> None:
        changed.stop()
        self._stop_typing_timer()
        self._typing_timer = reliable_timer(self.set_timer(TYPING_PAUSE, self._post_text_changed))

    @on(Input.Submitted)
    def _submit(self, submitted: Input.Submitted) -> None:
        submitted.stop()
        if not self.text:
            self._cancel()
            return
        self._post_text_changed()
        self.post_message(self.Exited(kept=True))

    @on(FindInput.Cancelled)
    def _cancel(self) -> None:
        self.close()
        self.post_message(self.Exited(kept=False))

    def _post_text_changed(self) -> None:
        self._stop_typing_timer()
        if self.text != self._last_text:
            self._last_text = self.text
            self.post_message(self.TextChanged(self.text))

    def _stop_typing_timer(self) -> None:
        if self._typing_timer is not None:
            self._typing_timer.stop()
            self._typing_timer = None
