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
from store.search.list_rows import LINES_PER_ROW, SessionListLayout, SessionRow
from tui.messages import DataMessage
from tui.render.session_lines import TreePrefix, build_tree_prefix, render_group_heading, render_session
from tui.render.styles import StyledLine
from tui.widgets.line_view import LineView

ROWS_PER_PAGE = 64
"""How many rows are asked for at once."""

MAX_CACHED_ROWS = 16 * ROWS_PER_PAGE

PREFETCH_INTERVAL = 0.01
"""After a key has been answered, and between two portions of what the next one will show."""

PRERENDER_LINES = 12
"""Painted at once: a key that comes meanwhile waits no longer than one notices."""

FOLD_CELLS = 3
"""So many cells from the left is the sign that folds."""


def _movement_binding(keys: str, action: str, told: str, name: str, tooltip: str) -> Binding:
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

    class RowsRequested(DataMessage):
        """These sessions are in view, or soon will be, and their rows are not known."""

        page: int
        keys: array[int]
        revision: int

    def __init__(self) -> None:
        super().__init__()
        self.listing = SessionListLayout()
        self._words: re.Pattern[str] | None = None
        self._rows: dict[int, tuple[int, SessionRow]] = {}
        self._requested_pages: set[int] = set()
        self._marked_keys: frozenset[int] = frozenset()
        self._revision = 0
        self._row_lines = _RowLinesCache()
        self._is_going_up = False

    def on_mount(self) -> None:
        self._prefetch_timer = self.set_interval(PREFETCH_INTERVAL, self._prefetch, pause=True)

    # ── what is handed down ───────────────────────────────────────────────────────────────────────

    def show_initial(self, listing: SessionListLayout, rows: Iterable[SessionRow]) -> None:
        """What stands in it when it is first painted."""
        self.listing = listing
        self.line_count = listing.line_count
        self._rows = {row.session.key: (self._revision, row) for row in rows}

    def show(
        self, listing: SessionListLayout, rows: Iterable[SessionRow] = (), *, follow: bool, whole: bool = True
    ) -> None:
        """Another list, or how it begins, with the rows that are known. Follow: the session under the cursor stays
        under it, and where it is on the screen."""
        found = listing.row_of(self.selected_key) if follow else 0
        line = self._cursor_line - self.scroll_offset.y
        self.listing = listing
        self._words = listing.query.pattern()
        if whole:
            self.line_count = listing.line_count
        else:
            self.set_expected_line_count(listing.line_count)
        self.set_reactive(SessionRows.cursor, self.validate_cursor(self.cursor if found is None else found))
        self.scroll_to(y=self._scroll_top_for(line) if follow else 0, animate=False, force=True)
        self.invalidate_rows(rows)

    def _scroll_top_for(self, line: int) -> int:
        """Where to scroll so that the cursor is on that line of the screen again. Whoever is at the top stays there
        to see what is new, unless that would push the cursor out of sight."""
        at, height = self._cursor_line, self.page.height
        if self.scroll_offset.y:
            return at - line
        return max(at + LINES_PER_ROW - height, 0) if line < height else 0

    def receive_rows(self, wanted: RowsRequested, rows: Iterable[SessionRow]) -> None:
        """The answer to Wanted. One that was asked before the data changed is dropped; it has been asked again."""
        if wanted.revision != self._revision:
            return
        self._requested_pages.discard(wanted.page)
        if len(self._rows) > MAX_CACHED_ROWS:
            near = {key for page in self._pages_near() for key in self._keys_on(page)}
            self._rows = {key: known for key, known in self._rows.items() if key in near}
        self._rows.update((row.session.key, (self._revision, row)) for row in rows)
        if wanted.page in self._pages_in_view():
            self.refresh()
        self._prefetch_timer.reset()

    def invalidate_rows(self, fresh: Iterable[SessionRow] = ()) -> None:
        """The sessions may have changed: what is known is shown until what is new has come."""
        self._revision += 1
        self._requested_pages.clear()
        self._rows.update((row.session.key, (self._revision, row)) for row in fresh)
        self.invalidate_strips()
        self._request_rows()

    # ── what is asked for ─────────────────────────────────────────────────────────────────────────

    @property
    def keys(self) -> array[int]:
        return self.listing.keys

    @property
    def selected_key(self) -> int | None:
        return self.keys[self.cursor] if self.keys else None

    @property
    def selected(self) -> Session | None:
        row = self._cached_row(self.selected_key)
        return row.session if row else None

    @property
    def marked_keys(self) -> frozenset[int]:
        """The keys of the sessions that are marked, in sight or not."""
        return self._marked_keys

    def _cached_row(self, key: int | None) -> SessionRow | None:
        known = self._rows.get(key) if key is not None else None
        return known[1] if known else None

    def _request_rows(self) -> None:
        """Those in view at once; those near when what is in view has been painted."""
        self._request_pages(self._pages_in_view())
        self._prefetch_timer.reset()

    def _prefetch(self) -> None:
        self._request_pages(self._pages_near())
        height = self.page.height
        begin = self.scroll_offset.y + (-height if self._is_going_up else height)
        soon = range(max(begin, 0), min(begin + height, self.line_count))
        known = (line for line in soon if self._is_fresh(self.keys[self.listing.line_at(line).row]))
        if not self.prerender_lines(known, PRERENDER_LINES):
            self._prefetch_timer.pause()

    def _request_pages(self, pages: range) -> None:
        for page in pages:
            keys = self._keys_on(page)
            if page not in self._requested_pages and not all(map(self._is_fresh, keys)):
                self._requested_pages.add(page)
                self.post_message(self.RowsRequested(page, keys, self._revision))

    def _pages_in_view(self) -> range:
        top = self.listing.line_at(self.scroll_offset.y).row
        bottom = self.listing.line_at(self.scroll_offset.y + self.page.height).row
        return range(top // ROWS_PER_PAGE, bottom // ROWS_PER_PAGE + 1)

    def _pages_near(self) -> range:
        """The pages in view, and one on either side, so that scrolling meets rows that are there already."""
        seen = self._pages_in_view()
        last = (len(self.keys) - 1) // ROWS_PER_PAGE
        return range(max(seen.start - 1, 0), min(seen.stop, last) + 1)

    def _keys_on(self, page: int) -> array[int]:
        return self.keys[page * ROWS_PER_PAGE : (page + 1) * ROWS_PER_PAGE]

    def _is_fresh(self, key: int) -> bool:
        known = self._rows.get(key)
        return known is not None and known[0] == self._revision

    # ── painting ──────────────────────────────────────────────────────────────────────────────────

    def strip_key(self, line: int) -> Hashable:
        place = self.listing.line_at(line)
        key = self.keys[place.row]
        chosen = place.row == self.cursor and place.heading is None
        edition, _ = self._rows.get(key, (None, None))
        return line, edition, chosen, chosen and self.has_focus, key in self._marked_keys

    def build_strip(self, line: int, width: int) -> Strip:
        place = self.listing.line_at(line)
        if place.heading is not None:
            told = render_group_heading(
                self.listing.headings[place.heading], self.listing.options.group, width - 2, self.now
            )
            return self.make_strip([(" ", ""), *told], width, self.component_style("session-list--row"))
        key = self.keys[place.row]
        row = self._cached_row(key)
        text: StyledLine = []
        if row:
            branch = build_tree_prefix(self.listing, place.row, row.children)
            text = self._row_lines.get(row, width - 2, self.now, branch, self._words)[place.row_line]
        chosen = place.row == self.cursor
        lead = ("▌", ".session-list--bar") if chosen else (" ", "")
        if key in self._marked_keys and not place.row_line:
            lead = ("✓", ".session-list--mark")
        style = self.cursor_style("session-list--cursor") if chosen else self.component_style("session-list--row")
        return self.make_strip([lead, *text], width, style)

    @property
    def _cursor_line(self) -> int:
        """The first line of the row under the cursor."""
        return self.listing.first_line_of(self.cursor)

    def validate_cursor(self, row: int) -> int:
        return max(0, min(row, len(self.keys) - 1))

    def watch_now(self) -> None:
        self.invalidate_strips()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._is_going_up = new_value < old_value
        self._request_rows()

    def on_resize(self) -> None:
        self._request_rows()


class SessionListView(SessionRows):
    """And what can be done with them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="list.open", tooltip="Read the conversation"),
        _movement_binding("down,j", "move(1)", "Down", "down", "The next session"),
        _movement_binding("up,k", "move(-1)", "Up", "up", "The session before"),
        _movement_binding("pagedown,ctrl+d", "page(1)", "Page down", "page_down", "A page on"),
        _movement_binding("pageup,ctrl+u", "page(-1)", "Page up", "page_up", "A page back"),
        _movement_binding("home,g", "first", "First", "first", "The first session"),
        _movement_binding("end,G", "last", "Last", "last", "The last session"),
        Binding("right", "unfold", "Unfold", id="list.unfold", show=False, tooltip="Show what came from this session"),
        Binding("left", "fold", "Fold", id="list.fold", show=False, tooltip="Hide what came from it; then, its parent"),
        Binding(
            "space", "mark", "Mark", id="list.mark", show=False, tooltip="Mark it, to do something to many at once"
        ),
        Binding("s", "scope", "Scope", id="list.scope", tooltip="Everywhere, this folder, this git work tree"),
        Binding("o", "order", "Order", id="list.order", tooltip="In which order, under which headings"),
    ]

    class Opened(DataMessage):
        session: Session

    class FoldRequested(DataMessage):
        """The children of a session are to be shown, or not any more."""

        key: int
        folded: bool

    class MarkedChanged(DataMessage):
        """Others are marked now."""

        keys: frozenset[int]

    class ScopeRequested(Message):
        """Another part of the world, please."""

    class OrderRequested(Message):
        """Another order, or other headings, please."""

    def set_marked(self, keys: frozenset[int]) -> None:
        self._marked_keys = keys
        self.refresh()
        self.post_message(self.MarkedChanged(keys))

    # ── moving ────────────────────────────────────────────────────────────────────────────────────

    def watch_cursor(self, before: int, after: int) -> None:
        for row in (before, after):
            self.refresh_lines(self.listing.first_line_of(row), LINES_PER_ROW)
        begin = self._cursor_line
        if begin and self.listing.line_at(begin - 1).heading is not None:
            begin -= 1  # with the heading, which nobody could reach otherwise
        height = self._cursor_line + LINES_PER_ROW - begin
        self.scroll_to_region(Region(0, begin, 1, height), animate=False, force=True, immediate=True)

    def on_focus(self) -> None:
        self.refresh_lines(self._cursor_line, LINES_PER_ROW)

    def on_blur(self) -> None:
        self.refresh_lines(self._cursor_line, LINES_PER_ROW)

    def on_click(self, event: events.Click) -> None:
        line = event.y + self.scroll_offset.y
        if line >= self.line_count or (place := self.listing.line_at(line)).heading is not None:
            return
        self.cursor = place.row
        if event.ctrl:
            self._toggle_mark()
        elif place.row_line and event.x < FOLD_CELLS and self._has_children():
            self._request_fold(self.keys[place.row] in self.listing.options.unfolded)
        elif event.chain == 2:
            self.action_open()

    def action_move(self, by: int) -> None:
        self.cursor += by

    def action_page(self, by: int) -> None:
        self.cursor += by * max(self.page.height // LINES_PER_ROW, 1)

    def action_first(self) -> None:
        self.cursor = 0

    def action_last(self) -> None:
        self.cursor = len(self.keys) - 1

    # ── acting ────────────────────────────────────────────────────────────────────────────────────

    def action_open(self) -> None:
        if self.selected is not None:
            self.post_message(self.Opened(self.selected))

    def action_scope(self) -> None:
        self.post_message(self.ScopeRequested())

    def action_order(self) -> None:
        self.post_message(self.OrderRequested())

    def action_unfold(self) -> None:
        """Then, into what was unfolded."""
        if self._has_children() and self.selected_key not in self.listing.options.unfolded:
            self._request_fold(False)
        elif self.keys and self.listing.has_rows_beneath(self.cursor):
            self.cursor += 1

    def action_fold(self) -> None:
        if self.selected_key in self.listing.options.unfolded:
            self._request_fold(True)
        elif self.keys and (parent := self.listing.parent_row(self.cursor)) is not None:
            self.cursor = parent

    def action_mark(self) -> None:
        """And on to the next, so that many are marked by holding the key."""
        self._toggle_mark()
        self.cursor += 1

    def _toggle_mark(self) -> None:
        if self.selected_key is not None:
            self.set_marked(self._marked_keys ^ {self.selected_key})

    def _has_children(self) -> bool:
        row = self._cached_row(self.selected_key)
        return row is not None and row.children > 0

    def _request_fold(self, folded: bool) -> None:
        if self.selected_key is not None:
            self.post_message(self.FoldRequested(self.selected_key, folded))


class _RowLinesCache:
    """A row's two lines are painted one after the other, and made together."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._lines: tuple[StyledLine, StyledLine] = ([], [])

    def get(
        self, row: SessionRow, width: int, now: datetime, branch: TreePrefix, words: re.Pattern[str] | None
    ) -> tuple[StyledLine, StyledLine]:
        asked = (row, width, now, branch, words)
        if asked != self._key:
            self._key, self._lines = asked, render_session(row, width, now, branch, words)
        return self._lines
