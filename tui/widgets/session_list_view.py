"""The list of sessions: all their keys, and the rows of those in view.

It never reads the store. It is given a listing, asks upwards for the rows that are about to be seen, and paints them
when they come; so a hundred thousand sessions cost it an array of integers and a few pages.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Hashable, Iterable
from datetime import UTC, datetime
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from store.model.session import Session
from store.search.list_rows import LINES, Listing, Row
from tui.messages import Told
from tui.render.session_lines import Branch, branch_of, heading_line, session_lines
from tui.render.styles import Line
from tui.widgets.line_view import LineView

PAGE = 64
"""How many rows are asked for at once."""

ROWS_KEPT = 16 * PAGE

AHEAD_SECONDS = 0.01
"""After a key has been answered, and between two portions of what the next one will show."""

AHEAD_LINES = 12
"""Painted at once: a key that comes meanwhile waits no longer than one notices."""

FOLD_CELLS = 3
"""So many cells from the left is the sign that folds."""


def _moving(keys: str, action: str, told: str, name: str, tooltip: str) -> Binding:
    """Priority: it need not go from widget to widget up to the app before it comes back here."""
    return Binding(keys, action, told, id=f"list.{name}", show=False, priority=True, tooltip=tooltip)


class SessionRows(LineView):
    """Which sessions are listed, what is known of them, and how they look."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "session-list--row",
        "session-list--cursor",
        "session-list--bar",
        "session-list--mark",
    }

    cursor: reactive[int] = reactive(0, repaint=False)
    now: reactive[datetime] = reactive(datetime.fromtimestamp(0, UTC), repaint=False)
    "What ages are told by."

    class Wanted(Told):
        """These sessions are in view, or soon will be, and their rows are not known."""

        page: int
        keys: array[int]
        edition: int

    def __init__(self) -> None:
        super().__init__()
        self.listing = Listing()
        self._words: re.Pattern[str] | None = None
        self._rows: dict[int, tuple[int, Row]] = {}
        self._asked: set[int] = set()
        self._marked: frozenset[int] = frozenset()
        self._edition = 0
        self._pair = _Pair()
        self._is_going_up = False

    def on_mount(self) -> None:
        self._ahead = self.set_interval(AHEAD_SECONDS, self._look_ahead, pause=True)

    # ── what is handed down ───────────────────────────────────────────────────────────────────────

    def begin(self, listing: Listing, rows: Iterable[Row]) -> None:
        """What stands in it when it is first painted."""
        self.listing = listing
        self.line_count = listing.line_count
        self._rows = {row.session.key: (self._edition, row) for row in rows}

    def show(self, listing: Listing, rows: Iterable[Row] = (), *, follow: bool, whole: bool = True) -> None:
        """Another list, or how it begins, with the rows that are known. Follow: the session under the cursor stays
        under it, and where it is on the screen."""
        found = listing.index(self.selected_key) if follow else 0
        line = self._line - self.scroll_offset.y
        self.listing = listing
        self._words = listing.query.pattern()
        if whole:
            self.line_count = listing.line_count
        else:
            self.expect_lines(listing.line_count)
        self.set_reactive(SessionRows.cursor, self.validate_cursor(self.cursor if found is None else found))
        self.scroll_to(y=self._top_for(line) if follow else 0, animate=False, force=True)
        self.expire(rows)

    def _top_for(self, line: int) -> int:
        """Where to scroll so that the cursor is on that line of the screen again. Whoever is at the top stays there
        to see what is new, unless that would push the cursor out of sight."""
        at, height = self._line, self.page.height
        if self.scroll_offset.y:
            return at - line
        return max(at + LINES - height, 0) if line < height else 0

    def supply(self, wanted: Wanted, rows: Iterable[Row]) -> None:
        """The answer to Wanted. One that was asked before the data changed is dropped; it has been asked again."""
        if wanted.edition != self._edition:
            return
        self._asked.discard(wanted.page)
        if len(self._rows) > ROWS_KEPT:
            near = {key for page in self._pages_near() for key in self._keys_on(page)}
            self._rows = {key: known for key, known in self._rows.items() if key in near}
        self._rows.update((row.session.key, (self._edition, row)) for row in rows)
        if wanted.page in self._pages_in_view():
            self.refresh()
        self._ahead.reset()

    def expire(self, fresh: Iterable[Row] = ()) -> None:
        """The sessions may have changed: what is known is shown until what is new has come."""
        self._edition += 1
        self._asked.clear()
        self._rows.update((row.session.key, (self._edition, row)) for row in fresh)
        self.forget_strips()
        self._want_rows()

    # ── what is asked for ─────────────────────────────────────────────────────────────────────────

    @property
    def keys(self) -> array[int]:
        return self.listing.keys

    @property
    def selected_key(self) -> int | None:
        return self.keys[self.cursor] if self.keys else None

    @property
    def selected(self) -> Session | None:
        row = self._row(self.selected_key)
        return row.session if row else None

    @property
    def marked(self) -> frozenset[int]:
        """The keys of the sessions that are marked, in sight or not."""
        return self._marked

    def _row(self, key: int | None) -> Row | None:
        known = self._rows.get(key) if key is not None else None
        return known[1] if known else None

    def _want_rows(self) -> None:
        """Those in view at once; those near when what is in view has been painted."""
        self._want(self._pages_in_view())
        self._ahead.reset()

    def _look_ahead(self) -> None:
        self._want(self._pages_near())
        height = self.page.height
        begin = self.scroll_offset.y + (-height if self._is_going_up else height)
        soon = range(max(begin, 0), min(begin + height, self.line_count))
        known = (line for line in soon if self._is_known(self.keys[self.listing.place(line).row]))
        if not self.paint_ahead(known, AHEAD_LINES):
            self._ahead.pause()

    def _want(self, pages: range) -> None:
        for page in pages:
            keys = self._keys_on(page)
            if page not in self._asked and not all(map(self._is_known, keys)):
                self._asked.add(page)
                self.post_message(self.Wanted(page, keys, self._edition))

    def _pages_in_view(self) -> range:
        top = self.listing.place(self.scroll_offset.y).row
        bottom = self.listing.place(self.scroll_offset.y + self.page.height).row
        return range(top // PAGE, bottom // PAGE + 1)

    def _pages_near(self) -> range:
        """The pages in view, and one on either side, so that scrolling meets rows that are there already."""
        seen = self._pages_in_view()
        last = (len(self.keys) - 1) // PAGE
        return range(max(seen.start - 1, 0), min(seen.stop, last) + 1)

    def _keys_on(self, page: int) -> array[int]:
        return self.keys[page * PAGE : (page + 1) * PAGE]

    def _is_known(self, key: int) -> bool:
        known = self._rows.get(key)
        return known is not None and known[0] == self._edition

    # ── painting ──────────────────────────────────────────────────────────────────────────────────

    def strip_key(self, line: int) -> Hashable:
        place = self.listing.place(line)
        key = self.keys[place.row]
        chosen = place.row == self.cursor and place.heading is None
        edition, _ = self._rows.get(key, (None, None))
        return line, edition, chosen, chosen and self.has_focus, key in self._marked

    def paint_line(self, line: int, width: int) -> Strip:
        place = self.listing.place(line)
        if place.heading is not None:
            told = heading_line(self.listing.headings[place.heading], self.listing.wanted.group, width - 2, self.now)
            return self.strip_of([(" ", ""), *told], width, self.component_style("session-list--row"))
        key = self.keys[place.row]
        row = self._row(key)
        text: Line = []
        if row:
            branch = branch_of(self.listing, place.row, row.children)
            text = self._pair.of(row, width - 2, self.now, branch, self._words)[place.part]
        chosen = place.row == self.cursor
        lead = ("▌", ".session-list--bar") if chosen else (" ", "")
        if key in self._marked and not place.part:
            lead = ("✓", ".session-list--mark")
        style = self.cursor_style("session-list--cursor") if chosen else self.component_style("session-list--row")
        return self.strip_of([lead, *text], width, style)

    @property
    def _line(self) -> int:
        """The first line of the row under the cursor."""
        return self.listing.line_of(self.cursor)

    def validate_cursor(self, row: int) -> int:
        return max(0, min(row, len(self.keys) - 1))

    def watch_now(self) -> None:
        self.forget_strips()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._is_going_up = new_value < old_value
        self._want_rows()

    def on_resize(self) -> None:
        self._want_rows()


class SessionList(SessionRows):
    """And what can be done with them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="list.open", tooltip="Read the conversation"),
        _moving("down,j", "move(1)", "Down", "down", "The next session"),
        _moving("up,k", "move(-1)", "Up", "up", "The session before"),
        _moving("pagedown,ctrl+d", "page(1)", "Page down", "page_down", "A page on"),
        _moving("pageup,ctrl+u", "page(-1)", "Page up", "page_up", "A page back"),
        _moving("home,g", "first", "First", "first", "The first session"),
        _moving("end,G", "last", "Last", "last", "The last session"),
        Binding("right", "unfold", "Unfold", id="list.unfold", show=False, tooltip="Show what came from this session"),
        Binding("left", "fold", "Fold", id="list.fold", show=False, tooltip="Hide what came from it; then, its parent"),
        Binding(
            "space", "mark", "Mark", id="list.mark", show=False, tooltip="Mark it, to do something to many at once"
        ),
        Binding("s", "scope", "Scope", id="list.scope", tooltip="Everywhere, this folder, this git work tree"),
        Binding("o", "order", "Order", id="list.order", tooltip="In which order, under which headings"),
    ]

    class Opened(Told):
        session: Session

    class Folded(Told):
        """The children of a session are to be shown, or not any more."""

        key: int
        folded: bool

    class Marked(Told):
        """Others are marked now."""

        keys: frozenset[int]

    class ScopeAsked(Message):
        """Another part of the world, please."""

    class OrderAsked(Message):
        """Another order, or other headings, please."""

    def mark(self, keys: frozenset[int]) -> None:
        self._marked = keys
        self.refresh()
        self.post_message(self.Marked(keys))

    # ── moving ────────────────────────────────────────────────────────────────────────────────────

    def watch_cursor(self, before: int, after: int) -> None:
        for row in (before, after):
            self.refresh_lines(self.listing.line_of(row), LINES)
        begin = self._line
        if begin and self.listing.place(begin - 1).heading is not None:
            begin -= 1  # with the heading, which nobody could reach otherwise
        height = self._line + LINES - begin
        self.scroll_to_region(Region(0, begin, 1, height), animate=False, force=True, immediate=True)

    def on_focus(self) -> None:
        self.refresh_lines(self._line, LINES)

    def on_blur(self) -> None:
        self.refresh_lines(self._line, LINES)

    def on_click(self, event: events.Click) -> None:
        line = event.y + self.scroll_offset.y
        if line >= self.line_count or (place := self.listing.place(line)).heading is not None:
            return
        self.cursor = place.row
        if event.ctrl:
            self._turn_mark()
        elif place.part and event.x < FOLD_CELLS and self._has_children():
            self._ask_to_fold(self.keys[place.row] in self.listing.wanted.unfolded)
        elif event.chain == 2:
            self.action_open()

    def action_move(self, by: int) -> None:
        self.cursor += by

    def action_page(self, by: int) -> None:
        self.cursor += by * max(self.page.height // LINES, 1)

    def action_first(self) -> None:
        self.cursor = 0

    def action_last(self) -> None:
        self.cursor = len(self.keys) - 1

    # ── acting ────────────────────────────────────────────────────────────────────────────────────

    def action_open(self) -> None:
        if self.selected is not None:
            self.post_message(self.Opened(self.selected))

    def action_scope(self) -> None:
        self.post_message(self.ScopeAsked())

    def action_order(self) -> None:
        self.post_message(self.OrderAsked())

    def action_unfold(self) -> None:
        """Then, into what was unfolded."""
        if self._has_children() and self.selected_key not in self.listing.wanted.unfolded:
            self._ask_to_fold(False)
        elif self.keys and self.listing.has_rows_beneath(self.cursor):
            self.cursor += 1

    def action_fold(self) -> None:
        if self.selected_key in self.listing.wanted.unfolded:
            self._ask_to_fold(True)
        elif self.keys and (parent := self.listing.parent(self.cursor)) is not None:
            self.cursor = parent

    def action_mark(self) -> None:
        """And on to the next, so that many are marked by holding the key."""
        self._turn_mark()
        self.cursor += 1

    def _turn_mark(self) -> None:
        if self.selected_key is not None:
            self.mark(self._marked ^ {self.selected_key})

    def _has_children(self) -> bool:
        row = self._row(self.selected_key)
        return row is not None and row.children > 0

    def _ask_to_fold(self, folded: bool) -> None:
        if self.selected_key is not None:
            self.post_message(self.Folded(self.selected_key, folded))


class _Pair:
    """A row's two lines are painted one after the other, and made together."""

    def __init__(self) -> None:
        self._asked: tuple[object, ...] = ()
        self._lines: tuple[Line, Line] = ([], [])

    def of(
        self, row: Row, width: int, now: datetime, branch: Branch, words: re.Pattern[str] | None
    ) -> tuple[Line, Line]:
        asked = (row, width, now, branch, words)
        if asked != self._asked:
            self._asked, self._lines = asked, session_lines(row, width, now, branch, words)
        return self._lines
