"""The turns of a conversation and the keys that go through them: from block to block, from prompt to prompt, to calls,
failures and hits; that fold and unfold, copy and inspect."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from store.model.entry import Entry, readable
from store.model.timeline import Place, TurnOutline
from store.text.validate import spell
from tui.messages import Copy, Told
from tui.render.timeline_items import Block
from tui.widgets.timeline.anchored_view import LEFT
from tui.widgets.timeline.card_layout import Spot
from tui.widgets.timeline.card_view import CardView

STEP = 3
"""Lines that a key goes on within a block too high for the page."""

ARROW = range(LEFT + 2)
"""Cells of a block's first line on which a click folds it."""


def _key(keys: str, action: str, name: str, told: str, tooltip: str, *, show: bool = False) -> Binding:
    return Binding(keys, action, told, id=f"timeline.{name}", tooltip=tooltip, show=show)


class Timeline(CardView):
    BINDINGS: ClassVar[list[BindingType]] = [
        _key("down,j", "move(1)", "down", "Down", "The next block"),
        _key("up,k", "move(-1)", "up", "Up", "The block before"),
        _key("pagedown,ctrl+d,space", "page(1)", "page_down", "Page down", "A page on"),
        _key("pageup,ctrl+u,b", "page(-1)", "page_up", "Page up", "A page back"),
        _key("home,g", "first", "first", "Start", "The beginning"),
        _key("end,G", "last", "last", "End", "The end"),
        _key("J", "turn(1)", "next_turn", "Next turn", "The next prompt"),
        _key("K", "turn(-1)", "previous_turn", "Previous turn", "The prompt before"),
        _key("x", "call(1)", "next_call", "Next call", "The next tool call"),
        _key("X", "call(-1)", "previous_call", "Previous call", "The tool call before"),
        _key("e", "error(1)", "next_error", "Next error", "The next thing that failed", show=True),
        _key("E", "error(-1)", "previous_error", "Previous error", "The thing that failed before"),
        _key("n", "hit(1)", "next_hit", "Next hit", "The next place with the words"),
        _key("N", "hit(-1)", "previous_hit", "Previous hit", "The place with the words before"),
        _key("enter", "turn_over", "toggle", "Fold", "Fold or unfold this; show a picture", show=True),
        _key("left", "fold", "fold", "Fold", "Fold this, then its turn"),
        _key("right", "unfold", "unfold", "Unfold", "Unfold this"),
        _key("H", "fold_all", "fold_all", "Fold all", "Every turn on one line, and back"),
        _key("w", "whole", "whole", "Show all", "All of a long text"),
        _key("v", "gutter", "gutter", "Tokens or time", "What stands at the right: tokens or time"),
        _key("i", "inspect", "inspect", "Inspect", "The tool call and its result, side by side", show=True),
        _key("y", "copy", "copy", "Copy", "Copy this as it was written", show=True),
        _key("Y", "copy_turn", "copy_turn", "Copy turn", "Copy what was said in this turn"),
        _key("c", "copy_code", "copy_code", "Copy code", "Copy the code in this"),
    ]

    class Inspect(Told):
        call_key: int

    class Look(Told):
        """At the picture that this part of the entry is."""

        entry: Entry
        part: int

    class AtHit(Told):
        at: int
        of: int

    def __init__(self) -> None:
        super().__init__()
        self._hits: Sequence[Place] = ()
        self._hit: int | None = None
        self._origin: Place | None = None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing can be done with a conversation that is not there yet."""
        return bool(len(self.cards)) and super().check_action(action, parameters)

    # ── moving ────────────────────────────────────────────────────────────────────────────────────

    def action_move(self, by: int) -> None:
        self._hit = None
        top, page = self.scroll_offset.y, self.page.height
        row, height = self.cards.start(self.cursor) - top, self.height_of(self.cursor)
        beyond = row + height - page if by > 0 else -row
        if beyond > 0 and -height < row < page and height > page:
            self.scroll_relative(y=by * min(STEP, beyond), animate=False)
            return
        spot = self.cards.beside(self.cursor, by)
        if spot is None:
            self.scroll_to(y=self.max_scroll_y if by > 0 else 0, animate=False)
        elif by < 0 and spot.turn != self.cursor.turn and self.cards.turn(spot.turn) is None:
            self.aim(spot.turn, lambda blocks: len(blocks) - 1)
        elif by < 0 and len(self.cards.lines(spot)) > page:
            self.settle(spot, page - self.cards.height(spot))
            self.rest_on(spot)
        else:
            self.go(spot, at_end=by > 0 and self.cards.beside(spot, 1) is None)

    def action_page(self, by: int) -> None:
        self._hit = None
        before, page = self.scroll_offset.y, self.page.height
        row = max(min(self.cards.start(self.cursor) - before, page - 1), 0)
        self.scroll_relative(y=by * max(page - 2, 1), animate=False)
        top = self.scroll_offset.y
        if top == before:
            self.action_last() if by > 0 else self.action_first()
        else:
            self.rest_on(self.cards.at(min(top + row, self.cards.line_count - 1))[0])

    def action_first(self) -> None:
        self._hit = None
        if self.cards.line_count:
            self.go(self.cards.at(0)[0], 0)

    def action_last(self) -> None:
        self._hit = None
        self.aim(len(self.cards) - 1, lambda blocks: len(blocks) - 1, at_end=True)

    def action_turn(self, by: int) -> None:
        self._hit = None
        index = self.cursor.turn + by
        if by < 0 and self.cursor.block:
            index = self.cursor.turn
        while 0 <= index < len(self.cards) and not self.cards.height(Spot(index, 0)):
            index += by
        if 0 <= index < len(self.cards):
            self.go(Spot(index, 0), self.page.height // 4)

    def action_call(self, by: int) -> None:
        self._seek(by, lambda turn: turn.calls > 0, lambda block: block.call is not None, "tool call")

    def action_error(self, by: int) -> None:
        self._seek(by, lambda turn: turn.errors > 0, lambda block: block.failed, "failure")

    def _seek(self, by: int, has: Callable[[TurnOutline], bool], is_it: Callable[[Block], bool], what: str) -> None:
        """To the next such block: in this turn if it is here, else in the next turn whose outline tells of one.

        Past the last it begins again: a conversation opens at its end, and most that one looks for is before.
        """
        self._hit = None
        index, at = self.cursor
        folded = self.cards.is_folded(index)
        here = [n for n, block in enumerate(self.cards.blocks(index)) if is_it(block) and (folded or (n - at) * by > 0)]
        if here and not (folded and by < 0):
            self.aim(index, lambda _: here[0 if by > 0 else -1])
            return
        turns = len(self.cards)
        others = [(index + by * step) % turns for step in range(1, turns + 1)]
        found = next((n for n in others if has(self.cards.outline_of(n))), None)
        if found is None:
            self.notify(f"No {what} in this conversation.", timeout=2, markup=False)
        else:
            self.aim(found, lambda blocks: _nth(blocks, is_it, by))

    # ── hits ──────────────────────────────────────────────────────────────────────────────────────

    def mark(self, marks: re.Pattern[str] | None) -> None:
        with self.steady():
            self.cards.mark(marks)

    def set_hits(self, hits: Sequence[Place], *, go: bool) -> None:
        """Where the words stand; and to the first of them from where the cursor is."""
        self._hits, self._hit = hits, None
        if hits and go:
            self._go_to_hit(bisect_left(hits, self._origin or self._place()) % len(hits))
        else:
            self.post_message(self.AtHit(0, len(hits)))

    def begin_finding(self) -> None:
        """As one goes on typing, what is found is counted from where one was when one began."""
        self._origin = self._place()

    def end_finding(self) -> None:
        self._origin = None

    @property
    def has_hits(self) -> bool:
        return bool(self._hits)

    def action_hit(self, by: int) -> None:
        if not self._hits:
            self.notify("Nothing to go to: / finds words in here.", timeout=2, markup=False)
        elif self._hit is not None:
            self._go_to_hit((self._hit + by) % len(self._hits))
        else:
            after = bisect_right(self._hits, self._place())
            before = bisect_left(self._hits, self._place()) - 1
            self._go_to_hit((after if by > 0 else before) % len(self._hits))

    def _place(self) -> Place:
        block = self.block
        turn = self.cards.outline_of(self.cursor.turn) if len(self.cards) else None
        return Place(turn.n if turn else 0, block.entry.seq if block else turn.first_seq if turn else 0)

    def _go_to_hit(self, number: int) -> None:
        seq = self._hits[number].seq
        index = self.cards.outline.index_of(seq)
        if index is not None:
            self.aim(index, lambda blocks: self.block_of(index, blocks, seq))
        self._hit = number
        self.post_message(self.AtHit(number + 1, len(self._hits)))

    def block_of(self, turn: int, blocks: Sequence[Block], seq: int) -> int | None:
        """The block of the entry that has the words, if some are looked for; unfolded if they are inside."""
        marks = self.cards.marks
        n = next((n for n, block in enumerate(blocks) if seq in block.seqs and marks and _says(block, marks)), None)
        if n is None:
            return super().block_of(turn, blocks, seq)
        spot = Spot(turn, n)
        if not self.cards.is_open(spot) and not any(
            marks and marks.search(line.plain) for line in self.cards.lines(spot)
        ):
            self.cards.turn_over(spot, True)
        return n

    # ── folding ───────────────────────────────────────────────────────────────────────────────────

    def action_turn_over(self) -> None:
        self.when_there(self._turn_over)

    def _turn_over(self) -> None:
        block = self.block
        if block is not None and block.kind == "attachment" and block.part is not None:
            self.post_message(self.Look(block.entry, block.part))
            return
        self.action_fold() if self._is_unfolded() else self.action_unfold()

    def _is_unfolded(self) -> bool:
        block = self.block
        if self.cards.is_folded(self.cursor.turn):
            return False
        return self.cards.is_open(self.cursor) if block is not None and block.foldable else True

    def action_fold(self) -> None:
        block = self.block
        with self.steady():
            if block is not None and block.foldable and self.cards.is_open(self.cursor):
                self.cards.turn_over(self.cursor, False)
                return
            self.cursor = Spot(self.cursor.turn, 0)
            self.cards.fold(self.cursor.turn, True)
        self.go(self.cursor)

    def action_unfold(self) -> None:
        block = self.block
        with self.steady():
            if self.cards.is_folded(self.cursor.turn):
                self.cards.fold(self.cursor.turn, False)
            elif block is not None and block.foldable:
                self.cards.turn_over(self.cursor, True)
        self.go(self.cursor)

    def action_fold_all(self) -> None:
        with self.steady():
            self.cursor = Spot(self.cursor.turn, 0)
            self.cards.fold_all(not self.cards.all_folded)
        self.go(self.cursor)

    def action_whole(self) -> None:
        with self.steady():
            self.cards.show_whole(self.cursor)

    def action_gutter(self) -> None:
        with self.steady():
            self.cards.show_time(not self.cards.gutter.of_time)

    # ── the mouse ─────────────────────────────────────────────────────────────────────────────────

    def on_click(self, event: events.Click) -> None:
        line = event.y + self.scroll_offset.y
        if line >= self.cards.line_count:
            return
        spot, below = self.cards.at(line)
        self._hit = None
        self.go(spot)
        block = self.block
        is_head = below == (block is not None and block.gap) and block is not None and block.foldable
        if event.chain == 2 or (event.x in ARROW and (is_head or self.cards.is_folded(spot.turn))):
            self.action_turn_over()

    # ── copying ───────────────────────────────────────────────────────────────────────────────────

    def action_copy(self) -> None:
        self.when_there(self._copy)

    def _copy(self) -> None:
        if (block := self.block) is not None:
            self.post_message(Copy(_original(block), _WHAT.get(block.kind, "this entry")))

    def action_copy_turn(self) -> None:
        if (turn := self.cards.turn(self.cursor.turn)) is not None:
            said = [entry.text for entry in turn.entries if entry.kind == "message" and entry.text.strip()]
            self.post_message(Copy("\n\n".join(said), "the turn"))

    def action_copy_code(self) -> None:
        from tui.render.markdown import code_blocks

        found = code_blocks(self.block.text) if self.block is not None else []
        if found:
            self.post_message(Copy("\n".join(found), "the code"))
        else:
            self.notify("There is no code block in this.", timeout=2, markup=False)

    def action_inspect(self) -> None:
        self.when_there(self._inspect)

    def _inspect(self) -> None:
        call = self.block.call if self.block is not None else None
        if call is not None and call.key:
            self.post_message(self.Inspect(call.key))
        else:
            self.notify("This is no tool call; x goes to the next.", timeout=2, markup=False)


_WHAT = {"prompt": "the prompt", "thinking": "the thinking", "call": "the call and its result", "text": "the answer"}


def _original(block: Block) -> str:
    if block.kind != "call" or block.call is None:
        return block.text
    result = readable(block.call.result)
    return "\n\n".join(filter(None, [spell(block.call.arguments).decode(), result]))


def _nth(blocks: Sequence[Block], is_it: Callable[[Block], bool], by: int) -> int | None:
    found = [n for n, block in enumerate(blocks) if is_it(block)]
    return found[0 if by > 0 else -1] if found else None


def _says(block: Block, marks: re.Pattern[str]) -> bool:
    call = block.call
    texts = [block.text, block.label, *((readable(call.arguments), readable(call.result)) if call else ())]
    return any(map(marks.search, texts))
