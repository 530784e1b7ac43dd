"""Cards with a cursor, which are asked for as they come near and arrive when they arrive."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from textual.timer import Timer

from store.model.entry import Entry, Turn
from store.model.session import Session
from store.model.timeline import Outline
from tui.messages import Told
from tui.render.timeline_items import Block
from tui.widgets.timeline.anchored_view import StillView
from tui.widgets.timeline.card_layout import Cards, Spot
from tui.workers import surely

REST = 0.05
"""Seconds that the cursor rests on a block before others are told."""

TURNS_AT_ONCE = 24

PATIENCE = 1.0
"""Seconds that keys wait for the conversation they are meant for."""

MOMENT = 0.005
"""Seconds between two looks whether it has come."""

Pick = Callable[[Sequence[Block]], int | None]


@dataclass(frozen=True, slots=True)
class Aim:
    """Where the cursor is to go as soon as the turn is there."""

    turn: int
    pick: Pick
    row: int | None
    "On which line of the page; None when the page is to end where everything ends."


class CardView(StillView):
    class Wanted(Told):
        """These turns are in view, or soon will be, and their text is not here."""

        generation: int
        turns: Sequence[int]
        "Their numbers."

    class Selected(Told):
        """The cursor rests on this entry, and on this one of its parts."""

        entry: Entry | None
        part: int | None

    def __init__(self) -> None:
        super().__init__()
        self.generation = 0
        self._asked: set[int] = set()
        self._aim: Aim | None = None
        self._then: Callable[[], None] | None = None
        self._rest: Timer | None = None
        self._told: tuple[Entry | None, int | None] | None = None
        self._is_awaited = False
        "Another conversation than the one that is shown."

    # ── what is handed down ───────────────────────────────────────────────────────────────────────

    def show(self, session: Session, outline: Outline, *, at: int | None, marks: re.Pattern[str] | None) -> None:
        """Another conversation, open at an entry or at its end."""
        of_time = self.cards.gutter.of_time
        self._told = None
        self._is_awaited = False
        self.cards = Cards(session, outline, width=self.text_width, of_time=of_time)
        self.cards.mark(marks)
        # Their keys name an edition of the cards before.
        self.forget_strips()
        self._begin_anew()
        index = outline.index_of(at) if at is not None else None
        if index is None or at is None:
            self.at_end = True
            self.aim(max(len(outline.turns) - 1, 0), lambda blocks: len(blocks) - 1, at_end=True)
        else:
            self.aim(index, lambda blocks: self.block_of(index, blocks, at))

    def hold_keys(self) -> None:
        """Until another conversation is shown: what is pressed meanwhile is meant for that one, and waits in line."""
        if not self._is_awaited:
            self._is_awaited = True
            self.call_later(self._await_conversation)

    async def _await_conversation(self) -> None:
        """Holds up what was sent to this widget, and nothing else."""
        limit = monotonic() + PATIENCE
        while self._is_awaited and monotonic() < limit and self.app.return_code is None:
            await asyncio.sleep(MOMENT)
        self._is_awaited = False

    def grow(self, outline: Outline) -> None:
        """The same conversation has gone on: who is at its end stays there, who is not stays where they are."""
        was_last = self.cards.beside(self.cursor, 1) is None
        aim, then = self._aim, self._then
        with self.steady():
            self.cards.grow(outline)
            self._begin_anew()
            self._keep_cursor()
        if was_last and self.at_end:
            self.aim(len(outline.turns) - 1, lambda blocks: len(blocks) - 1, at_end=True)
        elif aim is not None and aim.turn < len(self.cards):
            self._aim, self._then = aim, then

    def block_of(self, turn: int, blocks: Sequence[Block], seq: int) -> int | None:
        """Which of a turn's blocks shows the entry."""
        return next((n for n, block in enumerate(blocks) if seq in block.seqs), None)

    def _begin_anew(self) -> None:
        self.generation += 1
        self.refresh_bindings()
        self._asked.clear()
        self._aim = self._then = None

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
            self.at_end = False
            self.cards.fold(turn, False)
        if self.cards.turn(turn) is not None or self.cards.is_folded(turn):
            self._hit_aim(aim)
        else:
            self.go(Spot(turn, 0), aim.row, at_end=at_end)
            self._aim = aim

    def when_there(self, act: Callable[[], None]) -> None:
        """Now, or as soon as the block has come that the cursor is on its way to: fingers are quicker than disks."""
        if self._aim is None:
            act()
        else:
            self._then = act

    def _hit_aim(self, aim: Aim) -> None:
        folded = self.cards.is_folded(aim.turn)
        block = 0 if folded else max(aim.pick(self.cards.blocks(aim.turn)) or 0, 0)
        then = self._then
        self.go(Spot(aim.turn, block), aim.row, at_end=aim.row is None)
        if then is not None:
            then()

    def go(self, spot: Spot, row: int | None = None, *, at_end: bool = False) -> None:
        """The cursor to a block. On that row of the page, if it is not in view; else scrolling no more than needed."""
        self._aim = self._then = None
        self.cursor = spot
        self.at_end = at_end
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
        self._rest = surely(self.set_timer(REST, self._tell))
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

    # ── what is asked for ─────────────────────────────────────────────────────────────────────────

    def settled(self) -> None:
        near = self._near()
        missing = [n for n in self.cards.missing(near) if n not in self._asked]
        if missing:
            wanted = missing[-TURNS_AT_ONCE:] if self.at_end else missing[:TURNS_AT_ONCE]
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
