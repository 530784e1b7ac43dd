"""This module lays out the turns of a session as lines, and knows which of them are loaded, rendered or folded.

The height of an item is estimated until the item becomes visible and is rendered. So a session of ten thousand turns
opens as fast as one of ten. Turns far from the view are dropped again.
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
from tui.render.time_limit import PaintTimeLimit
from tui.render.timeline_card import (
    GutterName,
    ItemRendering,
    TurnCosts,
    TurnGutter,
    estimate_height,
    render_card_title,
    render_unloaded_card,
)
from tui.render.timeline_items import TimelineItem, build_items
from tui.render.viewport import Viewport
from tui.widgets.timeline.height_index import HeightIndex

MAX_CACHED_TURNS = 200
MAX_CACHED_WEIGHT = 6_000_000
MAX_CACHED_LINES = 3_000
"""Limit the turns, the characters of their text and the rendered lines that are cached while a person scrolls."""

ESTIMATED_TURN_LINES = 6
"""The estimated height of a turn that is not loaded, without its calls, which take one line each."""


_EMPTY_OUTLINE = TimelineOutline()


class ItemPosition(NamedTuple):
    """Locates an item by the index of its turn in the outline and its own index in the turn."""

    turn: int
    item: int


@dataclass(frozen=True, slots=True)
class TimelineOptions:
    """Holds what a person chose for all sessions. The browser remembers it."""

    show_time: bool = False
    "Shows the time of each turn at its end, not the tokens."
    show_cost: bool = False
    "Shows the cost of each turn at its end, if it is known."
    show_events: bool = False
    "Shows the events that agents record for themselves."
    fold_turns: bool = False
    "Folds every turn to one line."

    @property
    def gutter(self) -> GutterName:
        return "cost" if self.show_cost else "time" if self.show_time else "tokens"


@dataclass(slots=True)
class LoadedTurn:
    turn: Turn
    items: list[TimelineItem]
    heights: HeightIndex
    weight: int


@dataclass(slots=True)
class SlowItem:
    """Holds an item that takes too long to be rendered here. Its lines are a preview without styles until another
    process has rendered it."""

    rendering: ItemRendering
    lines: list[Content]


_DEFAULT_OPTIONS = TimelineOptions()


class CardLayout:
    def __init__(
        self,
        session: Session | None = None,
        outline: TimelineOutline = _EMPTY_OUTLINE,
        *,
        width: int = 80,
        options: TimelineOptions = _DEFAULT_OPTIONS,
        hyperlinks: bool = False,
    ) -> None:
        self.outline = outline
        self._hyperlinks = hyperlinks
        self.gutter = TurnGutter(outline, options.gutter)
        self.width = width
        self.highlight: re.Pattern[str] | None = None
        self.revision = 0
        "Changes whenever the content of a line may have changed."
        self._session = session
        self._loaded_turns: OrderedDict[int, LoadedTurn] = OrderedDict()
        self._stale: set[int] = set()
        self._layouts: OrderedDict[ItemPosition, list[Content]] = OrderedDict()
        self._layout_line_count = 0
        self._time_limit = PaintTimeLimit()
        self._slow_items: dict[ItemPosition, SlowItem] = {}
        self._unrequested_slow_items: list[ItemPosition] = []
        self._open_states: dict[ItemPosition, bool] = {}
        "Holds the items that a person opened or folded."
        self._full_items: set[ItemPosition] = set()
        self._all_folded = options.fold_turns
        self._fold_exceptions: set[int] = set()
        "Holds the turns whose folding differs from `_all_folded`."
        self._shows_events = options.show_events
        self._event_exceptions: set[int] = set()
        "Holds the turns whose events are shown although they are hidden in others, because one of them is a hit."
        self._heights = HeightIndex(map(self._turn_height, range(len(outline.turns))))

    # ── content ───────────────────────────────────────────────────────────────────────────────────

    def update_outline(self, outline: TimelineOutline) -> None:
        """Update the outline of a session that has grown. Old turns are shown until the new ones are loaded."""
        old_outline, old_turns, old_heights = self.outline, self.outline.turns, self._heights
        self.outline = outline
        self.gutter = TurnGutter(outline, self.gutter.shown, self.gutter.costs)
        common = min(len(old_turns), len(outline.turns))
        for index in [index for index in self._loaded_turns if index >= common]:
            del self._loaded_turns[index]
        self._stale = {n for n in self._loaded_turns if n in self._stale or old_turns[n] != outline.turns[n]}
        estimates = map(self._estimate_turn, range(common, len(outline.turns)))
        self._heights = HeightIndex([*(old_heights[n] for n in range(common)), *estimates])
        self._clear_layouts()
        if outline.notes != old_outline.notes:
            for index, loaded in list(self._loaded_turns.items()):
                self._build_turn(index, loaded.turn)

    def add_turn(self, turn: Turn) -> None:
        index = self.outline.index_of_turn(turn.n)
        if index is None:
            return
        self._stale.discard(index)
        self._build_turn(index, turn)

    def _build_turn(self, index: int, turn: Turn) -> None:
        """Build the items of a turn. Items that it had before stay open or folded."""
        items = self._build_items(index, turn)
        self._move_open_states(index, self.items(index), items)
        self._drop_layouts(index)
        self._drop_slow_items(index)
        self._loaded_turns[index] = LoadedTurn(turn, items, self._estimate_items(index, items), _turn_weight(turn))
        self._update_height(index)
        self.revision += 1

    def _move_open_states(self, index: int, before: Sequence[TimelineItem], after: Sequence[TimelineItem]) -> None:
        places = {item.identity: n for n, item in enumerate(after)}
        moves = {
            ItemPosition(index, n): ItemPosition(index, places[item.identity])
            for n, item in enumerate(before)
            if places.get(item.identity, n) != n
        }
        if moves:
            self._open_states = {
                moves.get(position, position): is_open for position, is_open in self._open_states.items()
            }
            self._full_items = {moves.get(position, position) for position in self._full_items}

    def _build_items(self, index: int, turn: Turn) -> list[TimelineItem]:
        notes = self.outline.notes_in_turn(self.turn_outline(index))
        shows_events = self._shows_events or index in self._event_exceptions
        return build_items(self.session_id, turn, notes, with_bookkeeping=shows_events)

    def evict_far(self, near: range) -> None:
        """Drop loaded turns that are not near the view, if there are too many."""
        weight = sum(loaded.weight for loaded in self._loaded_turns.values())
        for index in list(self._loaded_turns):
            if len(self._loaded_turns) <= MAX_CACHED_TURNS and weight <= MAX_CACHED_WEIGHT:
                break
            if index not in near:
                weight -= self._loaded_turns.pop(index).weight
                self._drop_layouts(index)
                self._drop_slow_items(index)

    def missing_turns(self, near: range) -> list[int]:
        """Return the numbers of the turns near the view that must be loaded."""
        missing = (n for n in near if n in self._stale or (n not in self._loaded_turns and not self.is_folded(n)))
        return [self.turn_outline(n).n for n in missing]

    @property
    def session_id(self) -> str:
        return self._session.id if self._session else ""

    # ── positions ─────────────────────────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        return len(self.outline.turns)

    @property
    def line_count(self) -> int:
        return self._heights.total

    def turn_outline(self, index: int) -> TurnOutline:
        return self.outline.turns[index]

    def items(self, index: int) -> Sequence[TimelineItem]:
        loaded = self._loaded_turns.get(index)
        return loaded.items if loaded else ()

    def turn(self, index: int) -> Turn | None:
        loaded = self._loaded_turns.get(index)
        return loaded.turn if loaded else None

    def item(self, position: ItemPosition) -> TimelineItem | None:
        items = self.items(position.turn)
        return items[position.item] if position.item < len(items) else None

    def start_line(self, position: ItemPosition) -> int:
        """Return the first line of an item, which may be the blank line before it."""
        line = self._heights.start_line(position.turn)
        loaded = self._unfolded_turn(position.turn)
        return line + loaded.heights.start_line(min(position.item, len(loaded.items))) if loaded else line

    def height(self, position: ItemPosition) -> int:
        loaded = self._unfolded_turn(position.turn)
        return (
            loaded.heights[position.item]
            if loaded and position.item < len(loaded.items)
            else self._heights[position.turn]
        )

    def locate_line(self, line: int) -> tuple[ItemPosition, int]:
        """Return the item at a line, and the offset of the line within the item."""
        index, offset = self._heights.locate_line(line)
        loaded = self._unfolded_turn(index)
        if loaded is None:
            return ItemPosition(index, 0), offset
        item, offset = loaded.heights.locate_line(offset)
        return ItemPosition(index, item), offset

    def neighbour(self, position: ItemPosition, by: int) -> ItemPosition | None:
        """Return the position of the next item, or of the previous one if `by` is negative."""
        loaded = self._unfolded_turn(position.turn)
        if loaded and 0 <= position.item + by < len(loaded.items):
            return ItemPosition(position.turn, position.item + by)
        index = position.turn + by
        while 0 <= index < len(self) and not self._heights[index]:
            index += by
        if not 0 <= index < len(self):
            return None
        return ItemPosition(index, 0) if by > 0 else self.last_item(index)

    def has_news_after(self, position: ItemPosition) -> bool:
        """Return whether an item other than bookkeeping follows in this turn, or another turn does."""
        after = self.items(position.turn)[position.item + 1 :]
        return position.turn + 1 < len(self) or any(not item.is_bookkeeping for item in after)

    def last_item(self, index: int) -> ItemPosition:
        loaded = self._unfolded_turn(index)
        return ItemPosition(index, max(len(loaded.items) - 1, 0) if loaded else 0)

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

    def is_open(self, position: ItemPosition) -> bool:
        item = self.item(position)
        return item is not None and self._open_states.get(position, not item.is_foldable)

    def set_open(self, position: ItemPosition, is_open: bool) -> None:
        self._open_states[position] = is_open
        self._drop_layout(position)
        self.revision += 1

    def show_full(self, position: ItemPosition) -> None:
        """Show a long text in full, if it is not shown so already."""
        if position not in self._full_items:
            self.toggle_full(position)

    def toggle_full(self, position: ItemPosition) -> None:
        self._full_items ^= {position}
        self._drop_layout(position)
        self.revision += 1

    # ── events ────────────────────────────────────────────────────────────────────────────────────

    def show_events(self, shown: bool) -> None:
        """Show or hide the events that agents record for themselves, in all turns."""
        self._shows_events = shown
        self._event_exceptions.clear()
        for index, loaded in self._loaded_turns.items():
            self._build_turn(index, loaded.turn)

    def reveal_event(self, index: int, seq: int) -> None:
        """Show the events of a turn if that entry is one of them and they are hidden."""
        loaded = self._loaded_turns.get(index)
        if loaded is None or any(seq in item.entry_seqs for item in loaded.items):
            return
        hidden = (entry for entry in loaded.turn.entries if entry.kind == "event")
        if any(entry.seq == seq for entry in hidden):
            self._event_exceptions.add(index)
            self._build_turn(index, loaded.turn)

    # ── rendering ─────────────────────────────────────────────────────────────────────────────────

    def resize(self, width: int) -> None:
        if width != self.width:
            self.width = width
            self._clear_layouts()
            for index, loaded in self._loaded_turns.items():
                loaded.heights = self._estimate_items(index, loaded.items)
                self._update_height(index)

    def set_highlight(self, highlight: re.Pattern[str] | None) -> None:
        self.highlight = highlight
        self._clear_layouts()

    def show_gutter(self, shown: GutterName, costs: TurnCosts) -> None:
        is_visible = "cost" in (shown, self.gutter.shown) or shown != self.gutter.shown
        self.gutter = TurnGutter(self.outline, shown, costs)
        if is_visible:
            self._clear_layouts()

    def lay_out(self, first: int, end: int) -> bool:
        """Render the items on these lines. Stop and return True when an item has another height than estimated."""
        line = max(first, 0)
        while line < min(end, self.line_count):
            position, offset = self.locate_line(line)
            height = self.height(position)
            self.lines(position)
            if self.height(position) != height:
                return True
            line += height - offset
        return False

    def lines(self, position: ItemPosition) -> Sequence[Content]:
        """Return the lines of an item with its blank line, or of a turn that is folded or not loaded."""
        turn, loaded = self.turn_outline(position.turn), self._unfolded_turn(position.turn)
        if loaded is None:
            title = self._render_title(position.turn)
            return [title] if self.is_folded(position.turn) else render_unloaded_card(turn, title, Viewport(self.width))
        if position.item >= len(loaded.items):
            return []
        rendered = self._layouts.get(position)
        if rendered is None:
            rendered = list(self._render_item(position, loaded.items[position.item]))
            self._cache_layout(position, rendered)
            loaded.heights[position.item] = len(rendered)
            self._update_height(position.turn)
        else:
            self._layouts.move_to_end(position)
        return rendered

    def is_laid_out(self, position: ItemPosition) -> bool:
        return position in self._layouts or self._unfolded_turn(position.turn) is None

    def _render_item(self, position: ItemPosition, item: TimelineItem) -> Iterator[Content]:
        viewport = Viewport(
            self.width,
            self.highlight,
            position in self._full_items,
            self._session.cwd if self._session else "",
            self._hyperlinks,
        )
        if item.has_gap:
            yield Content("")
        if item.kind == "prompt":
            yield self._render_title(position.turn)
        yield from self._render_in_time(position, ItemRendering(item, viewport, self.is_open(position)))

    def _render_in_time(self, position: ItemPosition, rendering: ItemRendering) -> list[Content]:
        """Render an item. If it takes too long, show its beginning without styles, and keep it for
        `take_slow_items`."""
        slow = self._slow_items.get(position)
        if slow is None or slow.rendering != rendering:
            lines = self._time_limit.run(rendering.render)
            if lines is not None:
                return lines
            slow = self._slow_items[position] = SlowItem(rendering, rendering.render_preview())
            self._unrequested_slow_items.append(position)
        return slow.lines

    def take_slow_items(self) -> list[tuple[ItemPosition, ItemRendering]]:
        """Return the items that another process should render, each of them once."""
        positions, self._unrequested_slow_items = self._unrequested_slow_items, []
        return [(position, slow.rendering) for position in positions if (slow := self._slow_items.get(position))]

    def receive_lines(self, position: ItemPosition, rendering: ItemRendering, lines: list[Content]) -> None:
        """Take the lines of an item that another process has rendered, if they are still wanted."""
        slow = self._slow_items.get(position)
        if slow is not None and slow.rendering == rendering:
            slow.lines = lines
            self._drop_layout(position)
            self.revision += 1

    def _render_title(self, index: int) -> Content:
        """Render the title of a turn. The first turn of a day shows the date, and a turn with a new model shows it."""
        turn, previous = self.turn_outline(index), self.turn_outline(index - 1) if index else None
        return render_card_title(
            turn,
            Viewport(self.width, self.highlight),
            self.gutter,
            folded=self.is_folded(index),
            with_date=previous is None or not previous.n or previous.started_at[:10] != turn.started_at[:10],
            model=turn.model if previous and previous.model and previous.model != turn.model else "",
        )

    def _cache_layout(self, position: ItemPosition, rendered: list[Content]) -> None:
        self._layouts[position] = rendered
        self._layout_line_count += len(rendered)
        while self._layout_line_count > MAX_CACHED_LINES and len(self._layouts) > 1:
            _, oldest = self._layouts.popitem(last=False)
            self._layout_line_count -= len(oldest)

    def _drop_layout(self, position: ItemPosition) -> None:
        self._layout_line_count -= len(self._layouts.pop(position, ()))

    def _drop_layouts(self, index: int) -> None:
        for position in [position for position in self._layouts if position.turn == index]:
            self._drop_layout(position)

    def _drop_slow_items(self, index: int) -> None:
        for position in [position for position in self._slow_items if position.turn == index]:
            del self._slow_items[position]

    def _clear_layouts(self) -> None:
        self._layouts.clear()
        self._layout_line_count = 0
        self.revision += 1

    # ── heights ───────────────────────────────────────────────────────────────────────────────────

    def _update_height(self, index: int) -> None:
        self._heights[index] = self._turn_height(index)

    def _turn_height(self, index: int) -> int:
        loaded = self._loaded_turns.get(index)
        unfolded = loaded.heights.total if loaded else self._estimate_turn(index)
        return min(unfolded, 1) if self.is_folded(index) else unfolded

    def _estimate_turn(self, index: int) -> int:
        turn = self.outline.turns[index]
        if not turn.n and turn.last_seq < 0:
            return 0
        return ESTIMATED_TURN_LINES + turn.calls + turn.errors

    def _estimate_items(self, index: int, items: Sequence[TimelineItem]) -> HeightIndex:
        return HeightIndex(self._estimate_item(ItemPosition(index, n), item) for n, item in enumerate(items))

    def _estimate_item(self, position: ItemPosition, item: TimelineItem) -> int:
        is_open = self._open_states.get(position, not item.is_foldable)
        return item.has_gap + (item.kind == "prompt") + estimate_height(item, self.width, is_open=is_open)


def _turn_weight(turn: Turn) -> int:
    return sum(_part_weight(part) for entry in turn.entries for part in entry.parts) + 200 * len(turn.entries)


def _part_weight(part: object) -> int:
    match part:
        case Text(text) | Thinking(text):
            return 2 * len(text)
        case ToolResult(output=str() as output):
            return 2 * len(output)
    return 2_000
