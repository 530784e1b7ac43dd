"""This module shows cards with a cursor. It requests turns when they come near the view."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from textual.content import Content
from textual.timer import Timer

from store.model.entry import Entry, Turn
from store.model.session import Session
from store.model.timeline import TimelineOutline
from tui.messages import DataMessage
from tui.render.timeline_card import ItemRendering
from tui.render.timeline_items import TimelineItem
from tui.textual_compat import reliable_timer
from tui.widgets.timeline.anchored_view import AnchoredView
from tui.widgets.timeline.card_layout import CardLayout, ItemPosition, TimelineOptions

SELECT_DELAY = 0.05
"""Seconds that the cursor must rest on an item before `Selected` is posted."""

TURNS_PER_REQUEST = 24

KEY_WAIT_TIMEOUT = 10.0
"""Seconds that keys wait for the session that they are meant for. A slow disk may need some of them; the limit matters
only if the session never arrives."""

POLL_INTERVAL = 0.005
"""Seconds between two checks whether the session has arrived."""

ItemPicker = Callable[[Sequence[TimelineItem]], int | None]


@dataclass(frozen=True, slots=True)
class PendingMove:
    """Describes where the cursor moves as soon as the turn is loaded."""

    turn: int
    pick: ItemPicker
    row: int | None
    "The row on the screen, or None to scroll to the end."


class CardView(AnchoredView):
    class TurnsRequested(DataMessage):
        """Asks for turns that are visible or soon will be."""

        generation: int
        turns: Sequence[int]
        "The numbers of the turns."

    class RenderingRequested(DataMessage):
        """Asks for the lines of an item that takes too long to be rendered here, and is shown without styles."""

        generation: int
        position: ItemPosition
        rendering: ItemRendering

    class Selected(DataMessage):
        """Says that the cursor rests on this entry and part."""

        entry: Entry | None
        part: int | None

    def __init__(self) -> None:
        super().__init__()
        self.generation = 0
        self.options = TimelineOptions()
        self.hyperlinks = False
        "Lets the terminal open web addresses."
        self._requested_turns: set[int] = set()
        self._pending_move: PendingMove | None = None
        self._pending_action: Callable[[], None] | None = None
        self._select_timer: Timer | None = None
        self._last_selected: tuple[Entry | None, int | None] | None = None
        self._awaits_conversation = False
        "True while another session is being opened."

    # ── content ───────────────────────────────────────────────────────────────────────────────────

    def show(
        self, session: Session, outline: TimelineOutline, *, entry_seq: int | None, highlight: re.Pattern[str] | None
    ) -> None:
        """Show a session, opened at an entry or at its end."""
        self._last_selected = None
        self._awaits_conversation = self.is_past_end = False
        self.cards = CardLayout(
            session, outline, width=self.text_width, options=self.options, hyperlinks=self.hyperlinks
        )
        self.cards.set_highlight(highlight)
        # The cached strips belong to the previous cards.
        self.invalidate_strips()
        self._reset_requests()
        index = outline.index_of_entry(entry_seq) if entry_seq is not None else None
        if index is None or entry_seq is None:
            self.at_end = True
            self.move_to_item(max(len(outline.turns) - 1, 0), _pick_last, at_end=True)
        else:
            self.move_to_item(index, lambda items: self.find_item(index, items, entry_seq))

    def defer_keys(self) -> None:
        """Hold back keys until another session is shown, because they are meant for that one."""
        if not self._awaits_conversation:
            self._awaits_conversation = True
            self.call_later(self._await_conversation)

    def release_keys(self) -> None:
        """Hand out the keys that were held back, because no other session is shown."""
        self._awaits_conversation = False

    async def _await_conversation(self) -> None:
        """Wait until the session is shown. This delays the messages of this widget only."""
        deadline = monotonic() + KEY_WAIT_TIMEOUT
        while self._awaits_conversation and monotonic() < deadline and self.app.return_code is None:
            await asyncio.sleep(POLL_INTERVAL)
        self._awaits_conversation = False

    def update_outline(self, outline: TimelineOutline) -> None:
        """Update the outline of a session that has grown. A cursor at the end follows it, any other stays."""
        was_last = not self.cards.has_news_after(self.cursor)
        move, action = self._pending_move, self._pending_action
        selected = self.current_item
        with self.preserve_position():
            self.cards.update_outline(outline)
            self._reset_requests()
            self._clamp_cursor()
            self._follow_item(selected)
        if was_last and self.at_end and action is None:
            self.move_to_item(len(outline.turns) - 1, _pick_last, at_end=True)
        elif move is not None and move.turn < len(self.cards):
            self._pending_move, self._pending_action = move, action

    def find_item(self, turn: int, items: Sequence[TimelineItem], seq: int) -> int | None:
        """Return the index of the item that shows an entry. An event that is hidden becomes visible."""
        self.cards.reveal_event(turn, seq)
        return next((n for n, item in enumerate(self.cards.items(turn)) if seq in item.entry_seqs), None)

    def _reset_requests(self) -> None:
        self.generation += 1
        self.refresh_bindings()
        self._requested_turns.clear()
        self._pending_move = self._pending_action = None

    def receive_turns(self, request: TurnsRequested, turns: Sequence[Turn]) -> None:
        """Take the answer to `TurnsRequested`. An answer from before the session changed is dropped."""
        if request.generation != self.generation:
            return
        self._requested_turns.difference_update(request.turns)
        with self.preserve_position():
            for turn in turns:
                self.cards.add_turn(turn)
            self._clamp_cursor()
        move = self._pending_move
        if move is not None and self.cards.turn(move.turn) is not None:
            self._complete_move(move)
        else:
            self.set_cursor(self.cursor)

    def _clamp_cursor(self) -> None:
        """Move the cursor to an existing item, because a turn may have become shorter."""
        turn = max(min(self.cursor.turn, len(self.cards) - 1), 0)
        self.cursor = ItemPosition(turn, min(self.cursor.item, max(len(self.cards.items(turn)) - 1, 0)))

    def _follow_item(self, selected: TimelineItem | None) -> None:
        """Keep the cursor on its item after notes were added or deleted above it."""
        for n, item in enumerate(self.cards.items(self.cursor.turn)):
            if selected is not None and item.identity == selected.identity:
                self.cursor = ItemPosition(self.cursor.turn, n)

    # ── the cursor ────────────────────────────────────────────────────────────────────────────────

    @property
    def current_item(self) -> TimelineItem | None:
        return self.cards.item(self.cursor)

    def move_to_item(self, turn: int, pick: ItemPicker, *, at_end: bool = False) -> None:
        """Move the cursor to an item of a turn, now or as soon as the turn is loaded."""
        if not len(self.cards):
            self.scroll_to_anchor(ItemPosition(0, 0), 0)
            return
        move = PendingMove(turn, pick, None if at_end else self.page.height // 4)
        if not at_end:
            self.at_end = False
            self.cards.fold(turn, False)
        if self.cards.turn(turn) is not None or self.cards.is_folded(turn):
            self._complete_move(move)
        else:
            self.move_cursor(ItemPosition(turn, 0), move.row, at_end=at_end)
            self._pending_move = move

    def run_when_loaded(self, action: Callable[[], None]) -> None:
        """Run an action now, or as soon as the item that the cursor moves to is loaded."""
        if self._pending_move is None:
            action()
        else:
            self._pending_action = action

    def _complete_move(self, move: PendingMove) -> None:
        folded = self.cards.is_folded(move.turn)
        item = 0 if folded else max(move.pick(self.cards.items(move.turn)) or 0, 0)
        action = self._pending_action
        self.move_cursor(ItemPosition(move.turn, item), move.row, at_end=move.row is None)
        if action is not None:
            action()

    def move_cursor(
        self, position: ItemPosition, row: int | None = None, *, at_end: bool = False, is_fixed: bool = False
    ) -> None:
        """Move the cursor to an item. Scroll as little as needed, or put an invisible item on the given row.

        With `is_fixed`, a visible item is put on that row too.
        """
        self._pending_move = self._pending_action = None
        self.cursor = position
        self.at_end = at_end
        if at_end:
            self.scroll_to_anchor(None, 0)
        else:
            row = row if is_fixed and row is not None else self._choose_row(position, row)
            self.scroll_to_anchor(position, row, is_fixed=is_fixed)
        self.set_cursor(position)

    def set_cursor(self, position: ItemPosition) -> None:
        """Move the cursor to a visible item without scrolling."""
        self.cursor = position
        if self._select_timer is not None:
            self._select_timer.stop()
        self._select_timer = reliable_timer(self.set_timer(SELECT_DELAY, self._post_selected))
        self.refresh()

    def _choose_row(self, position: ItemPosition, desired: int | None) -> int:
        page = self.page.height
        self.cards.lines(position)
        row, height = self.cards.start_line(position) - self.scroll_offset.y, self.cards.height(position)
        if desired is not None:
            if height <= page:
                return row if 0 <= row <= page - height else min(desired, page - height)
            hit_line = self._first_highlighted_line(position)
            is_visible = row >= 0 and row + (hit_line + 1 if hit_line else page) <= page
            return row if is_visible else desired - (hit_line if hit_line >= page - desired else 0)
        if row < 0 or height >= page:
            return 0
        return min(row, page - height)

    def _first_highlighted_line(self, position: ItemPosition) -> int:
        highlight = self.cards.highlight
        lines = self.cards.lines(position) if highlight else ()
        return next((n for n, line in enumerate(lines) if highlight and highlight.search(line.plain)), 0)

    def _post_selected(self) -> None:
        self._select_timer = None
        item = self.current_item
        if item is None and len(self.cards) and self.cards.turn(self.cursor.turn) is None:
            return  # the turn is still loading
        selected = (item.entry, item.part_index) if item else (None, None)
        if selected != self._last_selected:
            self._last_selected = selected
            self.refresh_bindings()
            self.post_message(self.Selected(*selected))

    # ── requests ──────────────────────────────────────────────────────────────────────────────────

    def visible_lines_changed(self) -> None:
        near = self._turns_near_view()
        missing = [n for n in self.cards.missing_turns(near) if n not in self._requested_turns]
        if missing:
            requested = missing[-TURNS_PER_REQUEST:] if self.at_end else missing[:TURNS_PER_REQUEST]
            self._requested_turns.update(requested)
            self._request(self.TurnsRequested(self.generation, requested))
        self.cards.evict_far(near)
        for position, rendering in self.cards.take_slow_items():
            self._request(self.RenderingRequested(self.generation, position, rendering))

    def _request(self, message: DataMessage) -> None:
        """Post a message to whoever reads the store. By default, its sender is the widget whose handler runs now. If
        that is the pane around this view, the message would not go further than to the pane."""
        self.post_message(message.set_sender(self))

    def receive_lines(self, request: RenderingRequested, lines: list[Content]) -> None:
        """Take the answer to `RenderingRequested`."""
        if request.generation == self.generation:
            with self.preserve_position():
                self.cards.receive_lines(request.position, request.rendering, lines)

    def _turns_near_view(self) -> range:
        """Return the visible turns and those of the pages before and after, so that scrolling finds them loaded."""
        lines, page = self.cards.line_count, max(self.page.height, 1)
        if not lines:
            return range(min(len(self.cards), 2))
        top = self.scroll_offset.y
        first, _ = self.cards.locate_line(min(max(top - page, 0), lines - 1))
        last, _ = self.cards.locate_line(min(top + 2 * page, lines - 1))
        return range(max(first.turn - 1, 0), min(last.turn + 2, len(self.cards)))


def _pick_last(items: Sequence[TimelineItem]) -> int | None:
    """Pick the last item that is more than bookkeeping, if there is one."""
    indexes = [n for n, item in enumerate(items) if not item.is_bookkeeping]
    return indexes[-1] if indexes else len(items) - 1
