"""This module shows completions below the query input."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.widgets import Static

from store.text.sanitize import one_line
from tui.messages import DataMessage
from tui.render.styles import FAINT

MAX_SHOWN = 8
"""Limits the rows. The others are shown when the selection moves there."""


class CompletionList(Static):
    DEFAULT_CSS = """
    CompletionList {
        display: none;
        overlay: screen;
        constrain: inside inside;
        width: auto;
        max-width: 60;
        height: auto;
        padding: 0 1;
        background: $surface-lighten-1;
    }
    """

    class Clicked(DataMessage):
        completion: str

    def __init__(self) -> None:
        super().__init__()
        self.completions: Sequence[str] = ()
        self.selected_index: int | None = None
        "Is None until the person moves into the list."

    def show(self, completions: Sequence[str]) -> None:
        if not completions and not self.display:
            return
        self.completions = completions
        self.selected_index = None
        self.display = bool(completions)
        self._redraw()

    def move(self, by: int) -> None:
        """Move the selection. Up from the first completion returns to the input."""
        index = (-1 if self.selected_index is None else self.selected_index) + by
        self.selected_index = None if index < 0 else min(index, len(self.completions) - 1)
        self._redraw()

    @property
    def selected_completion(self) -> str:
        """The selected completion, or the first if none is selected."""
        return self.completions[self.selected_index or 0]

    @property
    def _first_shown(self) -> int:
        return max((self.selected_index or 0) - MAX_SHOWN + 1, 0)

    def _redraw(self) -> None:
        end = self._first_shown + MAX_SHOWN
        rows = [
            self._render_row(n, self.completions[n])
            for n in range(self._first_shown, len(self.completions))[:MAX_SHOWN]
        ]
        if end < len(self.completions):
            rows.append(Content.styled(f"↓ {len(self.completions) - end} more", FAINT))
        self.update(Content("\n").join(rows))

    def _render_row(self, number: int, completion: str) -> Content:
        name, colon, value = completion.partition(":")
        style = "bold $block-cursor-foreground on $block-cursor-background" if number == self.selected_index else ""
        # The name of a folder is foreign text.
        return Content.assemble((name + colon, style or FAINT), (one_line(value, 50), style))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if event.y < MAX_SHOWN and self._first_shown + event.y < len(self.completions):
            self.post_message(self.Clicked(self.completions[self._first_shown + event.y]))
