"""Cards on a page that holds still: whatever comes, goes or turns out higher than was thought, what a person looks at
stays where it is on the screen."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.content import Content
from textual.message import Message
from textual.scrollbar import ScrollDown, ScrollUp
from textual.strip import Strip
from textual.timer import Timer

from store.model import Entry, Session, Turn
from store.outline import Outline
from tui.painting.blocks import Block
from tui.widgets.cards import Cards, Spot
from tui.widgets.line_view import LineView

REST = 0.05
"""Seconds that the cursor rests on a block before others are told."""

LEFT, RIGHT = 2, 2
"""Cells beside the text: the bar of the turn in hand, and that of what the summary covers."""

TURNS_AT_ONCE = 24

Pick = Callable[[Sequence[Block]], int | None]


@dataclass(frozen=True, slots=True)
class Aim:
    """Where the cursor is to go as soon as the turn is there."""

    turn: int
    pick: Pick
    row: int | None
    "On which line of the page; None when the page is to end where everything ends."


class CardView(LineView):
    COMPONENT_CLASSES: ClassVar[set[str]] = {"timeline--cursor", "timeline--bar", "timeline--covered"}

    DEFAULT_CSS = """
    CardView {
        .timeline--cursor { background: $surface; }
        .timeline--bar { color: $foreground 30%; }
        .timeline--covered { color: $success 60%; }

        &:focus {
            .timeline--cursor { background: $primary 16%; }
            .timeline--bar { color: $accent; }
        }
    }
    """

    @dataclass
    class Wanted(Message):
        """These turns are in view, or soon will be, and their text is not here."""

        generation: int
        turns: Sequence[int]
        "Their numbers."

    @dataclass
    class Selected(Message):
        """The cursor rests on this entry, and on this one of its parts."""

        entry: Entry | None
        part: int | None

    def __init__(self) -> None:
        super().__init__()
        self.cards = Cards()
        self.cursor = Spot(0, 0)
        self.generation = 0
        self._asked: set[int] = set()
        self._aim: Aim | None = None
        self._settling = False
        self._at_end = False
        self._rest: Timer | None = None
        self._told: tuple[Entry | None, int | None] | None = None

    # ── what is handed down ───────────────────────────────────────────────────────────────────────

    def show(self, session: Session, outline: Outline, *, at: int | None, marks: re.Pattern[str] | None) -> None:
        """Another conversation, open at an entry or at its end."""
        of_time = self.cards.gutter.of_time
        self._told = None
        self.cards = Cards(session, outline, width=self._text_width, of_time=of_time)
        self.cards.mark(marks)
        self._begin_anew()
        index = outline.index_of(at) if at is not None else None
        if index is None or at is None:
            self._at_end = True
            self.aim(max(len(outline.turns) - 1, 0), lambda blocks: len(blocks) - 1, at_end=True)
        else:
            self.aim(index, lambda blocks: self.block_of(index, blocks, at))

    def grow(self, outline: Outline) -> None:
        """The same conversation has gone on: who is at its end stays there, who is not stays where they are."""
        was_last = self.cards.beside(self.cursor, 1) is None
        with self.steady():
            self.cards.grow(outline)
            self._begin_anew()
            self._keep_cursor()
        if was_last and self._at_end:
            self.aim(len(outline.turns) - 1, lambda blocks: len(blocks) - 1, at_end=True)

    def block_of(self, turn: int, blocks: Sequence[Block], seq: int) -> int | None:
        """Which of a turn's blocks shows the entry."""
        return next((n for n, block in enumerate(blocks) if seq in block.seqs), None)

    def _begin_anew(self) -> None:
        self.generation += 1
        self.refresh_bindings()
        self._asked.clear()
        self._aim = None

    def supply(self, wanted: Wanted, turns: Sequence[Turn]) -> None:
        """The answer to Wanted. One that was asked before the conversation changed is dropped."""
        if wanted.generation != self.generation:
            return
        self._asked.difference_update(wanted.turns)
        with self.steady():
            for turn in turns:
                self.cards.supply(turn)
            self._keep_cursor()
        aim = self._aim
        if aim is not None and self.cards.turn(aim.turn) is not None:
            self._hit_aim(aim)
        else:
            self.rest_on(self.cursor)

    def _keep_cursor(self) -> None:
        """On a block that is there, though what was there may be shorter now."""
        turn = max(min(self.cursor.turn, len(self.cards) - 1), 0)
        self.cursor = Spot(turn, min(self.cursor.block, max(len(self.cards.blocks(turn)) - 1, 0)))

    # ── the cursor ────────────────────────────────────────────────────────────────────────────────

    @property
    def block(self) -> Block | None:
        return self.cards.block(self.cursor)

    def aim(self, turn: int, pick: Pick, *, at_end: bool = False) -> None:
        """To a block of a turn, now or as soon as its text has come."""
        if not len(self.cards):
            self.settle(Spot(0, 0), 0)
            return
        aim = Aim(turn, pick, None if at_end else self.page.height // 4)
        if not at_end:
            self._at_end = False
            self.cards.fold(turn, False)
        if self.cards.turn(turn) is not None or self.cards.is_folded(turn):
            self._hit_aim(aim)
        else:
            self.go(Spot(turn, 0), aim.row, at_end=at_end)
            self._aim = aim

    def _hit_aim(self, aim: Aim) -> None:
        folded = self.cards.is_folded(aim.turn)
        block = 0 if folded else max(aim.pick(self.cards.blocks(aim.turn)) or 0, 0)
        self.go(Spot(aim.turn, block), aim.row, at_end=aim.row is None)

    def go(self, spot: Spot, row: int | None = None, *, at_end: bool = False) -> None:
        """The cursor to a block. On that row of the page, if it is not in view; else scrolling no more than needed."""
        self._aim = None
        self.cursor = spot
        self._at_end = at_end
        if at_end:
            self.settle(None, 0)
        else:
            self.settle(spot, self._row_for(spot, row))
        self.rest_on(spot)

    def rest_on(self, spot: Spot) -> None:
        """The cursor to a block that is in view; nothing scrolls."""
        self.cursor = spot
        if self._rest is not None:
            self._rest.stop()
        self._rest = self.set_timer(REST, self._tell)
        self.refresh()

    def _row_for(self, spot: Spot, wished: int | None) -> int:
        page = self.page.height
        self.cards.lines(spot)
        row, height = self.cards.start(spot) - self.scroll_offset.y, self.cards.height(spot)
        marked = self._first_mark(spot)
        if wished is not None:
            seen = row >= 0 and row + min(marked + 1 if marked else height, page) <= page
            return row if seen else wished - (marked if marked >= page - wished else 0)
        if row < 0 or height >= page:
            return 0
        return min(row, page - height)

    def _first_mark(self, spot: Spot) -> int:
        marks = self.cards.marks
        lines = self.cards.lines(spot) if marks else ()
        return next((n for n, line in enumerate(lines) if marks and marks.search(line.plain)), 0)

    def _tell(self) -> None:
        self._rest = None
        block = self.block
        if block is None and len(self.cards) and self.cards.turn(self.cursor.turn) is None:
            return  # it is on its way
        told = (block.entry, block.part) if block else (None, None)
        if told != self._told:
            self._told = told
            self.post_message(self.Selected(*told))

    # ── holding still ─────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def steady(self) -> Iterator[None]:
        """Around whatever changes heights."""
        anchor, row = self._anchor()
        yield
        self.settle(None if self._at_end else anchor, row)

    def _anchor(self) -> tuple[Spot, int]:
        """The cursor's block while it is in view; else the first in view that is laid out; and its row."""
        top, page = self.scroll_offset.y, self.page.height
        row = self.cards.start(self.cursor) - top if len(self.cards) else 0
        if -self._height(self.cursor) < row < page:
            return self.cursor, row
        line, end = top, min(top + page, self.cards.line_count)
        while line < end:
            spot, below = self.cards.at(line)
            if self.cards.is_laid_out(spot):
                return spot, line - below - top
            line += self.cards.height(spot) - below
        if top < self.cards.line_count:
            spot, below = self.cards.at(top)
            return spot, -below
        return self.cursor, 0

    def _height(self, spot: Spot) -> int:
        return self.cards.height(spot) if spot.turn < len(self.cards) else 0

    def settle(self, anchor: Spot | None, row: int) -> None:
        """Lay out what is in view when the anchor stands on that row; without one, the end of everything."""
        page = self.page.height
        for _ in range(4 * page + 4):
            last_top = max(self.cards.line_count - page, 0)
            wished = self.cards.start(anchor) - row if anchor is not None and len(self.cards) else last_top
            top = max(min(wished, last_top), 0)
            if not self.cards.lay_out(top, top + page):
                break
        self._settling = True
        self.line_count = self.cards.line_count
        if top != self.scroll_offset.y:
            self.scroll_to(y=top, animate=False, force=True)
        self._settling = False
        self._want()
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._settling and round(old_value) != round(new_value):
            self._at_end = new_value >= self.max_scroll_y
            self.settle(*self._scrolled())

    def _scrolled(self) -> tuple[Spot | None, int]:
        if self._at_end:
            return None, 0
        return self._anchor()

    @on(ScrollUp)
    @on(ScrollDown)
    def _page(self, pressed: ScrollUp | ScrollDown) -> None:
        """Beside the scrollbar's handle. At once: what is laid out on the way would stop an animation."""
        pressed.stop()
        pressed.prevent_default()
        by = 1 if isinstance(pressed, ScrollDown) else -1
        self.scroll_relative(y=by * max(self.page.height - 2, 1), animate=False)

    def on_resize(self) -> None:
        with self.steady():
            self.cards.resize(self._text_width)

    # ── what is asked for ─────────────────────────────────────────────────────────────────────────

    def _want(self) -> None:
        near = self._near()
        missing = [n for n in self.cards.missing(near) if n not in self._asked]
        if missing:
            wanted = missing[-TURNS_AT_ONCE:] if self._at_end else missing[:TURNS_AT_ONCE]
            self._asked.update(wanted)
            self.post_message(self.Wanted(self.generation, wanted))
        self.cards.forget_far(near)

    def _near(self) -> range:
        """The turns in view, and on the pages before and after, so that scrolling meets text that is there."""
        lines, page = self.cards.line_count, max(self.page.height, 1)
        if not lines:
            return range(min(len(self.cards), 2))
        top = self.scroll_offset.y
        first, _ = self.cards.at(min(max(top - page, 0), lines - 1))
        last, _ = self.cards.at(min(top + 2 * page, lines - 1))
        return range(max(first.turn - 1, 0), min(last.turn + 2, len(self.cards)))

    # ── painting ──────────────────────────────────────────────────────────────────────────────────

    @property
    def _text_width(self) -> int:
        return max(self.page.width - LEFT - RIGHT, 10)

    def strip_key(self, line: int) -> Hashable:
        spot, below = self.cards.at(line)
        in_hand = spot.turn == self.cursor.turn
        return self.cards.edition, spot, below, in_hand and (spot == self.cursor, self.has_focus, True)

    def paint_line(self, line: int, width: int) -> Strip:
        spot, below = self.cards.at(line)
        lines = self.cards.lines(spot)
        text = lines[below] if below < len(lines) else Content("")
        under_cursor = spot == self.cursor and not self._is_gap(spot, below)
        style = self.get_visual_style("timeline--cursor") if under_cursor else self.visual_style
        bar = (
            "▌ "
            if under_cursor
            else "│ "
            if spot.turn == self.cursor.turn and not self._is_first_gap(spot, below)
            else "  "
        )
        covered = 0 < self.cards.outline_of(spot.turn).n <= self.cards.outline.covered
        end = ("▕", ".timeline--covered") if covered else (" ", "")
        room = max(width - LEFT - 1 - text.cell_length, 0)
        return self.strip_of(Content.assemble((bar, ".timeline--bar"), text, " " * room, end), width, style)

    def _is_gap(self, spot: Spot, below: int) -> bool:
        block = self.cards.block(spot)
        folded = self.cards.is_folded(spot.turn)
        return not below and not folded and (block is None or block.gap)

    def _is_first_gap(self, spot: Spot, below: int) -> bool:
        return not spot.block and self._is_gap(spot, below)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()
