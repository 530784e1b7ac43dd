"""This module shows text of any length. A thread wraps long text, and lines are rendered when they become visible."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.strip import Strip
from textual.worker import get_current_worker

from tui.messages import DataMessage
from tui.render import glyphs
from tui.render.highlight import highlight_words
from tui.render.styles import StyledText
from tui.render.viewport import WrappableLine
from tui.render.word_wrap import wrap_text
from tui.widgets.find_pane import FindSearch
from tui.widgets.line_view import LineView
from tui.workers import threaded

MAX_SYNC_CHARACTERS = 64_000
"""Limits the text that is wrapped immediately. A thread wraps longer text."""

MAX_SYNC_LINES = 400
"""Limits the rendered lines that are wrapped immediately. A thread wraps the others."""

FIRST_LINES = 2_000
"""The number of lines of a long text to show before the rest is wrapped."""

TextSource = str | Sequence[WrappableLine]
"""Holds foreign text as it is stored, or lines that are already rendered."""


class TextView(LineView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_by(1)", "Down", id="text.down", show=False, tooltip="Next line"),
        Binding("up,k", "scroll_by(-1)", "Up", id="text.up", show=False, tooltip="Previous line"),
        Binding("pagedown,space", "scroll_page(1)", "Page down", id="text.page_down", show=False, tooltip="Page down"),
        Binding("pageup,b", "scroll_page(-1)", "Page up", id="text.page_up", show=False, tooltip="Page up"),
        Binding("home", "scroll_home", "Start", id="text.first", show=False, tooltip="Go to the start"),
        Binding("end", "scroll_end", "End", id="text.last", show=False, tooltip="Go to the end"),
    ]

    class TextWrapped(DataMessage):
        generation: int
        lines: Sequence[str]

    class LinesWrapped(DataMessage):
        generation: int
        wrapped: Sequence[Sequence[Content]]

    def __init__(self) -> None:
        super().__init__()
        self._source: TextSource = ""
        self._lines: Sequence[str | Content] = ()
        self._wrap_width = 0
        self._generation = 0
        self._words = ""
        self._hit_line: int | None = None

    def show(self, source: TextSource) -> None:
        self._source = source
        self._hit_line = None
        self._lay_out()
        self.scroll_to(y=0, animate=False, force=True)

    @property
    def text_width(self) -> int:
        """The width without the mark of a hit and a gap before the scrollbar."""
        return max(self.page.width - 2, 1)

    # ── laying out ────────────────────────────────────────────────────────────────────────────────

    def on_resize(self) -> None:
        if self._wrap_width != self.text_width:
            self._lay_out()

    def _lay_out(self) -> None:
        self._generation += 1
        self._wrap_width = self.text_width
        if not isinstance(self._source, str):
            self._show_wrapped_lines(_wrap_lines(self._source[:MAX_SYNC_LINES], self._wrap_width))
            if len(self._source) > MAX_SYNC_LINES:
                self._wrap_rendered(self._source, self._wrap_width, self._generation)
        elif len(self._source) <= MAX_SYNC_CHARACTERS:
            self._show_lines(list(wrap_text(self._source, self._wrap_width)) if self._source else [])
        else:
            self._wrap(self._source, self._wrap_width, self._generation)

    @threaded(exclusive=True, group="wrap")
    def _wrap(self, text: str, width: int, generation: int) -> None:
        worker = get_current_worker()
        lines: list[str] = []
        for line in wrap_text(text, width):
            lines.append(line)
            if len(lines) % FIRST_LINES == 0:
                if worker.is_cancelled:
                    return
                if len(lines) == FIRST_LINES:
                    self.post_message(self.TextWrapped(generation, lines.copy()))
        self.post_message(self.TextWrapped(generation, lines))

    @threaded(exclusive=True, group="wrap")
    def _wrap_rendered(self, lines: Sequence[WrappableLine], width: int, generation: int) -> None:
        self.post_message(self.LinesWrapped(generation, _wrap_lines(lines, width)))

    @on(LinesWrapped)
    def _show_all_lines(self, message: LinesWrapped) -> None:
        if message.generation == self._generation:
            self._show_wrapped_lines(message.wrapped)

    def _show_wrapped_lines(self, wrapped: Sequence[Sequence[Content]]) -> None:
        """Show what the rendered lines were wrapped to, one sequence for each of them."""
        self._show_lines([part for parts in wrapped for part in parts])

    @on(TextWrapped)
    def _show_wrapped(self, message: TextWrapped) -> None:
        if message.generation == self._generation:
            self._show_lines(message.lines)

    def _show_lines(self, lines: Sequence[str | Content]) -> None:
        self._lines = lines
        self.line_count = len(lines)
        self.invalidate_strips()

    # ── painting ──────────────────────────────────────────────────────────────────────────────────

    def strip_key(self, line: int) -> Hashable:
        return line, line == self._hit_line

    def build_strip(self, line: int, width: int) -> Strip:
        text = self._lines[line]
        content = text if isinstance(text, Content) else Content(text)
        mark = self.line_mark(line)
        return self.make_strip(Content.assemble(mark, highlight_words(content, self._words)), width, self.visual_style)

    def line_mark(self, line: int) -> StyledText:
        """Return the mark before a line."""
        return (glyphs.CURSOR, "$accent") if line == self._hit_line else (" ", "")

    # ── finding ───────────────────────────────────────────────────────────────────────────────────

    def make_search(self, words: str) -> FindSearch:
        lines = self._lines
        return lambda stopped: _find_lines(lines, words.casefold(), stopped)

    def reveal(self, hit: int) -> None:
        previous, self._hit_line = self._hit_line, hit
        for line in (previous, hit):
            if line is not None:
                self.refresh_lines(line)
        top = self.scroll_offset.y
        if not top <= hit < top + self.page.height:
            self.scroll_to(y=hit - self.page.height // 3, animate=False, force=True, immediate=True)

    def highlight_words(self, words: str) -> None:
        self._words = words
        self._hit_line = None
        self.invalidate_strips()

    # ── scrolling ─────────────────────────────────────────────────────────────────────────────────

    def action_scroll_by(self, lines: int) -> None:
        self.scroll_relative(y=lines, animate=False)

    def action_scroll_page(self, pages: int) -> None:
        self.scroll_relative(y=pages * (self.page.height - 1), animate=False)

    def action_scroll_home(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_scroll_end(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False)


class AutoHeightText(TextView):
    """Shows text in a dialog, as high as the text but at most a part of the screen.

    The height is a part of the screen and the maximum is the number of lines. The other order does not work: with an
    `auto` height and a part of the screen as the maximum, the dialog becomes higher than the text.
    """

    MAX_HEIGHT = "55vh"
    "Leaves room on a small screen for a title above and two lines below."

    def __init__(self) -> None:
        super().__init__()
        self.styles.height = self.MAX_HEIGHT

    def _show_lines(self, lines: Sequence[str | Content]) -> None:
        super()._show_lines(lines)
        self.styles.max_height = max(len(lines), 1)


def _wrap_lines(lines: Sequence[WrappableLine], width: int) -> list[Sequence[Content]]:
    return [line.wrap(width) or [Content("")] for line in lines]


def _find_lines(lines: Sequence[str | Content], words: str, stopped: Callable[[], bool]) -> Iterator[int]:
    """Yield the lines that contain the words. Words that a line break splits are found where they begin."""
    texts = (line.plain if isinstance(line, Content) else line for line in (*lines, ""))
    length = len(words)
    for number, (text, next_text) in enumerate(pairwise(text.casefold() for text in texts)):
        if number % FIRST_LINES == 0 and stopped():
            return
        if words in text or (length > 1 and words in f"{text[1 - length :]} {next_text[: length - 1]}"):
            yield number
