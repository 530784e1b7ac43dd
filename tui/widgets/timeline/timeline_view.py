"""This module shows the turns of a session with keys to move between items, fold, copy and inspect them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from store.model.entry import Entry, PairedCall, readable_text
from store.model.knowledge import Note
from store.model.timeline import EntryPosition, TurnOutline
from store.text.validate import serialize
from tui.messages import Copy, DataMessage
from tui.render.inspection.call_copy import CallPart
from tui.render.statistics.explanation import describe_turn_cost
from tui.render.timeline_card import GutterName, TurnCosts
from tui.render.timeline_items import TimelineItem
from tui.render.tool_call import DEFAULT_RESULT_LINES
from tui.render.viewport import DEFAULT_TEXT_LIMIT
from tui.widgets.call_copy_bindings import build_copy_bindings
from tui.widgets.key_hints import HintChange
from tui.widgets.timeline.anchored_view import LEFT_MARGIN, ItemMark
from tui.widgets.timeline.card_layout import ItemPosition, TimelineOptions
from tui.widgets.timeline.card_view import CardView
from tui.workers import threaded

SCROLL_STEP = 3
"""The number of lines that a key scrolls within an item that is higher than the screen."""

NOT_A_CALL = "Not a tool call. Press x to go to the next one."

TURN_ROW = 0
"""The row on which a turn begins after the keys that go to the next or previous one."""

FOLD_CLICK_CELLS = range(LEFT_MARGIN + 2)
"""The cells at the start of an item's first line in which a click folds it."""


def _timeline_binding(
    keys: str, action: str, name: str, description: str, tooltip: str, *, show: bool = False
) -> Binding:
    return Binding(keys, action, description, id=f"timeline.{name}", tooltip=tooltip, show=show)


class TimelineView(CardView):
    BINDINGS: ClassVar[list[BindingType]] = [
        _timeline_binding("down,j", "move(1)", "down", "Down", "Next item"),
        _timeline_binding("up,k", "move(-1)", "up", "Up", "Previous item"),
        _timeline_binding("pagedown,ctrl+d,space", "page(1)", "page_down", "Page down", "Page down"),
        _timeline_binding("pageup,ctrl+u,b", "page(-1)", "page_up", "Page up", "Page up"),
        _timeline_binding("home,g", "first", "first", "Start", "Go to the start"),
        _timeline_binding("end,G", "last", "last", "End", "Go to the end"),
        _timeline_binding("J", "turn(1)", "next_turn", "Next turn", "Next turn"),
        _timeline_binding("K", "turn(-1)", "previous_turn", "Previous turn", "Previous turn"),
        _timeline_binding("x", "call(1)", "next_call", "Next call", "Next tool call"),
        _timeline_binding("X", "call(-1)", "previous_call", "Previous call", "Previous tool call"),
        _timeline_binding("e", "error(1)", "next_error", "Errors", "Next error", show=True),
        _timeline_binding("E", "error(-1)", "previous_error", "Previous error", "Previous error"),
        _timeline_binding("apostrophe", "note(1)", "next_note", "Next note", "Next note"),
        _timeline_binding("quotation_mark", "note(-1)", "previous_note", "Previous note", "Previous note"),
        _timeline_binding(
            "right_square_bracket", "costly(1)", "next_costly", "Costly turn", "The most expensive turn, then the next"
        ),
        _timeline_binding(
            "left_square_bracket", "costly(-1)", "previous_costly", "More costly turn", "Back to a more expensive turn"
        ),
        _timeline_binding("n", "hit(1)", "next_hit", "Next match", "Next match"),
        _timeline_binding("N", "hit(-1)", "previous_hit", "Previous match", "Previous match"),
        _timeline_binding(
            "enter", "turn_over", "toggle", "Fold", "Fold or unfold this item, or show a picture", show=True
        ),
        _timeline_binding("left", "fold", "fold", "Fold", "Fold this item, then its turn"),
        _timeline_binding("right", "unfold", "unfold", "Unfold", "Unfold this item"),
        _timeline_binding("H", "fold_all", "fold_all", "Fold all", "Fold or unfold all turns"),
        _timeline_binding("w", "whole", "whole", "Show all", "Show a long text in full"),
        _timeline_binding(
            "v", "gutter", "gutter", "Tokens or time", "Show the tokens, the time or the cost of each turn"
        ),
        _timeline_binding("B", "events", "events", "Events", "Show or hide the bookkeeping of the agent"),
        _timeline_binding("M", "mark", "mark", "Mark", "Mark this item or turn, to compare it with another one"),
        _timeline_binding("i", "inspect", "inspect", "Inspect", "Inspect the tool call, or the compaction", show=True),
        _timeline_binding("y", "copy", "copy", "Copy", "Copy this item", show=True),
        _timeline_binding("Y", "copy_turn", "copy_turn", "Copy turn", "Copy the messages of this turn"),
        _timeline_binding("c", "copy_code", "copy_code", "Copy code", "Copy the code blocks of this item"),
        *build_copy_bindings("timeline"),
    ]

    class InspectRequested(DataMessage):
        call_key: int

    class CompactionRequested(DataMessage):
        """Asks to show what this compaction dropped."""

        seq: int

    class CopyRequested(DataMessage):
        """Asks to copy a part of this call."""

        call: PairedCall
        part: CallPart

    class PictureRequested(DataMessage):
        """Asks to show the picture in this part of the entry."""

        entry: Entry
        part: int

    class OptionsChanged(DataMessage):
        """Says that a person chose something for all sessions."""

        options: TimelineOptions

    class HitSelected(DataMessage):
        number: int
        total: int

    def __init__(self) -> None:
        super().__init__()
        self._hits: Sequence[EntryPosition] = ()
        self._hit_index: int | None = None
        self._find_origin: EntryPosition | None = None
        self._costly_turn: int | None = None
        "Is the turn that was found by its cost last."

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable all actions while no session is shown."""
        return bool(len(self.cards)) and super().check_action(action, parameters)

    def change_hint(self, binding: Binding) -> HintChange | None:
        """Show what can be done with a call first while the cursor is on one, and which of the matches it is on."""
        item = self.current_item
        if binding.id == "timeline.next_hit" and self._hits:
            return HintChange(self._describe_hit(), "first")
        is_for_calls = binding.id in ("timeline.copy_command", "timeline.inspect")
        if is_for_calls and item is not None and item.call is not None:
            return HintChange(binding.description, "first")
        return None

    # ── moving ────────────────────────────────────────────────────────────────────────────────────

    def action_move(self, by: int) -> None:
        self._hit_index = None
        top, page = self.scroll_offset.y, self.page.height
        row, height = self.cards.start_line(self.cursor) - top, self.height_of(self.cursor)
        beyond = row + height - page if by > 0 else -row
        if beyond > 0 and -height < row < page and height > page:
            self.scroll_relative(y=by * min(SCROLL_STEP, beyond), animate=False)
            return
        position = self.cards.neighbour(self.cursor, by)
        if position is None:
            self.scroll_to(y=self.max_scroll_y if by > 0 else 0, animate=False)
        elif by < 0 and position.turn != self.cursor.turn and self.cards.turn(position.turn) is None:
            self.move_to_item(position.turn, lambda items: len(items) - 1)
        elif by < 0 and len(self.cards.lines(position)) > page:
            self.scroll_to_anchor(position, page - self.cards.height(position))
            self.set_cursor(position)
        else:
            self.move_cursor(position, at_end=by > 0 and self.cards.neighbour(position, 1) is None)

    def action_page(self, by: int) -> None:
        self._hit_index = None
        old_top, page = self.scroll_offset.y, self.page.height
        row = max(min(self.cards.start_line(self.cursor) - old_top, page - 1), 0)
        self.scroll_relative(y=by * max(page - 2, 1), animate=False)
        top = self.scroll_offset.y
        if top == old_top:
            self.action_last() if by > 0 else self.action_first()
        else:
            self.set_cursor(self.cards.locate_line(min(top + row, self.cards.line_count - 1))[0])

    def action_first(self) -> None:
        self._hit_index = None
        if self.cards.line_count:
            self.move_cursor(self.cards.locate_line(0)[0], 0)

    def action_last(self) -> None:
        self._hit_index = None
        self.move_to_item(len(self.cards) - 1, lambda items: len(items) - 1, at_end=True)

    def action_turn(self, by: int) -> None:
        self._hit_index = None
        index = self.cursor.turn + by
        if by < 0 and self.cursor.item:
            index = self.cursor.turn
        while 0 <= index < len(self.cards) and not self.cards.height(ItemPosition(index, 0)):
            index += by
        if 0 <= index < len(self.cards):
            self.move_cursor(ItemPosition(index, 0), TURN_ROW, is_fixed=True)

    def action_call(self, by: int) -> None:
        self._move_to_next(by, lambda turn: turn.calls > 0, lambda item: item.call is not None, "tool calls")

    def action_error(self, by: int) -> None:
        self._move_to_next(by, lambda turn: turn.errors > 0, lambda item: item.has_failed, "errors")

    def action_note(self, by: int) -> None:
        outline = self.cards.outline
        self._move_to_next(
            by, lambda turn: bool(outline.notes_in_turn(turn)), lambda item: item.note is not None, "notes"
        )

    def go_to_note(self, note: Note) -> None:
        """Move the cursor to a note that was just written."""
        index = self.cards.outline.index_of_entry(note.entry_seq) if note.entry_seq is not None else None
        if index is not None:
            self.move_to_item(
                index, lambda items: _pick_item(items, lambda item: bool(item.note and item.note.id == note.id), 1)
            )

    def action_costly(self, by: int) -> None:
        """Go to the most expensive turn; from there to the next one in the order of their cost, or back."""
        costs = [cost for cost in self.cards.gutter.costs.values() if cost.cost]
        ranked = [cost.turn for cost in sorted(costs, key=lambda cost: -(cost.cost or 0))]
        if not ranked:
            self.notify("Nothing in this session has a price.", timeout=2, markup=False)
            return
        current = self.cards.turn_outline(self.cursor.turn).n
        is_ranked = self._costly_turn == current and current in ranked
        rank = max(min(ranked.index(current) + by, len(ranked) - 1), 0) if is_ranked else 0
        index = self.cards.outline.index_of_turn(ranked[rank])
        if index is not None:
            self._hit_index, self._costly_turn = None, ranked[rank]
            self.move_cursor(ItemPosition(index, 0), TURN_ROW, is_fixed=True)
            place = f"{rank + 1} of {len(ranked)} by cost"
            self.notify(describe_turn_cost(self.cards.gutter.costs[ranked[rank]], place), timeout=4, markup=False)

    def _move_to_next(
        self, by: int, turn_has: Callable[[TurnOutline], bool], matches: Callable[[TimelineItem], bool], name: str
    ) -> None:
        """Move to the next item that matches, in this turn or in the next turn whose outline has one.

        The search wraps around, because a session opens at its end.
        """
        self._hit_index = None
        index, item_index = self.cursor
        is_folded = self.cards.is_folded(index)
        here = [
            n
            for n, item in enumerate(self.cards.items(index))
            if matches(item) and (is_folded or (n - item_index) * by > 0)
        ]
        if here and not (is_folded and by < 0):
            self.move_to_item(index, lambda _: here[0 if by > 0 else -1])
            return
        turns = len(self.cards)
        others = [(index + by * step) % turns for step in range(1, turns + 1)]
        next_turn = next((n for n in others if turn_has(self.cards.turn_outline(n))), None)
        if next_turn is None:
            self.notify(f"No {name} in this session.", timeout=2, markup=False)
        elif next_turn == index and not is_folded and _is_only(self.cards.items(index), item_index, matches):
            self.notify(f"No other {name} in this session.", timeout=2, markup=False)
        else:
            self.move_to_item(next_turn, lambda items: _pick_item(items, matches, by))

    # ── hits ──────────────────────────────────────────────────────────────────────────────────────

    def set_highlight(self, highlight: re.Pattern[str] | None) -> None:
        with self.preserve_position():
            self.cards.set_highlight(highlight)

    def set_hits(self, hits: Sequence[EntryPosition], *, move_to_hit: bool) -> None:
        """Set the hits, and optionally move to the first hit after the cursor."""
        self._hits, self._hit_index = hits, None
        self.refresh_bindings()
        if hits and move_to_hit:
            self._go_to_hit(bisect_left(hits, self._find_origin or self._cursor_entry_position()) % len(hits))
        else:
            self.post_message(self.HitSelected(0, len(hits)))

    def _describe_hit(self) -> str:
        """Return which match the cursor is on, e.g. `Match 2 of 5`, or only how many there are."""
        position = self._cursor_entry_position()
        number = bisect_left(self._hits, position) if self._hit_index is None else self._hit_index
        is_on_hit = self._hit_index is not None or (number < len(self._hits) and self._hits[number] == position)
        count = len(self._hits)
        if is_on_hit:
            return f"Match {number + 1:,} of {count:,}"
        return f"Next of {count:,} match{'es' if count > 1 else ''}"

    def begin_find(self) -> None:
        """Remember the cursor, so that each letter typed searches from the same place."""
        self._find_origin = self._cursor_entry_position()

    def end_find(self) -> None:
        self._find_origin = None

    @property
    def has_hits(self) -> bool:
        return bool(self._hits)

    def action_hit(self, by: int) -> None:
        if not self._hits:
            self.notify("No matches. Press / to find words.", timeout=2, markup=False)
        elif self._hit_index is not None:
            self._go_to_hit((self._hit_index + by) % len(self._hits))
        else:
            after = bisect_right(self._hits, self._cursor_entry_position())
            before = bisect_left(self._hits, self._cursor_entry_position()) - 1
            self._go_to_hit((after if by > 0 else before) % len(self._hits))

    def _cursor_entry_position(self) -> EntryPosition:
        item = self.current_item
        turn = self.cards.turn_outline(self.cursor.turn) if len(self.cards) else None
        return EntryPosition(turn.n if turn else 0, item.entry.seq if item else turn.first_seq if turn else 0)

    def _go_to_hit(self, number: int) -> None:
        seq = self._hits[number].seq
        index = self.cards.outline.index_of_entry(seq)
        if index is not None:
            self.move_to_item(index, lambda items: self.find_item(index, items, seq))
        self._hit_index = number
        self.refresh_bindings()
        self.post_message(self.HitSelected(number + 1, len(self._hits)))

    def find_item(self, turn: int, items: Sequence[TimelineItem], seq: int) -> int | None:
        """Return the item of the entry that contains the words, and open it if the words are folded, or if the entry is
        the result of a call."""
        self.cards.reveal_event(turn, seq)
        items = self.cards.items(turn)
        highlight = self.cards.highlight
        n = next(
            (n for n, item in enumerate(items) if seq in item.entry_seqs and highlight and _matches(item, highlight)),
            None,
        )
        if n is None:
            return super().find_item(turn, items, seq)
        position, is_result = ItemPosition(turn, n), seq != items[n].entry.seq
        if not self.cards.is_open(position) and (
            is_result or not any(highlight and highlight.search(line.plain) for line in self.cards.lines(position))
        ):
            self.cards.set_open(position, True)
        if self.cards.is_open(position) and highlight and _is_match_cut_off(items[n], highlight):
            self.cards.show_full(position)
        return n

    # ── folding ───────────────────────────────────────────────────────────────────────────────────

    def action_turn_over(self) -> None:
        self.run_when_loaded(self._toggle_fold)

    def _toggle_fold(self) -> None:
        item = self.current_item
        if item is not None and item.kind == "attachment" and item.part_index is not None:
            self.post_message(self.PictureRequested(item.entry, item.part_index))
            return
        self.action_fold() if self._is_unfolded() else self.action_unfold()

    def _is_unfolded(self) -> bool:
        item = self.current_item
        if self.cards.is_folded(self.cursor.turn):
            return False
        return self.cards.is_open(self.cursor) if item is not None and item.is_foldable else True

    def action_fold(self) -> None:
        item = self.current_item
        with self.preserve_position():
            if item is not None and item.is_foldable and self.cards.is_open(self.cursor):
                self.cards.set_open(self.cursor, False)
                return
            self.cursor = ItemPosition(self.cursor.turn, 0)
            self.cards.fold(self.cursor.turn, True)
        self.move_cursor(self.cursor)

    def action_unfold(self) -> None:
        item = self.current_item
        with self.preserve_position():
            if self.cards.is_folded(self.cursor.turn):
                self.cards.fold(self.cursor.turn, False)
            elif item is not None and item.is_foldable:
                self.cards.set_open(self.cursor, True)
        self.move_cursor(self.cursor)

    def action_fold_all(self) -> None:
        with self.preserve_position():
            self.cursor = ItemPosition(self.cursor.turn, 0)
            self.cards.fold_all(not self.cards.all_folded)
        self.move_cursor(self.cursor)
        self._change_options(fold_turns=self.cards.all_folded)

    def action_whole(self) -> None:
        with self.preserve_position():
            self.cards.toggle_full(self.cursor)

    def action_gutter(self) -> None:
        with self.preserve_position():
            shown = self._next_gutter()
            self.cards.show_gutter(shown, self.cards.gutter.costs)
        self._change_options(show_time=shown == "time", show_cost=shown == "cost")

    def _next_gutter(self) -> GutterName:
        """Return what the gutter shows next. The cost is left out if it is not known."""
        following: dict[GutterName, GutterName] = {"tokens": "time", "time": "cost", "cost": "tokens"}
        shown = following[self.cards.gutter.shown]
        return "tokens" if shown == "cost" and not self.cards.gutter.costs else shown

    def show_costs(self, costs: TurnCosts) -> None:
        """Take what each turn cost, which is known a moment after the session is shown."""
        with self.preserve_position():
            self.cards.show_gutter(self.options.gutter, costs)

    def action_events(self) -> None:
        """Show or hide bookkeeping. The cursor stays on its item, or goes to the one before it."""
        shown = not self.options.show_events
        current = self.current_item
        with self.preserve_position():
            self.cards.show_events(shown)
            if current is not None:
                self.cursor = self._find_again(current)
        self.move_cursor(self.cursor)
        self._change_options(show_events=shown)

    def _find_again(self, item: TimelineItem) -> ItemPosition:
        items = self.cards.items(self.cursor.turn)
        same_or_before = [n for n, other in enumerate(items) if other.entry.seq <= item.entry.seq]
        same = [n for n in same_or_before if items[n].identity == item.identity]
        return ItemPosition(self.cursor.turn, (same or same_or_before or [0])[-1])

    def _change_options(self, **changes: bool) -> None:
        self.options = replace(self.options, **changes)
        self.post_message(self.OptionsChanged(self.options))

    # ── the mouse ─────────────────────────────────────────────────────────────────────────────────

    def on_click(self, event: events.Click) -> None:
        line = event.y + self.scroll_offset.y
        if line >= self.cards.line_count:
            return
        position, offset = self.cards.locate_line(line)
        self._hit_index = None
        self.move_cursor(position)
        item = self.current_item
        is_head = offset == (item is not None and item.has_gap) and item is not None and item.is_foldable
        if event.chain == 2 or (event.x in FOLD_CLICK_CELLS and (is_head or self.cards.is_folded(position.turn))):
            self.action_turn_over()

    # ── comparing ─────────────────────────────────────────────────────────────────────────────────

    def action_mark(self) -> None:
        """Mark the item under the cursor, or remove its mark."""
        mark = self.name_current_item()
        self.mark = None if self.mark == mark else mark
        self.refresh()
        text = "Marked. Press D on another item to compare them." if self.mark else "Removed the mark."
        self.notify(text, timeout=3, markup=False)

    def name_current_item(self) -> ItemMark:
        """Name the item under the cursor. A prompt or a folded turn means the whole turn."""
        session_id, item = self.cards.session_id, self.current_item
        turn = self.cards.turn_outline(self.cursor.turn)
        if item is None or item.kind == "prompt" or self.cards.is_folded(self.cursor.turn):
            seq = item.entry.seq if item is not None else turn.first_seq
            return ItemMark(session_id, seq, item.part_index if item else None, f"{session_id}#t{turn.n}")
        part = "" if item.part_index is None else f".{item.part_index}"
        return ItemMark(session_id, item.entry.seq, item.part_index, f"{session_id}#{item.entry.seq}{part}")

    # ── copying ───────────────────────────────────────────────────────────────────────────────────

    def action_copy(self) -> None:
        self.run_when_loaded(self._copy)

    def _copy(self) -> None:
        if (item := self.current_item) is not None:
            self.post_message(Copy(_copied_text(item), _COPY_LABELS.get(item.kind, "the item")))

    def action_copy_turn(self) -> None:
        if (turn := self.cards.turn(self.cursor.turn)) is not None:
            texts = [entry.text for entry in turn.entries if entry.kind == "message" and entry.text.strip()]
            self.post_message(Copy("\n\n".join(texts), "the turn"))

    def action_copy_code(self) -> None:
        self._copy_code(self.current_item.text if self.current_item is not None else "")

    @threaded(group="copy")
    def _copy_code(self, text: str) -> None:
        from tui.render.markdown import find_fenced_code

        if blocks_of_code := find_fenced_code(text):
            self.post_message(Copy("\n".join(blocks_of_code), "the code"))
        else:
            self.notify("No code block in this item.", timeout=2, markup=False)

    def action_copy_part(self, part: CallPart) -> None:
        self.run_when_loaded(partial(self._copy_part, part))

    def _copy_part(self, part: CallPart) -> None:
        call = self.current_item.call if self.current_item is not None else None
        if call is not None:
            self.post_message(self.CopyRequested(call, part))
        else:
            self.notify(NOT_A_CALL, timeout=2, markup=False)

    def action_inspect(self) -> None:
        self.run_when_loaded(self._inspect)

    def _inspect(self) -> None:
        item = self.current_item
        call = item.call if item is not None else None
        if item is not None and item.kind == "compaction":
            self.post_message(self.CompactionRequested(item.entry.seq))
        elif call is not None and call.key:
            self.post_message(self.InspectRequested(call.key))
        else:
            self.notify(NOT_A_CALL, timeout=2, markup=False)


_COPY_LABELS = {
    "prompt": "the prompt",
    "thinking": "the thinking",
    "call": "the call and its result",
    "text": "the answer",
    "note": "the note",
}


def _copied_text(item: TimelineItem) -> str:
    if item.kind != "call" or item.call is None:
        return item.text
    result = readable_text(item.call.result)
    return "\n\n".join(filter(None, [serialize(item.call.arguments).decode(), result]))


def _is_only(items: Sequence[TimelineItem], index: int, matches: Callable[[TimelineItem], bool]) -> bool:
    """Return whether the item with this index is the only one that matches."""
    return [n for n, item in enumerate(items) if matches(item)] == [index]


def _pick_item(items: Sequence[TimelineItem], matches: Callable[[TimelineItem], bool], by: int) -> int | None:
    indexes = [n for n, item in enumerate(items) if matches(item)]
    return indexes[0 if by > 0 else -1] if indexes else None


def _is_match_cut_off(item: TimelineItem, pattern: re.Pattern[str]) -> bool:
    """Return whether the first match in the result of a call comes after what is shown of a long result."""
    result = readable_text(item.call.result) if item.call else ""
    match = pattern.search(result)
    return match is not None and (
        match.start() >= DEFAULT_TEXT_LIMIT or result.count("\n", 0, match.start()) >= DEFAULT_RESULT_LINES
    )


def _matches(item: TimelineItem, pattern: re.Pattern[str]) -> bool:
    call = item.call
    texts = [item.text, item.label, *((readable_text(call.arguments), readable_text(call.result)) if call else ())]
    return any(map(pattern.search, texts))
