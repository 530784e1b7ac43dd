"""This module shows and takes the values of secrets. They are masked by default, and always in screenshots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.text import Text
from textual import events
from textual.content import Content
from textual.strip import Strip

from store.text.sanitize import sanitize
from tui.privacy.secret_value import MASK, SecretValue
from tui.render.styles import FAINT, format_count
from tui.render.word_wrap import wrap_text
from tui.textual_compat import RenderedInput
from tui.widgets.line_view import LineView

MAX_SHOWN_CHARACTERS = 20_000
"""Limits the characters to show. The value is shown for ten seconds only, and copying takes all of it."""

_CONTROL_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)}


class SecretView(LineView, can_focus=False):
    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self._is_concealed = False

    def show(self, value: SecretValue | None) -> None:
        """Show a value, or dots for None. Any value that was shown before is dropped."""
        self._lines = []
        if value is not None:
            text = value.text[:MAX_SHOWN_CHARACTERS]
            self._lines += wrap_text(text, max(self.page.width - 2, 1)) if text else ["(empty)"]
            if text != value.text:
                more = format_count(len(value.text) - MAX_SHOWN_CHARACTERS, "more character")
                self._lines.append(f"… {more} · copy to get the whole value")
        self.line_count = max(len(self._lines), 1)
        self.invalidate_strips()
        self.scroll_to(y=0, animate=False, force=True)

    def on_unmount(self) -> None:
        self._lines = []
        self._strips.clear()

    @property
    def is_revealed(self) -> bool:
        return bool(self._lines)

    def build_strip(self, line: int, width: int) -> Strip:
        if self._is_concealed or not self._lines:
            content = Content.styled(MASK if line == 0 else "", FAINT)
        else:
            content = Content.styled(self._lines[line], "bold $text-warning")
        return self.make_strip(Content.assemble(" ", content), width, self.visual_style)

    @contextmanager
    def concealed(self) -> Iterator[None]:
        self._is_concealed = True
        self.invalidate_strips()
        try:
            yield
        finally:
            self._is_concealed = False
            self.invalidate_strips()


class HiddenInput(RenderedInput):
    """Takes a value including line breaks, and never copies it to a clipboard."""

    def __init__(self, placeholder: str = "") -> None:
        super().__init__(placeholder=placeholder, password=True, compact=True)

    def render_value(self) -> Text:
        if self.password:
            return super().render_value()
        visible = sanitize(self.value.translate(_CONTROL_PICTURES))
        return Text(visible, no_wrap=True, overflow="ignore", end="")

    def on_paste(self, event: events.Paste) -> None:
        """Insert all lines. The base class takes only the first."""
        event.stop()
        event.prevent_default()
        self.replace(event.text.removesuffix("\n"), *sorted(self.selection))

    def action_copy(self) -> None:
        pass

    def action_cut(self) -> None:
        self.delete_selection()

    @contextmanager
    def concealed(self) -> Iterator[None]:
        was_hidden, self.password = self.password, True
        try:
            yield
        finally:
            self.password = was_hidden
