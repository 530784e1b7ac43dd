"""This module is an input of one line that stays fast when somebody pastes a file into it."""

from __future__ import annotations

from typing import ClassVar

from textual.widgets import Input

from store.text.sanitize import truncate

MAX_INPUT_CHARACTERS = 25_000
"""Limits the text of an input, because all of it is measured whenever a letter is typed. It is more than a query may
have, so that a query that is too long is reported as such."""


class LineInput(Input):
    """Is an input that cuts off what is too long for it, and its placeholder with an ellipsis."""

    max_characters: ClassVar = MAX_INPUT_CHARACTERS

    def on_mount(self) -> None:
        self._whole_placeholder = self.placeholder

    def on_resize(self) -> None:
        self.placeholder = truncate(self._whole_placeholder, self.scrollable_content_region.width)

    def validate_value(self, value: str) -> str:
        """Cut the text off, and put it on one line: Textual takes a second for the line breaks in a long title."""
        return value[: self.max_characters].replace("\n", " ")
