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
from store.model.timeline import Outline, TurnOutline
from tui.render.timeline_card import Gutter, block_lines, estimated, title_line, waiting_lines
from tui.render.timeline_items import Block, blocks_of
from tui.render.viewport import Look
from tui.widgets.timeline.height_index import Heights

TURNS_KEPT = 200
WEIGHT_KEPT = 6_000_000
LINES_KEPT = 3_000
"""Turns, characters of their text, and lines laid out: what is kept of a conversation that is scrolled through."""

LINES_OF_A_TURN = 6
"""Guessed, of one that is not here yet; besides a line for each call."""


_NOTHING = Outline()


class Spot(NamedTuple):
    """A block: which of the outline's turns, and which of the turn's blocks."""

    turn: int
    block: int


@dataclass(slots=True)
class Body:
    turn: Turn
    blocks: list[Block]
    heights: Heights
    weight: int


class Cards:
    def __init__(
        self, session: Session | None = None, outline: Outline = _NOTHING, *, width: int = 80, of_time: bool = False
    ) -> None:
        self.outline = outline
        self.gutter = Gutter(outline, of_time=of_time)
        self.width = width
        self.marks: re.Pattern[str] | None = None
        self.edition = 0
        "Another number whenever what a line says may have changed."
        self._session = session
        self._bodies: OrderedDict[int, Body] = OrderedDict()
        self._stale: set[int] = set()
        self._laid: OrderedDict[Spot, list[Content]] = OrderedDict()
        self._lines_laid = 0
        self._turned: dict[Spot, bool] = {}
        "Blocks that somebody opened or folded."
        self._whole: set[Spot] = set()
        self._all_folded = False
        self._otherwise: set[int] = set()
        "Turns that are folded when the others are not, or the other way round."
        self._heights = Heights(map(self._guess, range(len(outline.turns))))

    # ── what is handed down ───────────────────────────────────────────────────────────────────────

    def grow(self, outline: Outline) -> None:
        """The same conversation has gone on: what is known of a turn is shown until what is new has come."""
        before, known = self.outline.turns, self._heights
        self.outline = outline
        self.gutter = Gutter(outline, of_time=self.gutter.of_time)
        same = min(len(before), len(outline.turns))
        for index in [index for index in self._bodies if index >= same]:
            del self._bodies[index]
        self._stale = {n for n in self._bodies if n in self._stale or before[n] != outline.turns[n]}
        guessed = map(self._guess, range(same, len(outline.turns)))
        self._heights = Heights([*(known[n] for n in range(same)), *guessed])
        self._forget_layouts()

    def supply(self, turn: Turn) -> None:
        index = self.outline.place_of(turn.n)
        if index is None:
            return
        blocks = blocks_of(self._session.id if self._session else "", turn)
        self._stale.discard(index)
        self._drop_layouts(index)
        self._bodies[index] = Body(turn, blocks, self._guess_blocks(index, blocks), _weight(turn))
        self._measure(index)
        self.edition += 1

    def forget_far(self, near: range) -> None:
        """All but what is near, once there is too much of it."""
        weight = sum(body.weight for body in self._bodies.values())
        for index in list(self._bodies):
            if len(self._bodies) <= TURNS_KEPT and weight <= WEIGHT_KEPT:
                break
            if index not in near:
                weight -= self._bodies.pop(index).weight
                self._drop_layouts(index)

    def missing(self, near: range) -> list[int]:
        """The numbers of the turns whose text is needed and is not here."""
        needed = (at for at in near if at in self._stale or (at not in self._bodies and not self.is_folded(at)))
        return [self.outline_of(at).n for at in needed]

    # ── what is known ─────────────────────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        return len(self.outline.turns)

    @property
    def line_count(self) -> int:
        return self._heights.total

    def outline_of(self, index: int) -> TurnOutline:
        return self.outline.turns[index]

    def blocks(self, index: int) -> Sequence[Block]:
        body = self._bodies.get(index)
        return body.blocks if body else ()

    def turn(self, index: int) -> Turn | None:
        body = self._bodies.get(index)
        return body.turn if body else None

    def block(self, spot: Spot) -> Block | None:
        blocks = self.blocks(spot.turn)
        return blocks[spot.block] if spot.block < len(blocks) else None

    def start(self, spot: Spot) -> int:
        """The line on which it begins, a blank one before it included."""
        line = self._heights.start(spot.turn)
        body = self._unfolded(spot.turn)
        return line + body.heights.start(min(spot.block, len(body.blocks))) if body else line

    def height(self, spot: Spot) -> int:
        body = self._unfolded(spot.turn)
        return body.heights[spot.block] if body and spot.block < len(body.blocks) else self._heights[spot.turn]

    def at(self, line: int) -> tuple[Spot, int]:
        """The block at a line, and how far below its beginning that is."""
        index, below = self._heights.find(line)
        body = self._unfolded(index)
        if body is None:
            return Spot(index, 0), below
        block, below = body.heights.find(below)
        return Spot(index, block), below

    def beside(self, spot: Spot, by: int) -> Spot | None:
        """The next block, or the one before."""
        body = self._unfolded(spot.turn)
        if body and 0 <= spot.block + by < len(body.blocks):
            return Spot(spot.turn, spot.block + by)
        index = spot.turn + by
        while 0 <= index < len(self) and not self._heights[index]:
            index += by
        if not 0 <= index < len(self):
            return None
        return Spot(index, 0) if by > 0 else self.last_of(index)

    def last_of(self, index: int) -> Spot:
        body = self._unfolded(index)
        return Spot(index, max(len(body.blocks) - 1, 0) if body else 0)

    def _unfolded(self, index: int) -> Body | None:
        return None if self.is_folded(index) else self._bodies.get(index)

    # ── folding ───────────────────────────────────────────────────────────────────────────────────

    @property
    def all_folded(self) -> bool:
        return self._all_folded

    def is_folded(self, index: int) -> bool:
        return self._all_folded != (index in self._otherwise)

    def fold(self, index: int, folded: bool) -> None:
        if folded != self.is_folded(index):
            self._otherwise ^= {index}
            self._measure(index)
            self.edition += 1

    def fold_all(self, folded: bool) -> None:
        self._all_folded = folded
        self._otherwise.clear()
        self._heights = Heights(map(self._height, range(len(self))))
        self.edition += 1

    def is_open(self, spot: Spot) -> bool:
        block = self.block(spot)
        return block is not None and self._turned.get(spot, not block.foldable)

    def turn_over(self, spot: Spot, is_open: bool) -> None:
        self._turned[spot] = is_open
        self._drop_layout(spot)
        self.edition += 1

    def show_whole(self, spot: Spot) -> None:
        self._whole ^= {spot}
        self._drop_layout(spot)
        self.edition += 1

    # ── laying out ────────────────────────────────────────────────────────────────────────────────

    def resize(self, width: int) -> None:
        if width != self.width:
            self.width = width
            self._forget_layouts()
            for index, body in self._bodies.items():
                body.heights = self._guess_blocks(index, body.blocks)
                self._measure(index)

    def mark(self, marks: re.Pattern[str] | None) -> None:
        self.marks = marks
        self._forget_layouts()

    def show_time(self, of_time: bool) -> None:
        self.gutter = Gutter(self.outline, of_time=of_time)
        self._forget_layouts()

    def lay_out(self, first: int, end: int) -> bool:
        """What stands on these lines. True as soon as something took more or fewer lines than was thought."""
        line = max(first, 0)
        while line < min(end, self.line_count):
            spot, below = self.at(line)
            height = self.height(spot)
            self.lines(spot)
            if self.height(spot) != height:
                return True
            line += height - below
        return False

    def lines(self, spot: Spot) -> Sequence[Content]:
        """Of a block, with its blank line; of a folded or absent turn, what stands for it."""
        turn, body = self.outline_of(spot.turn), self._unfolded(spot.turn)
        if body is None:
            title = self._title(spot.turn)
            return [title] if self.is_folded(spot.turn) else waiting_lines(turn, title, Look(self.width))
        if spot.block >= len(body.blocks):
            return []
        laid = self._laid.get(spot)
        if laid is None:
            laid = list(self._paint(spot, body.blocks[spot.block]))
            self._keep(spot, laid)
            body.heights[spot.block] = len(laid)
            self._measure(spot.turn)
        else:
            self._laid.move_to_end(spot)
        return laid

    def is_laid_out(self, spot: Spot) -> bool:
        return spot in self._laid or self._unfolded(spot.turn) is None

    def _paint(self, spot: Spot, block: Block) -> Iterator[Content]:
        look = Look(self.width, self.marks, spot in self._whole, self._session.cwd if self._session else "")
        if block.gap:
            yield Content("")
        if block.kind == "prompt":
            yield self._title(spot.turn)
        yield from block_lines(block, look, is_open=self.is_open(spot))

    def _title(self, index: int) -> Content:
        """The day is told with the first turn of a day, the model with the first that it answers after another."""
        turn, before = self.outline_of(index), self.outline_of(index - 1) if index else None
        return title_line(
            turn,
            Look(self.width, self.marks),
            self.gutter,
            folded=self.is_folded(index),
            dated=before is None or not before.n or before.started_at[:10] != turn.started_at[:10],
            model=turn.model if before and before.model and before.model != turn.model else "",
        )

    def _keep(self, spot: Spot, laid: list[Content]) -> None:
        self._laid[spot] = laid
        self._lines_laid += len(laid)
        while self._lines_laid > LINES_KEPT and len(self._laid) > 1:
            _, oldest = self._laid.popitem(last=False)
            self._lines_laid -= len(oldest)

    def _drop_layout(self, spot: Spot) -> None:
        self._lines_laid -= len(self._laid.pop(spot, ()))

    def _drop_layouts(self, index: int) -> None:
        for spot in [spot for spot in self._laid if spot.turn == index]:
            self._drop_layout(spot)

    def _forget_layouts(self) -> None:
        self._laid.clear()
        self._lines_laid = 0
        self.edition += 1

    # ── heights ───────────────────────────────────────────────────────────────────────────────────

    def _measure(self, index: int) -> None:
        self._heights[index] = self._height(index)

    def _height(self, index: int) -> int:
        body = self._bodies.get(index)
        whole = body.heights.total if body else self._guess(index)
        return min(whole, 1) if self.is_folded(index) else whole

    def _guess(self, index: int) -> int:
        turn = self.outline.turns[index]
        if not turn.n and turn.last_seq < 0:
            return 0
        return LINES_OF_A_TURN + turn.calls + turn.errors

    def _guess_blocks(self, index: int, blocks: Sequence[Block]) -> Heights:
        return Heights(self._guess_block(Spot(index, n), block) for n, block in enumerate(blocks))

    def _guess_block(self, spot: Spot, block: Block) -> int:
        is_open = self._turned.get(spot, not block.foldable)
        return block.gap + (block.kind == "prompt") + estimated(block, self.width, is_open=is_open)


def _weight(turn: Turn) -> int:
    return sum(_characters(part) for entry in turn.entries for part in entry.parts) + 200 * len(turn.entries)


def _characters(part: object) -> int:
    match part:
        case Text(text) | Thinking(text):
            return 2 * len(text)
        case ToolResult(output=str() as output):
            return 2 * len(output)
    return 2_000
