"""This module edits a text of any length. Textual measures each visible line at every key, and all lines when a text is
loaded, so a long text is not wrapped, and of a text that would delay every key only the beginning is shown."""

from __future__ import annotations

from enum import Enum, auto

from textual import events
from textual.widgets import TextArea

from tui.textual_compat import speed_up_long_texts

speed_up_long_texts()

MAX_CHARACTERS = 1_000_000
MAX_LINES = 5_000
"""Limit what can be edited here."""

MAX_WRAPPED_CHARACTERS = 50_000
MAX_WRAPPED_LINE_WEIGHT = 4_000
"""Limit what is wrapped: each visible row of a wrapped line takes as long as the whole line."""

MAX_LINE_WEIGHT = 1_000
MAX_WEIGHT = 50_000
"""Limit what is not wrapped: many lines that are not heavy, or a few that are."""

_TAB_WEIGHT = 20
"""Is how many characters take as long as a tab."""

_ASCII_PER_OTHER = 20
"""Is how many ASCII characters take as long as one of another script, if they are not wrapped."""

_BEGINNING_LINES, _BEGINNING_CHARACTERS = 100, 2_000


class _Treatment(Enum):
    """Says how a text can be shown without delaying the keys."""

    WRAPPED = auto()
    NOT_WRAPPED = auto()
    BEGINNING = auto()


class TextEditor(TextArea):
    """Edits a text. If only the beginning is shown, it cannot be changed here, and `text` is still all of it."""

    def __init__(self, text: str = "", *, read_only: bool = False) -> None:
        self._is_always_read_only = read_only
        self._whole_text = ""
        treatment = _choose_treatment(text)
        if treatment is _Treatment.BEGINNING:
            self._whole_text = text
        super().__init__(
            _cut_beginning(text) if self._whole_text else text,
            soft_wrap=treatment is not _Treatment.NOT_WRAPPED,
            read_only=read_only or bool(self._whole_text),
            show_line_numbers=False,
            tab_behavior="focus",
        )
        self.match_cursor_bracket = False  # the other bracket may be a megabyte away

    @property
    def text(self) -> str:
        return self._whole_text or super().text

    @text.setter
    def text(self, value: str) -> None:
        self.load_text(value)

    def load_text(self, text: str) -> None:
        treatment = _choose_treatment(text)
        self._whole_text = text if treatment is _Treatment.BEGINNING else ""
        self.read_only = self._is_always_read_only or bool(self._whole_text)
        self.soft_wrap = treatment is not _Treatment.NOT_WRAPPED
        super().load_text(_cut_beginning(text) if self._whole_text else text)

    def replace_all(self, text: str) -> None:
        """Replace the text in a way that Ctrl+Z can undo, if it can be edited here."""
        treatment = _choose_treatment(text)
        if self._whole_text or treatment is _Treatment.BEGINNING:
            self.load_text(text)
        else:
            self.soft_wrap = self.soft_wrap and treatment is _Treatment.WRAPPED
            self.replace(text, self.document.start, self.document.end)

    def on_paste(self, event: events.Paste) -> None:
        """Turn wrapping off before a long text is inserted, and insert nothing that could not be edited any more."""
        if self.read_only:
            return
        treatment = _choose_treatment(self.text + event.text)
        if treatment is _Treatment.BEGINNING:
            event.prevent_default()
            self.notify(TOO_LONG_TO_PASTE, severity="warning", markup=False)
        else:
            self.soft_wrap = self.soft_wrap and treatment is _Treatment.WRAPPED


TOO_LONG_TO_PASTE = "The text would be too long to be edited here. Press F4 to paste it in your editor."


def _choose_treatment(text: str) -> _Treatment:
    if len(text) > MAX_CHARACTERS:
        return _Treatment.BEGINNING
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        return _Treatment.BEGINNING
    tabs = [_TAB_WEIGHT * line.count("\t") for line in lines]
    if len(text) <= MAX_WRAPPED_CHARACTERS and all(
        len(line) + weight <= MAX_WRAPPED_LINE_WEIGHT for line, weight in zip(lines, tabs, strict=True)
    ):
        return _Treatment.WRAPPED
    weights = [
        len(line) // (_ASCII_PER_OTHER if line.isascii() else 1) + weight
        for line, weight in zip(lines, tabs, strict=True)
    ]
    is_light = sum(weights) <= MAX_WEIGHT or max(weights) <= MAX_LINE_WEIGHT
    return _Treatment.NOT_WRAPPED if is_light else _Treatment.BEGINNING


def _cut_beginning(text: str) -> str:
    """Return the beginning of a text, and how to edit the rest."""
    beginning = "\n".join(text[:_BEGINNING_CHARACTERS].splitlines()[:_BEGINNING_LINES])
    left = len(text) - len(beginning)
    return f"{beginning}…\n\n({left:,} more characters. Press F4 to edit the text in your editor.)"
