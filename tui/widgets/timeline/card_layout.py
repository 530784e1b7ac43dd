"""The turns of a conversation as lines: which block stands where, what of it is here, laid out, folded.

Heights are guessed until a block is laid out, which happens when it first comes into view; so a conversation of ten
thousand turns opens as fast as one of ten. What is far from view is forgotten again.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from textual.content import Content

from store.model.entry import Text, Thinking, ToolResult, Turn
from store.model.session import Session
from store.model.timeline import TimelineOutline, TurnOutline
from tui.render.timeline_card import TurnGutter, estimate_height, render_card_title, render_item, render_unloaded_card
from tui.render.timeline_items import TimelineItem, build_items
from tui.render.viewport import Viewport
from tui.widgets.timeline.height_index import HeightIndex

MAX_CACHED_TURNS = 200
MAX_CACHED_WEIGHT = 6_000_000
MAX_CACHED_LINES = 3_000
"""Turns, characters of their text, and lines laid out: what is kept of a conversation that is scrolled through."""

ESTIMATED_TURN_LINES = 6
"""Guessed, of one that is not here yet; besides a line for each call."""


_EMPTY_OUTLINE = TimelineOutline()


class ItemPosition(NamedTuple):
    """A block: which of the outline's turns, and which of the turn's blocks."""

    turn: int
    item: int


@dataclass(slots=True)
class LoadedTurn:
    turn: Turn
    items: list[TimelineItem]
    heights: HeightIndex
    weight: int


class CardLayout:
    def __init__(
        self,
        session: Session | None = None,
        outline: TimelineOutline = _EMPTY_OUTLINE,
        *,
        width: int = 80,
        show_time: bool = False,
    ) -> None:
        self.outline = outline
        self.gutter = TurnGutter(outline, show_time=show_time)
        self.width = width
        self.highlight: re.Pattern[str] | None = None
        self.revision = 0
        "Another number whenever what a line says may have changed."
        self._session = session
        self._loaded_turns: OrderedDict[int, LoadedTurn] = OrderedDict()
        self._stale: set[int] = set()
        self._layouts: OrderedDict[ItemPosition, list[Content]] = OrderedDict()
        self._layout_line_count = 0
        self._open_states: dict[ItemPosition, bool] = {}
        "Blocks that somebody opened or folded."
        self._full_items: set[ItemPosition] = set()
        self._all_folded = False
        self._fold_exceptions: set[int] = set()
        "Turns that are folded when the others are not, or the other way round."
        self._heights = HeightIndex(map(self._estimate_turn, range(len(outline.turns))))

    # ── what is handed down ───────────────────────────────────────────────────────────────────────

    def update_outline(self, outline: TimelineOutline) -> None:
        """The same conversation has gone on: what is known of a turn is shown until what is new has come."""
        before, known = self.outline.turns, self._heights
        self.outline = outline
        self.gutter = TurnGutter(outline, show_time=self.gutter.shows_time)
        same = min(len(before), len(outline.turns))
        for index in [index for index in self._loaded_turns if index >= same]:
            del self._loaded_turns[index]
        self._stale = {n for n in self._loaded_turns if n in self._stale or before[n] != outline.turns[n]}
        guessed = map(self._estimate_turn, range(same, len(outline.turns)))
        self._heights = HeightIndex([*(known[n] for n in range(same)), *guessed])
        self._clear_layouts()

    def add_turn(self, turn: Turn) -> None:
        index = self.outline.index_of_turn(turn.n)
        if index is None:
            return
        blocks = build_items(self._session.id if self._session else "", turn)
        self._stale.discard(index)
        self._drop_layouts(index)
        self._loaded_turns[index] = LoadedTurn(turn, blocks, self._estimate_items(index, blocks), _turn_weight(turn))
        self._update_height(index)
        self.revision += 1

    def evict_far(self, near: range) -> None:
        """All but what is near, once there is too much of it."""
        weight = sum(body.weight for body in self._loaded_turns.values())
        for index in list(self._loaded_turns):
            if len(self._loaded_turns) <= MAX_CACHED_TURNS and weight <= MAX_CACHED_WEIGHT:
                break
            if index not in near:
                weight -= self._loaded_turns.pop(index).weight
                self._drop_layouts(index)

    def missing_turns(self, near: range) -> list[int]:
        """The numbers of the turns whose text is needed and is not here."""
        needed = (at for at in near if at in self._stale or (at not in self._loaded_turns and not self.is_folded(at)))
        return [self.turn_outline(at).n for at in needed]

    # ── what is known ─────────────────────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        return len(self.outline.turns)

    @property
    def line_count(self) -> int:
        return self._heights.total

    def turn_outline(self, index: int) -> TurnOutline:
        return self.outline.turns[index]

    def items(self, index: int) -> Sequence[TimelineItem]:
        body = self._loaded_turns.get(index)
        return body.items if body else ()

    def turn(self, index: int) -> Turn | None:
        body = self._loaded_turns.get(index)
        return body.turn if body else None

    def item(self, spot: ItemPosition) -> TimelineItem | None:
        blocks = self.items(spot.turn)
        return blocks[spot.item] if spot.item < len(blocks) else None

    def start_line(self, spot: ItemPosition) -> int:
        """The line on which it begins, a blank one before it included."""
        line = self._heights.start_line(spot.turn)
        body = self._unfolded_turn(spot.turn)
        return line + body.heights.start_line(min(spot.item, len(body.items))) if body else line

    def height(self, spot: ItemPosition) -> int:
        body = self._unfolded_turn(spot.turn)
        return body.heights[spot.item] if body and spot.item < len(body.items) else self._heights[spot.turn]

    def locate_line(self, line: int) -> tuple[ItemPosition, int]:
        """The block at a line, and how far below its beginning that is."""
        index, below = self._heights.locate_line(line)
        body = self._unfolded_turn(index)
        if body is None:
            return ItemPosition(index, 0), below
        block, below = body.heights.locate_line(below)
        return ItemPosition(index, block), below

    def neighbour(self, spot: ItemPosition, by: int) -> ItemPosition | None:
        """The next block, or the one before."""
        body = self._unfolded_turn(spot.turn)
        if body and 0 <= spot.item + by < len(body.items):
            return ItemPosition(spot.turn, spot.item + by)
        index = spot.turn + by
        while 0 <= index < len(self) and not self._heights[index]:
            index += by
        if not 0 <= index < len(self):
            return None
        return ItemPosition(index, 0) if by > 0 else self.last_item(index)

    def last_item(self, index: int) -> ItemPosition:
        body = self._unfolded_turn(index)
        return ItemPosition(index, max(len(body.items) - 1, 0) if body else 0)

    def _unfolded_turn(self, index: int) -> LoadedTurn | None:
        return None if self.is_folded(index) else self._loaded_turns.get(index)

    # ── folding ───────────────────────────────────────────────────────────────────────────────────

    @property
    def all_folded(self) -> bool:
        return self._all_folded

    def is_folded(self, index: int) -> bool:
        return self._all_folded != (index in self._fold_exceptions)

    def fold(self, index: int, folded: bool) -> None:
        if folded != self.is_folded(index):
            self._fold_exceptions ^= {index}
            self._update_height(index)
            self.revision += 1

    def fold_all(self, folded: bool) -> None:
        self._all_folded = folded
        self._fold_exceptions.clear()
        self._heights = HeightIndex(map(self._turn_height, range(len(self))))
        self.revision += 1

    def is_open(self, spot: ItemPosition) -> bool:
        block = self.item(spot)
        return block is not None and self._open_states.get(spot, not block.is_foldable)

    def set_open(self, spot: ItemPosition, is_open: bool) -> None:
        self._open_states[spot] = is_open
        self._drop_layout(spot)
        self.revision += 1

    def toggle_full(self, spot: ItemPosition) -> None:
        self._full_items ^= {spot}
        self._drop_layout(spot)
        self.revision += 1

    # ── laying out ────────────────────────────────────────────────────────────────────────────────

    def resize(self, width: int) -> None:
        if width != self.width:
            self.width = width
            self._clear_layouts()
            for index, body in self._loaded_turns.items():
                body.heights = self._estimate_items(index, body.items)
                self._update_height(index)

    def set_highlight(self, marks: re.Pattern[str] | None) -> None:
        self.highlight = marks
        self._clear_layouts()

    def show_time(self, of_time: bool) -> None:
        self.gutter = TurnGutter(self.outline, show_time=of_time)
        self._clear_layouts()

    def lay_out(self, first: int, end: int) -> bool:
        """What stands on these lines. True as soon as something took more or fewer lines than was thought."""
        line = max(first, 0)
        while line < min(end, self.line_count):
            spot, below = self.locate_line(line)
            height = self.height(spot)
            self.lines(spot)
            if self.height(spot) != height:
                return True
            line += height - below
        return False

    def lines(self, spot: ItemPosition) -> Sequence[Content]:
        """Of a block, with its blank line; of a folded or absent turn, what stands for it."""
        turn, body = self.turn_outline(spot.turn), self._unfolded_turn(spot.turn)
        if body is None:
            title = self._render_title(spot.turn)
            return [title] if self.is_folded(spot.turn) else render_unloaded_card(turn, title, Viewport(self.width))
        if spot.item >= len(body.items):
            return []
        laid = self._layouts.get(spot)
        if laid is None:
            laid = list(self._render_item(spot, body.items[spot.item]))
            self._cache_layout(spot, laid)
            body.heights[spot.item] = len(laid)
            self._update_height(spot.turn)
        else:
            self._layouts.move_to_end(spot)
        return laid

    def is_laid_out(self, spot: ItemPosition) -> bool:
        return spot in self._layouts or self._unfolded_turn(spot.turn) is None

    def _render_item(self, spot: ItemPosition, block: TimelineItem) -> Iterator[Content]:
        look = Viewport(
            self.width, self.highlight, spot in self._full_items, self._session.cwd if self._session else ""
        )
        if block.has_gap:
            yield Content("")
        if block.kind == "prompt":
            yield self._render_title(spot.turn)
        yield from render_item(block, look, is_open=self.is_open(spot))

    def _render_title(self, index: int) -> Content:
        """The day is told with the first turn of a day, the model with the first that it answers after another."""
        turn, before = self.turn_outline(index), self.turn_outline(index - 1) if index else None
        return render_card_title(
            turn,
            Viewport(self.width, self.highlight),
            self.gutter,
            folded=self.is_folded(index),
            with_date=before is None or not before.n or before.started_at[:10] != turn.started_at[:10],
            model=turn.model if before and before.model and before.model != turn.model else "",
        )

    def _cache_layout(self, spot: ItemPosition, laid: list[Content]) -> None:
        self._layouts[spot] = laid
        self._layout_line_count += len(laid)
        while self._layout_line_count > MAX_CACHED_LINES and len(self._layouts) > 1:
            _, oldest = self._layouts.popitem(last=False)
            self._layout_line_count -= len(oldest)

    def _drop_layout(self, spot: ItemPosition) -> None:
        self._layout_line_count -= len(self._layouts.pop(spot, ()))

    def _drop_layouts(self, index: int) -> None:
        for spot in [spot for spot in self._layouts if spot.turn == index]:
            self._drop_layout(spot)

    def _clear_layouts(self) -> None:
        self._layouts.clear()
        self._layout_line_count = 0
        self.revision += 1

    # ── heights ───────────────────────────────────────────────────────────────────────────────────

    def _update_height(self, index: int) -> None:
        self._heights[index] = self._turn_height(index)

    def _turn_height(self, index: int) -> int:
        body = self._loaded_turns.get(index)
        whole = body.heights.total if body else self._estimate_turn(index)
        return min(whole, 1) if self.is_folded(index) else whole

    def _estimate_turn(self, index: int) -> int:
        turn = self.outline.turns[index]
        if not turn.n and turn.last_seq < 0:
            return 0
        return ESTIMATED_TURN_LINES + turn.calls + turn.errors

    def _estimate_items(self, index: int, blocks: Sequence[TimelineItem]) -> HeightIndex:
        return HeightIndex(self._estimate_item(ItemPosition(index, n), block) for n, block in enumerate(blocks))

    def _estimate_item(self, spot: ItemPosition, block: TimelineItem) -> int:
        is_open = self._open_states.get(spot, not block.is_foldable)
        return block.has_gap + (block.kind == "prompt") + estimate_height(block, self.width, is_open=is_open)


def _turn_weight(turn: Turn) -> int:
    return sum(_part_weight(part) for entry in turn.entries for part in entry.parts) + 200 * len(turn.entries)


def _part_weight(part: object) -> int:
    match part:
        case Text(text) | Thinking(text):
            return 2 * len(text)
        case ToolResult(output=str() as output):
            return 2 * len(output)
    return 2_000
