"""This module shows cards and keeps them in place on the screen, even if heights above them change."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

from textual import on
from textual.content import Content
from textual.scrollbar import ScrollDown, ScrollUp
from textual.strip import Strip

from tui.render import glyphs
from tui.widgets.line_view import LineView
from tui.widgets.timeline.card_layout import CardLayout, ItemPosition

LEFT_MARGIN, RIGHT_MARGIN = 2, 2
"""The margins of the text: for the bar of the current turn, and for the bar of turns that the summary covers."""


class ItemMark(NamedTuple):
    """Names an item that a person marked to compare it with another one."""

    session_id: str
    seq: int
    part: int | None
    reference: str
    "Names it as `store.conversations.comparison` does."


class AnchoredView(LineView):
    COMPONENT_CLASSES: ClassVar[set[str]] = {"timeline--cursor", "timeline--bar", "timeline--covered"}

    DEFAULT_CSS = """
    AnchoredView {
        .timeline--cursor { background: $surface; }
        .timeline--bar { color: $foreground 30%; }
        .timeline--covered { color: $success 60%; }

        &:focus {
            .timeline--cursor { background: $primary 16%; }
            .timeline--bar { color: $accent; }
        }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.cards = CardLayout()
        self.cursor = ItemPosition(0, 0)
        self.at_end = False
        "Keeps the view at the end of the session."
        self.is_past_end = False
        "Is true while blank lines follow the last card, because a short turn is at the top."
        self.mark: ItemMark | None = None
        self._is_scrolling_itself = False
        self._page_height = 0
        "Is the height of the page as it was laid out last."

    def visible_lines_changed(self) -> None:
        """Is called after other lines became visible or the visible ones changed."""

    # ── keeping the position ──────────────────────────────────────────────────────────────────────

    @contextmanager
    def preserve_position(self) -> Iterator[None]:
        """Keep the visible items in place while the body of the `with` changes heights."""
        anchor, row = self._find_anchor()
        yield
        self.scroll_to_anchor(None if self.at_end else anchor, row, is_fixed=self.is_past_end)

    def _find_anchor(self) -> tuple[ItemPosition, int]:
        """Return the item to keep in place, and its row: the cursor if it is visible, else the first rendered item."""
        top, page = self.scroll_offset.y, self.page.height
        row = self._cursor_row()
        if -self.height_of(self.cursor) < row < page:
            return self.cursor, row
        line, end = top, min(top + page, self.cards.line_count)
        while line < end:
            position, offset = self.cards.locate_line(line)
            if self.cards.is_laid_out(position):
                return position, line - offset - top
            line += self.cards.height(position) - offset
        if top < self.cards.line_count:
            position, offset = self.cards.locate_line(top)
            return position, -offset
        return self.cursor, 0

    def height_of(self, position: ItemPosition) -> int:
        return self.cards.height(position) if position.turn < len(self.cards) else 0

    def scroll_to_anchor(self, anchor: ItemPosition | None, row: int, *, is_fixed: bool = False) -> None:
        """Scroll so that the anchor is on that row, and render the visible items. No anchor means the end.

        With `is_fixed`, blank lines follow the last card if the anchor would not get to its row otherwise.
        """
        page = self.page.height
        current_top = self.scroll_offset.y if self.is_past_end else 0
        for _ in range(4 * page + 4):
            last_top = max(self.cards.line_count - page, 0)
            desired = self.cards.start_line(anchor) - row if anchor is not None and len(self.cards) else last_top
            top = max(desired if is_fixed else min(desired, max(last_top, current_top)), 0)
            if not self.cards.lay_out(top, top + page):
                break
        self._is_scrolling_itself = True
        self.is_past_end = top > last_top
        self.line_count = top + page if self.is_past_end else self.cards.line_count
        if top != self.scroll_offset.y:
            self.scroll_to(y=top, animate=False, force=True)
        self._is_scrolling_itself = False
        self.visible_lines_changed()
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._is_scrolling_itself and round(old_value) != round(new_value):
            self.at_end = new_value >= self.max_scroll_y
            self.scroll_to_anchor(*self._anchor_after_scroll())

    def _anchor_after_scroll(self) -> tuple[ItemPosition | None, int]:
        if self.at_end:
            return None, 0
        return self._find_anchor()

    @on(ScrollUp)
    @on(ScrollDown)
    def _scroll_one_page(self, message: ScrollUp | ScrollDown) -> None:
        """Scroll one page after a click next to the handle. Rendering would interrupt an animation."""
        message.stop()
        message.prevent_default()
        by = 1 if isinstance(message, ScrollDown) else -1
        self.scroll_relative(y=by * max(self.page.height - 2, 1), animate=False)

    def on_resize(self) -> None:
        """Keep what is shown in its place. When a longer heading makes the page smaller, the current item stays in
        view as a whole."""
        was_visible = 0 <= self._cursor_row() < self._page_height
        with self.preserve_position():
            self.cards.resize(self.text_width)
        self._page_height = page = self.page.height
        height = self.height_of(self.cursor)
        if was_visible and not self.at_end and self._cursor_row() + height > page:
            self.scroll_to_anchor(self.cursor, max(page - height, 0))

    def _cursor_row(self) -> int:
        """Return the row of the screen on which the current item begins."""
        return self.cards.start_line(self.cursor) - self.scroll_offset.y if len(self.cards) else 0

    # ── painting ──────────────────────────────────────────────────────────────────────────────────

    @property
    def text_width(self) -> int:
        return max(self.page.width - LEFT_MARGIN - RIGHT_MARGIN, 10)

    def strip_key(self, line: int) -> Hashable:
        if line >= self.cards.line_count:
            return "past the end"
        position, offset = self.cards.locate_line(line)
        is_current_turn = position.turn == self.cursor.turn
        return (
            self.cards.revision,
            position,
            offset,
            is_current_turn and (position == self.cursor, self.has_focus, True),
            self._is_marked(position),
        )

    def _is_marked(self, position: ItemPosition) -> bool:
        if self.mark is None or self.mark.session_id != self.cards.session_id:
            return False
        item = self.cards.item(position)
        if item is None:  # the turn is folded and not loaded
            return self.mark.seq == self.cards.turn_outline(position.turn).first_seq
        return (item.entry.seq, item.part_index) == (self.mark.seq, self.mark.part)

    def build_strip(self, line: int, width: int) -> Strip:
        if line >= self.cards.line_count:
            return Strip.blank(width, self.rich_style)
        position, offset = self.cards.locate_line(line)
        lines = self.cards.lines(position)
        text = lines[offset] if offset < len(lines) else Content("")
        is_selected = position == self.cursor and not self._is_gap(position, offset)
        style = self.component_style("timeline--cursor") if is_selected else self.visual_style
        bar = (
            f"{glyphs.CURSOR} "
            if is_selected
            else "│ "
            if position.turn == self.cursor.turn and not self._is_first_gap(position, offset)
            else "  "
        )
        if self._is_marked(position) and not self._is_gap(position, offset):
            bar = bar[0] + glyphs.SELECTED
        is_covered = 0 < self.cards.turn_outline(position.turn).n <= self.cards.outline.summarized_up_to
        end = (glyphs.COVERED, ".timeline--covered") if is_covered else (" ", "")
        room = max(width - LEFT_MARGIN - 1 - text.cell_length, 0)
        return self.make_strip(Content.assemble((bar, ".timeline--bar"), text, " " * room, end), width, style)

    def _is_gap(self, position: ItemPosition, offset: int) -> bool:
        item = self.cards.item(position)
        is_folded = self.cards.is_folded(position.turn)
        return not offset and not is_folded and (item is None or item.has_gap)

    def _is_first_gap(self, position: ItemPosition, offset: int) -> bool:
        return not position.item and self._is_gap(position, offset)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()
