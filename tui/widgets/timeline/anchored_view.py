"""Cards on a page that holds still: whatever comes, goes or turns out higher than was thought, what a person looks at
stays where it is on the screen."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from textual import on
from textual.content import Content
from textual.scrollbar import ScrollDown, ScrollUp
from textual.strip import Strip

from tui.widgets.line_view import LineView
from tui.widgets.timeline.card_layout import CardLayout, ItemPosition

LEFT_MARGIN, RIGHT_MARGIN = 2, 2
"""Cells beside the text: the bar of the turn in hand, and that of what the summary covers."""


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
        "The page ends where everything ends, and is to stay there."
        self._is_scrolling_itself = False

    def visible_lines_changed(self) -> None:
        """Other lines are in view, or the same ones anew."""

    # ── holding still ─────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def preserve_position(self) -> Iterator[None]:
        """Around whatever changes heights."""
        anchor, row = self._find_anchor()
        yield
        self.scroll_to_anchor(None if self.at_end else anchor, row)

    def _find_anchor(self) -> tuple[ItemPosition, int]:
        """The cursor's block while it is in view; else the first in view that is laid out; and its row."""
        top, page = self.scroll_offset.y, self.page.height
        row = self.cards.start_line(self.cursor) - top if len(self.cards) else 0
        if -self.height_of(self.cursor) < row < page:
            return self.cursor, row
        line, end = top, min(top + page, self.cards.line_count)
        while line < end:
            spot, below = self.cards.locate_line(line)
            if self.cards.is_laid_out(spot):
                return spot, line - below - top
            line += self.cards.height(spot) - below
        if top < self.cards.line_count:
            spot, below = self.cards.locate_line(top)
            return spot, -below
        return self.cursor, 0

    def height_of(self, spot: ItemPosition) -> int:
        return self.cards.height(spot) if spot.turn < len(self.cards) else 0

    def scroll_to_anchor(self, anchor: ItemPosition | None, row: int) -> None:
        """Lay out what is in view when the anchor stands on that row; without one, the end of everything."""
        page = self.page.height
        for _ in range(4 * page + 4):
            last_top = max(self.cards.line_count - page, 0)
            wished = self.cards.start_line(anchor) - row if anchor is not None and len(self.cards) else last_top
            top = max(min(wished, last_top), 0)
            if not self.cards.lay_out(top, top + page):
                break
        self._is_scrolling_itself = True
        self.line_count = self.cards.line_count
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
    def _scroll_one_page(self, pressed: ScrollUp | ScrollDown) -> None:
        """Beside the scrollbar's handle. At once: what is laid out on the way would stop an animation."""
        pressed.stop()
        pressed.prevent_default()
        by = 1 if isinstance(pressed, ScrollDown) else -1
        self.scroll_relative(y=by * max(self.page.height - 2, 1), animate=False)

    def on_resize(self) -> None:
        with self.preserve_position():
            self.cards.resize(self.text_width)

    # ── painting ──────────────────────────────────────────────────────────────────────────────────

    @property
    def text_width(self) -> int:
        return max(self.page.width - LEFT_MARGIN - RIGHT_MARGIN, 10)

    def strip_key(self, line: int) -> Hashable:
        spot, below = self.cards.locate_line(line)
        in_hand = spot.turn == self.cursor.turn
        return self.cards.revision, spot, below, in_hand and (spot == self.cursor, self.has_focus, True)

    def build_strip(self, line: int, width: int) -> Strip:
        spot, below = self.cards.locate_line(line)
        lines = self.cards.lines(spot)
        text = lines[below] if below < len(lines) else Content("")
        under_cursor = spot == self.cursor and not self._is_gap(spot, below)
        style = self.component_style("timeline--cursor") if under_cursor else self.visual_style
        bar = (
            "▌ "
            if under_cursor
            else "│ "
            if spot.turn == self.cursor.turn and not self._is_first_gap(spot, below)
            else "  "
        )
        covered = 0 < self.cards.turn_outline(spot.turn).n <= self.cards.outline.summarized_up_to
        end = ("▕", ".timeline--covered") if covered else (" ", "")
        room = max(width - LEFT_MARGIN - 1 - text.cell_length, 0)
        return self.make_strip(Content.assemble((bar, ".timeline--bar"), text, " " * room, end), width, style)

    def _is_gap(self, spot: ItemPosition, below: int) -> bool:
        block = self.cards.item(spot)
        folded = self.cards.is_folded(spot.turn)
        return not below and not folded and (block is None or block.has_gap)

    def _is_first_gap(self, spot: ItemPosition, below: int) -> bool:
        return not spot.item and self._is_gap(spot, below)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()
