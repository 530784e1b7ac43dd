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
from store.model.timeline import TimelineOutline
from tui.messages import DataMessage
from tui.render.timeline_items import TimelineItem
from tui.widgets.timeline.anchored_view import AnchoredView
from tui.widgets.timeline.card_layout import CardLayout, ItemPosition
from tui.workers import reliable_timer

SELECT_DELAY = 0.05
"""Seconds that the cursor rests on a block before others are told."""

TURNS_PER_REQUEST = 24

KEY_WAIT_TIMEOUT = 1.0
"""Seconds that keys wait for the conversation they are meant for."""

POLL_INTERVAL = 0.005
"""Seconds between two looks whether it has come."""

ItemPicker = Callable[[Sequence[TimelineItem]], int | None]


@dataclass(frozen=True, slots=True)
class PendingMove:
    """Where the cursor is to go as soon as the turn is there."""

    turn: int
    pick: ItemPicker
    row: int | None
    "On which line of the page; None when the page is to end where everything ends."


class CardView(AnchoredView):
    class TurnsRequested(DataMessage):
        """These turns are in view, or soon will be, and their text is not here."""

        generation: int
        turns: Sequence[int]
        "Their numbers."

    class Selected(DataMessage):
        """The cursor rests on this entry, and on this one of its parts."""

        entry: Entry | None
        part: int | None

    def __init__(self) -> None:
        super().__init__()
        self.generation = 0
        self._requested_turns: set[int] = set()
        self._pending_move: PendingMove | None = None
        self._pending_action: Callable[[], None] | None = None
        self._select_timer: Timer | None = None
        self._last_selected: tuple[Entry | None, int | None] | None = None
        self._awaits_conversation = False
        "Another conversation than the one that is shown."

    # ── what is handed down ───────────────────────────────────────────────────────────────────────

    def show(
        self, session: Session, outline: TimelineOutline, *, at: int | None, highlight: re.Pattern[str] | None
    ) -> None:
        """Another conversation, open at an entry or at its end."""
        of_time = self.cards.gutter.shows_time
        self._last_selected = None
        self._awaits_conversation = False
        self.cards = CardLayout(session, outline, width=self.text_width, show_time=of_time)
        self.cards.set_highlight(highlight)
        # Their keys name an edition of the cards before.
        self.invalidate_strips()
        self._reset_requests()
        index = outline.index_of_entry(at) if at is not None else None
        if index is None or at is None:
            self.at_end = True
            self.move_to_item(max(len(outline.turns) - 1, 0), lambda blocks: len(blocks) - 1, at_end=True)
        else:
            self.move_to_item(index, lambda blocks: self.find_item(index, blocks, at))

    def defer_keys(self) -> None:
        """Until another conversation is shown: what is pressed meanwhile is meant for that one, and waits in line."""
        if not self._awaits_conversation:
            self._awaits_conversation = True
            self.call_later(self._await_conversation)

    async def _await_conversation(self) -> None:
        """Holds up what was sent to this widget, and nothing else."""
        limit = monotonic() + KEY_WAIT_TIMEOUT
        while self._awaits_conversation and monotonic() < limit and self.app.return_code is None:
            await asyncio.sleep(POLL_INTERVAL)
        self._awaits_conversation = False

    def update_outline(self, outline: TimelineOutline) -> None:
        """The same conversation has gone on: who is at its end stays there, who is not stays where they are."""
        was_last = self.cards.neighbour(self.cursor, 1) is None
        aim, then = self._pending_move, self._pending_action
        with self.preserve_position():
            self.cards.update_outline(outline)
            self._reset_requests()
            self._clamp_cursor()
        if was_last and self.at_end:
            self.move_to_item(len(outline.turns) - 1, lambda blocks: len(blocks) - 1, at_end=True)
        elif aim is not None and aim.turn < len(self.cards):
            self._pending_move, self._pending_action = aim, then

    def find_item(self, turn: int, blocks: Sequence[TimelineItem], seq: int) -> int | None:
        """Which of a turn's blocks shows the entry."""
        return next((n for n, block in enumerate(blocks) if seq in block.entry_seqs), None)

    def _reset_requests(self) -> None:
        self.generation += 1
        self.refresh_bindings()
        self._requested_turns.clear()
        self._pending_move = self._pending_action = None

    def receive_turns(self, wanted: TurnsRequested, turns: Sequence[Turn]) -> None:
        """The answer to Wanted. One that was asked before the conversation changed is dropped."""
        if wanted.generation != self.generation:
            return
        self._requested_turns.difference_update(wanted.turns)
        with self.preserve_position():
            for turn in turns:
                self.cards.add_turn(turn)
            self._clamp_cursor()
        aim = self._pending_move
        if aim is not None and self.cards.turn(aim.turn) is not None:
            self._complete_move(aim)
        else:
            self.set_cursor(self.cursor)

    def _clamp_cursor(self) -> None:
        """On a block that is there, though what was there may be shorter now."""
        turn = max(min(self.cursor.turn, len(self.cards) - 1), 0)
        self.cursor = ItemPosition(turn, min(self.cursor.item, max(len(self.cards.items(turn)) - 1, 0)))

    # ── the cursor ────────────────────────────────────────────────────────────────────────────────

    @property
    def current_item(self) -> TimelineItem | None:
        return self.cards.item(self.cursor)

    def move_to_item(self, turn: int, pick: ItemPicker, *, at_end: bool = False) -> None:
        """To a block of a turn, now or as soon as its text has come."""
        if not len(self.cards):
            self.scroll_to_anchor(ItemPosition(0, 0), 0)
            return
        aim = PendingMove(turn, pick, None if at_end else self.page.height // 4)
        if not at_end:
            self.at_end = False
            self.cards.fold(turn, False)
        if self.cards.turn(turn) is not None or self.cards.is_folded(turn):
            self._complete_move(aim)
        else:
            self.move_cursor(ItemPosition(turn, 0), aim.row, at_end=at_end)
            self._pending_move = aim

    def run_when_loaded(self, act: Callable[[], None]) -> None:
        """Now, or as soon as the block has come that the cursor is on its way to: fingers are quicker than disks."""
        if self._pending_move is None:
            act()
        else:
            self._pending_action = act

    def _complete_move(self, aim: PendingMove) -> None:
        folded = self.cards.is_folded(aim.turn)
        block = 0 if folded else max(aim.pick(self.cards.items(aim.turn)) or 0, 0)
        then = self._pending_action
        self.move_cursor(ItemPosition(aim.turn, block), aim.row, at_end=aim.row is None)
        if then is not None:
            then()

    def move_cursor(self, spot: ItemPosition, row: int | None = None, *, at_end: bool = False) -> None:
        """The cursor to a block. On that row of the page, if it is not in view; else scrolling no more than needed."""
        self._pending_move = self._pending_action = None
        self.cursor = spot
        self.at_end = at_end
        if at_end:
            self.scroll_to_anchor(None, 0)
        else:
            self.scroll_to_anchor(spot, self._choose_row(spot, row))
        self.set_cursor(spot)

    def set_cursor(self, spot: ItemPosition) -> None:
        """The cursor to a block that is in view; nothing scrolls."""
        self.cursor = spot
        if self._select_timer is not None:
            self._select_timer.stop()
        self._select_timer = reliable_timer(self.set_timer(SELECT_DELAY, self._post_selected))
        self.refresh()

    def _choose_row(self, spot: ItemPosition, wished: int | None) -> int:
        page = self.page.height
        self.cards.lines(spot)
        row, height = self.cards.start_line(spot) - self.scroll_offset.y, self.cards.height(spot)
        marked = self._first_highlighted_line(spot)
        if wished is not None:
            seen = row >= 0 and row + min(marked + 1 if marked else height, page) <= page
            return row if seen else wished - (marked if marked >= page - wished else 0)
        if row < 0 or height >= page:
            return 0
        return min(row, page - height)

    def _first_highlighted_line(self, spot: ItemPosition) -> int:
        marks = self.cards.highlight
        lines = self.cards.lines(spot) if marks else ()
        return next((n for n, line in enumerate(lines) if marks and marks.search(line.plain)), 0)

    def _post_selected(self) -> None:
        self._select_timer = None
        block = self.current_item
        if block is None and len(self.cards) and self.cards.turn(self.cursor.turn) is None:
            return  # it is on its way
        told = (block.entry, block.part_index) if block else (None, None)
        if told != self._last_selected:
            self._last_selected = told
            self.post_message(self.Selected(*told))

    # ── what is asked for ─────────────────────────────────────────────────────────────────────────

    def visible_lines_changed(self) -> None:
        near = self._turns_near_view()
        missing = [n for n in self.cards.missing_turns(near) if n not in self._requested_turns]
        if missing:
            wanted = missing[-TURNS_PER_REQUEST:] if self.at_end else missing[:TURNS_PER_REQUEST]
            self._requested_turns.update(wanted)
            self.post_message(self.TurnsRequested(self.generation, wanted))
        self.cards.evict_far(near)

    def _turns_near_view(self) -> range:
        """The turns in view, and on the pages before and after, so that scrolling meets text that is there."""
        lines, page = self.cards.line_count, max(self.page.height, 1)
        if not lines:
            return range(min(len(self.cards), 2))
        top = self.scroll_offset.y
        first, _ = self.cards.locate_line(min(max(top - page, 0), lines - 1))
        last, _ = self.cards.locate_line(min(top + 2 * page, lines - 1))
        return range(max(first.turn - 1, 0), min(last.turn + 2, len(self.cards)))
