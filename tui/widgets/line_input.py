"""This module is an input of one line that stays fast when somebody pastes a file into it."""

from __future__ import annotations

from typing import ClassVar

from textual.widgets import Input

from store.text.sanitize import truncate

MAX_INPUT_CHARACTERS = 25_000
"""Limits the text of an input, because all of it is measured whenever a letter is typed. It is more than a query may
have, so that a query that is too long is reported as such."""

MAX_INPUT_BLANKS = 50
"""Limits line breaks and tabs. A few of them may be in the name of a file."""


class LineInput(Input):
    """Is an input that cuts off what is too long for it, and its placeholder with an ellipsis."""

    max_characters: ClassVar = MAX_INPUT_CHARACTERS

    def on_mount(self) -> None:
        self._whole_placeholder = self.placeholder

    def on_resize(self) -> None:
        self.placeholder = truncate(self._whole_placeholder, self.scrollable_content_region.width)

    def validate_value(self, value: str) -> str:
        """Cut the text off. Many line breaks or tabs become blanks: Textual takes seconds for thousands of them."""
        value = value[: self.max_characters]
        for blank in "\n\t":
            if value.count(blank) > MAX_INPUT_BLANKS:
                value = value.replace(blank, " ")
        return value
