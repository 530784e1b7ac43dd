"""This module edits a text. Long texts are not wrapped, because wrapping a megabyte would delay every key."""

from __future__ import annotations

from textual import events
from textual.widgets import TextArea

from tui.textual_compat import speed_up_long_lines

speed_up_long_lines()

MAX_WRAPPED_CHARACTERS = 50_000


class TextEditor(TextArea):
    def __init__(self, text: str = "", *, read_only: bool = False) -> None:
        wraps = len(text) <= MAX_WRAPPED_CHARACTERS
        super().__init__(text, soft_wrap=wraps, read_only=read_only, show_line_numbers=False, tab_behavior="focus")

    def load_text(self, text: str) -> None:
        """Turn wrapping off before a long text is shown."""
        if len(text) > MAX_WRAPPED_CHARACTERS:
            self.soft_wrap = False
        super().load_text(text)

    def on_paste(self, event: events.Paste) -> None:
        """Turn wrapping off before a long text is inserted."""
        if len(self.text) + len(event.text) > MAX_WRAPPED_CHARACTERS:
            self.soft_wrap = False
