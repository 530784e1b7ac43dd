"""The turns of a conversation and the keys that go through them: from block to block, from prompt to prompt, to calls,
failures and hits; that fold and unfold, copy and inspect."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from store.model.entry import Entry, readable_text
from store.model.timeline import EntryPosition, TurnOutline
from store.text.validate import serialize
from tui.messages import Copy, DataMessage
from tui.render.timeline_items import TimelineItem
from tui.widgets.timeline.anchored_view import LEFT_MARGIN
from tui.widgets.timeline.card_layout import ItemPosition
from tui.widgets.timeline.card_view import CardView

SCROLL_STEP = 3
"""Lines that a key goes on within a block too high for the page."""

FOLD_CLICK_CELLS = range(LEFT_MARGIN + 2)
"""Cells of a block's first line on which a click folds it."""


def _timeline_binding(keys: str, action: str, name: str, told: str, tooltip: str, *, show: bool = False) -> Binding:
    return Binding(keys, action, told, id=f"timeline.{name}", tooltip=tooltip, show=show)


class TimelineView(CardView):
    BINDINGS: ClassVar[list[BindingType]] = [
        _timeline_binding("down,j", "move(1)", "down", "Down", "The next block"),
        _timeline_binding("up,k", "move(-1)", "up", "Up", "The block before"),
        _timeline_binding("pagedown,ctrl+d,space", "page(1)", "page_down", "Page down", "A page on"),
        _timeline_binding("pageup,ctrl+u,b", "page(-1)", "page_up", "Page up", "A page back"),
        _timeline_binding("home,g", "first", "first", "Start", "The beginning"),
        _timeline_binding("end,G", "last", "last", "End", "The end"),
        _timeline_binding("J", "turn(1)", "next_turn", "Next turn", "The next prompt"),
        _timeline_binding("K", "turn(-1)", "previous_turn", "Previous turn", "The prompt before"),
        _timeline_binding("x", "call(1)", "next_call", "Next call", "The next tool call"),
        _timeline_binding("X", "call(-1)", "previous_call", "Previous call", "The tool call before"),
        _timeline_binding("e", "error(1)", "next_error", "Next error", "The next thing that failed", show=True),
        _timeline_binding("E", "error(-1)", "previous_error", "Previous error", "The thing that failed before"),
        _timeline_binding("n", "hit(1)", "next_hit", "Next hit", "The next place with the words"),
        _timeline_binding("N", "hit(-1)", "previous_hit", "Previous hit", "The place with the words before"),
        _timeline_binding("enter", "turn_over", "toggle", "Fold", "Fold or unfold this; show a picture", show=True),
        _timeline_binding("left", "fold", "fold", "Fold", "Fold this, then its turn"),
        _timeline_binding("right", "unfold", "unfold", "Unfold", "Unfold this"),
        _timeline_binding("H", "fold_all", "fold_all", "Fold all", "Every turn on one line, and back"),
        _timeline_binding("w", "whole", "whole", "Show all", "All of a long text"),
        _timeline_binding("v", "gutter", "gutter", "Tokens or time", "What stands at the right: tokens or time"),
        _timeline_binding(
            "i", "inspect", "inspect", "Inspect", "The tool call and its result, side by side", show=True
        ),
        _timeline_binding("y", "copy", "copy", "Copy", "Copy this as it was written", show=True),
        _timeline_binding("Y", "copy_turn", "copy_turn", "Copy turn", "Copy what was said in this turn"),
        _timeline_binding("c", "copy_code", "copy_code", "Copy code", "Copy the code in this"),
    ]

    class InspectRequested(DataMessage):
        call_key: int

    class PictureRequested(DataMessage):
        """At the picture that this part of the entry is."""

        entry: Entry
        part: int

    class HitSelected(DataMessage):
        at: int
        of: int

    def __init__(self) -> None:
        super().__init__()
        self._hits: Sequence[EntryPosition] = ()
        self._hit_index: int | None = None
        self._find_origin: EntryPosition | None = None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing can be done with a conversation that is not there yet."""
        return bool(len(self.cards)) and super().check_action(action, parameters)

    # ── moving ────────────────────────────────────────────────────────────────────────────────────

    def action_move(self, by: int) -> None:
        self._hit_index = None
        top, page = self.scroll_offset.y, self.page.height
        row, height = self.cards.start_line(self.cursor) - top, self.height_of(self.cursor)
        beyond = row + height - page if by > 0 else -row
        if beyond > 0 and -height < row < page and height > page:
            self.scroll_relative(y=by * min(SCROLL_STEP, beyond), animate=False)
            return
        spot = self.cards.neighbour(self.cursor, by)
        if spot is None:
            self.scroll_to(y=self.max_scroll_y if by > 0 else 0, animate=False)
        elif by < 0 and spot.turn != self.cursor.turn and self.cards.turn(spot.turn) is None:
            self.move_to_item(spot.turn, lambda blocks: len(blocks) - 1)
        elif by < 0 and len(self.cards.lines(spot)) > page:
            self.scroll_to_anchor(spot, page - self.cards.height(spot))
            self.set_cursor(spot)
        else:
            self.move_cursor(spot, at_end=by > 0 and self.cards.neighbour(spot, 1) is None)

    def action_page(self, by: int) -> None:
        self._hit_index = None
        before, page = self.scroll_offset.y, self.page.height
        row = max(min(self.cards.start_line(self.cursor) - before, page - 1), 0)
        self.scroll_relative(y=by * max(page - 2, 1), animate=False)
        top = self.scroll_offset.y
        if top == before:
            self.action_last() if by > 0 else self.action_first()
        else:
            self.set_cursor(self.cards.locate_line(min(top + row, self.cards.line_count - 1))[0])

    def action_first(self) -> None:
        self._hit_index = None
        if self.cards.line_count:
            self.move_cursor(self.cards.locate_line(0)[0], 0)

    def action_last(self) -> None:
        self._hit_index = None
        self.move_to_item(len(self.cards) - 1, lambda blocks: len(blocks) - 1, at_end=True)

    def action_turn(self, by: int) -> None:
        self._hit_index = None
        index = self.cursor.turn + by
        if by < 0 and self.cursor.item:
            index = self.cursor.turn
        while 0 <= index < len(self.cards) and not self.cards.height(ItemPosition(index, 0)):
            index += by
        if 0 <= index < len(self.cards):
            self.move_cursor(ItemPosition(index, 0), self.page.height // 4)

    def action_call(self, by: int) -> None:
        self._move_to_next(by, lambda turn: turn.calls > 0, lambda block: block.call is not None, "tool call")

    def action_error(self, by: int) -> None:
        self._move_to_next(by, lambda turn: turn.errors > 0, lambda block: block.has_failed, "failure")

    def _move_to_next(
        self, by: int, has: Callable[[TurnOutline], bool], is_it: Callable[[TimelineItem], bool], what: str
    ) -> None:
        """To the next such block: in this turn if it is here, else in the next turn whose outline tells of one.

        Past the last it begins again: a conversation opens at its end, and most that one looks for is before.
        """
        self._hit_index = None
        index, at = self.cursor
        folded = self.cards.is_folded(index)
        here = [n for n, block in enumerate(self.cards.items(index)) if is_it(block) and (folded or (n - at) * by > 0)]
        if here and not (folded and by < 0):
            self.move_to_item(index, lambda _: here[0 if by > 0 else -1])
            return
        turns = len(self.cards)
        others = [(index + by * step) % turns for step in range(1, turns + 1)]
        found = next((n for n in others if has(self.cards.turn_outline(n))), None)
        if found is None:
            self.notify(f"No {what} in this conversation.", timeout=2, markup=False)
        else:
            self.move_to_item(found, lambda blocks: _pick_item(blocks, is_it, by))

    # ── hits ──────────────────────────────────────────────────────────────────────────────────────

    def set_highlight(self, marks: re.Pattern[str] | None) -> None:
        with self.preserve_position():
            self.cards.set_highlight(marks)

    def set_hits(self, hits: Sequence[EntryPosition], *, move_to_hit: bool) -> None:
        """Where the words stand; and to the first of them from where the cursor is."""
        self._hits, self._hit_index = hits, None
        if hits and move_to_hit:
            self._go_to_hit(bisect_left(hits, self._find_origin or self._cursor_entry_position()) % len(hits))
        else:
            self.post_message(self.HitSelected(0, len(hits)))

    def begin_find(self) -> None:
        """As one goes on typing, what is found is counted from where one was when one began."""
        self._find_origin = self._cursor_entry_position()

    def end_find(self) -> None:
        self._find_origin = None

    @property
    def has_hits(self) -> bool:
        return bool(self._hits)

    def action_hit(self, by: int) -> None:
        if not self._hits:
            self.notify("Nothing to go to: / finds words in here.", timeout=2, markup=False)
        elif self._hit_index is not None:
            self._go_to_hit((self._hit_index + by) % len(self._hits))
        else:
            after = bisect_right(self._hits, self._cursor_entry_position())
            before = bisect_left(self._hits, self._cursor_entry_position()) - 1
            self._go_to_hit((after if by > 0 else before) % len(self._hits))

    def _cursor_entry_position(self) -> EntryPosition:
        block = self.current_item
        turn = self.cards.turn_outline(self.cursor.turn) if len(self.cards) else None
        return EntryPosition(turn.n if turn else 0, block.entry.seq if block else turn.first_seq if turn else 0)

    def _go_to_hit(self, number: int) -> None:
        seq = self._hits[number].seq
        index = self.cards.outline.index_of_entry(seq)
        if index is not None:
            self.move_to_item(index, lambda blocks: self.find_item(index, blocks, seq))
        self._hit_index = number
        self.post_message(self.HitSelected(number + 1, len(self._hits)))

    def find_item(self, turn: int, blocks: Sequence[TimelineItem], seq: int) -> int | None:
        """The block of the entry that has the words, if some are looked for; unfolded if they are inside."""
        marks = self.cards.highlight
        n = next(
            (n for n, block in enumerate(blocks) if seq in block.entry_seqs and marks and _matches(block, marks)), None
        )
        if n is None:
            return super().find_item(turn, blocks, seq)
        spot = ItemPosition(turn, n)
        if not self.cards.is_open(spot) and not any(
            marks and marks.search(line.plain) for line in self.cards.lines(spot)
        ):
            self.cards.set_open(spot, True)
        return n

    # ── folding ───────────────────────────────────────────────────────────────────────────────────

    def action_turn_over(self) -> None:
        self.run_when_loaded(self._toggle_fold)

    def _toggle_fold(self) -> None:
        block = self.current_item
        if block is not None and block.kind == "attachment" and block.part_index is not None:
            self.post_message(self.PictureRequested(block.entry, block.part_index))
            return
        self.action_fold() if self._is_unfolded() else self.action_unfold()

    def _is_unfolded(self) -> bool:
        block = self.current_item
        if self.cards.is_folded(self.cursor.turn):
            return False
        return self.cards.is_open(self.cursor) if block is not None and block.is_foldable else True

    def action_fold(self) -> None:
        block = self.current_item
        with self.preserve_position():
            if block is not None and block.is_foldable and self.cards.is_open(self.cursor):
                self.cards.set_open(self.cursor, False)
                return
            self.cursor = ItemPosition(self.cursor.turn, 0)
            self.cards.fold(self.cursor.turn, True)
        self.move_cursor(self.cursor)

    def action_unfold(self) -> None:
        block = self.current_item
        with self.preserve_position():
            if self.cards.is_folded(self.cursor.turn):
                self.cards.fold(self.cursor.turn, False)
            elif block is not None and block.is_foldable:
                self.cards.set_open(self.cursor, True)
        self.move_cursor(self.cursor)

    def action_fold_all(self) -> None:
        with self.preserve_position():
            self.cursor = ItemPosition(self.cursor.turn, 0)
            self.cards.fold_all(not self.cards.all_folded)
        self.move_cursor(self.cursor)

    def action_whole(self) -> None:
        with self.preserve_position():
            self.cards.toggle_full(self.cursor)

    def action_gutter(self) -> None:
        with self.preserve_position():
            self.cards.show_time(not self.cards.gutter.shows_time)

    # ── the mouse ─────────────────────────────────────────────────────────────────────────────────

    def on_click(self, event: events.Click) -> None:
        line = event.y + self.scroll_offset.y
        if line >= self.cards.line_count:
            return
        spot, below = self.cards.locate_line(line)
        self._hit_index = None
        self.move_cursor(spot)
        block = self.current_item
        is_head = below == (block is not None and block.has_gap) and block is not None and block.is_foldable
        if event.chain == 2 or (event.x in FOLD_CLICK_CELLS and (is_head or self.cards.is_folded(spot.turn))):
            self.action_turn_over()

    # ── copying ───────────────────────────────────────────────────────────────────────────────────

    def action_copy(self) -> None:
        self.run_when_loaded(self._copy)

    def _copy(self) -> None:
        if (block := self.current_item) is not None:
            self.post_message(Copy(_copied_text(block), _COPY_LABELS.get(block.kind, "this entry")))

    def action_copy_turn(self) -> None:
        if (turn := self.cards.turn(self.cursor.turn)) is not None:
            said = [entry.text for entry in turn.entries if entry.kind == "message" and entry.text.strip()]
            self.post_message(Copy("\n\n".join(said), "the turn"))

    def action_copy_code(self) -> None:
        from tui.render.markdown import find_fenced_code

        found = find_fenced_code(self.current_item.text) if self.current_item is not None else []
        if found:
            self.post_message(Copy("\n".join(found), "the code"))
        else:
            self.notify("There is no code block in this.", timeout=2, markup=False)

    def action_inspect(self) -> None:
        self.run_when_loaded(self._inspect)

    def _inspect(self) -> None:
        call = self.current_item.call if self.current_item is not None else None
        if call is not None and call.key:
            self.post_message(self.InspectRequested(call.key))
        else:
            self.notify("This is no tool call; x goes to the next.", timeout=2, markup=False)


_COPY_LABELS = {
    "prompt": "the prompt",
    "thinking": "the thinking",
    "call": "the call and its result",
    "text": "the answer",
}


def _copied_text(block: TimelineItem) -> str:
    if block.kind != "call" or block.call is None:
        return block.text
    result = readable_text(block.call.result)
    return "\n\n".join(filter(None, [serialize(block.call.arguments).decode(), result]))


def _pick_item(blocks: Sequence[TimelineItem], is_it: Callable[[TimelineItem], bool], by: int) -> int | None:
    found = [n for n, block in enumerate(blocks) if is_it(block)]
    return found[0 if by > 0 else -1] if found else None


def _matches(block: TimelineItem, marks: re.Pattern[str]) -> bool:
    call = block.call
    texts = [block.text, block.label, *((readable_text(call.arguments), readable_text(call.result)) if call else ())]
    return any(map(marks.search, texts))
