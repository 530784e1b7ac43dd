"""This module shows the line at the bottom of a pane in which a person types words to find."""

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
from tui.textual_compat import reliable_timer
from tui.widgets.line_input import LineInput

TYPING_PAUSE = 0.08
"""Seconds without a key before the search starts."""

NOTHING_FOUND = "no matches"


class FindInput(LineInput):
    max_characters = 1_000
    "Limits what is turned into a pattern, which takes long for very long words."

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep highlight", id="find.keep", tooltip="Keep the highlight and go to the match"),
        Binding("escape", "drop", "Clear", id="find.drop", tooltip="Clear the highlight and close the find bar"),
    ]

    class Cancelled(Message):
        """Says that the person pressed Escape."""

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
            color: $foreground 75%;
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
    counter = query_one("#counter", Static)

    class TextChanged(DataMessage):
        """Says that the text changed, after a short pause in typing."""

        text: str

    class Exited(DataMessage):
        """Says that the person is done typing. Enter keeps the hits, Escape drops them and closes the bar."""

        kept: bool

    def __init__(self) -> None:
        super().__init__()
        self._typing_timer: Timer | None = None
        self._last_text = ""

    def compose(self) -> ComposeResult:
        yield Static(Content("find "))
        yield FindInput(compact=True)
        yield Static(id="counter")

    @property
    def text(self) -> str:
        return self.input.value

    def open(self, text: str = "") -> None:
        """Open the bar with the last text selected, so that typing replaces it and Enter finds it again."""
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

    def show_position(self, number: int, total: int, *, more: bool = False) -> None:
        """Show the number of the current hit, e.g. `3 of 17`, or `3 of 17+` if there are more than were counted."""
        nothing_found = not total and bool(self.text)
        self.counter.set_class(nothing_found, "find-bar--none")
        position = f"{number:,} of {total:,}{'+' if more else ''}" if total else ""
        self.counter.update(Content(NOTHING_FOUND if nothing_found else position))

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
