"""This module shows the list of sessions. It holds the keys of all sessions, but only the rows near the view.

It never reads the store. It gets a layout, asks its parent for the rows that will be visible, and renders them when
they arrive. So a hundred thousand sessions cost an array of integers and a few pages of rows.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Hashable, Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from store.model.session import Session
from store.search.list_rows import EMPTY_GROUP, LINES_PER_ROW, TOOL_OUTPUT, SessionListLayout, SessionRow
from store.text.sanitize import cell_width
from tui.messages import DataMessage
from tui.render import glyphs
from tui.render.session_lines import (
    TreePrefix,
    build_tree_prefix,
    render_empty_group,
    render_group_heading,
    render_session,
)
from tui.render.styles import StyledLine, session_title
from tui.widgets.line_view import LineView

if TYPE_CHECKING:
    from store.model.knowledge import Hit

ROWS_PER_PAGE = 64
"""The number of rows to request together."""

MAX_CACHED_ROWS = 16 * ROWS_PER_PAGE

PREFETCH_INTERVAL = 0.01
"""Seconds after a key, and between two steps, in which lines for the next key are prepared."""

PRERENDER_LINES = 12
"""The number of lines to prepare in one step, so few that a key pressed at that time is not delayed noticeably."""

SCOPE_TOOLTIP = "Show all sessions, or those of this folder or git work tree"

CHOOSING = "-choosing"
"""The class of a list whose cursor is moved from the search box."""

TITLE_MARGIN = 8
"""The cells of a line beside its title: the edges, the cursor, the pin, a gap and the scrollbar."""

FOLD_CELLS = 3
"""The width at the left of a row in which a click folds it."""


def _movement_binding(keys: str, action: str, description: str, name: str, tooltip: str) -> Binding:
    """Build a binding with priority, so that the key does not pass through every widget first."""
    return Binding(keys, action, description, id=f"list.{name}", show=False, priority=True, tooltip=tooltip)


class CursorOrigin(NamedTuple):
    """Remembers the session that the cursor was on when a list came that does not have it."""

    key: int | None
    instead: int | None
    "The session under the cursor since then."


class SessionRows(LineView):
    """Holds the listed sessions and renders them."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "session-list--row",
        "session-list--cursor",
        "session-list--bar",
        "session-list--mark",
    }

    cursor: reactive[int] = reactive(0, repaint=False)
    now: reactive[datetime] = reactive(datetime.fromtimestamp(0, UTC), repaint=False)
    "The time that ages are relative to."

    class RowsRequested(DataMessage):
        """Asks for the rows of sessions that are visible or soon will be."""

        page: int
        keys: array[int]
        revision: int

    def __init__(self) -> None:
        super().__init__()
        self.listing = SessionListLayout()
        self._words: re.Pattern[str] | None = None
        self._rows: dict[int, tuple[int, SessionRow]] = {}
        self._requested_pages: set[int] = set()
        self._marked_keys: dict[int, None] = {}
        "Holds the marked sessions in the order in which they were marked."
        self._revision = 0
        self._row_lines = _RowLinesCache()
        self._is_going_up = False
        self._cursor_origin: CursorOrigin | None = None

    def on_mount(self) -> None:
        self._prefetch_timer = self.set_interval(PREFETCH_INTERVAL, self._prefetch, pause=True)

    # ── content ───────────────────────────────────────────────────────────────────────────────────

    def show_initial(self, listing: SessionListLayout, rows: Iterable[SessionRow]) -> None:
        """Set the content before the first paint."""
        self.listing = listing
        self.line_count = listing.line_count
        self._rows = {row.session.key: (self._revision, row) for row in rows}

    def show(
        self, listing: SessionListLayout, rows: Iterable[SessionRow] = (), *, follow: bool, whole: bool = True
    ) -> None:
        """Show another list, or the start of one if it is not `whole`, with the rows that are already known.

        With `follow`, the session under the cursor stays there and keeps its place on the screen. One that is not in
        the list gets the cursor back with the next list that has it, unless the cursor was moved.
        """
        origin, row = self._find_origin(), 0
        if follow:
            places = (listing.row_of(key) for key in (origin, self.selected_key))
            row = next((place for place in places if place is not None), self.cursor)
        line = self._cursor_line - self.scroll_offset.y
        self.listing = listing
        self._words = listing.query.pattern()
        if whole:
            self.line_count = listing.line_count
        else:
            self.set_expected_line_count(listing.line_count)
        self.set_reactive(SessionRows.cursor, self.validate_cursor(row))
        is_away = follow and origin != self.selected_key
        self._cursor_origin = CursorOrigin(origin, self.selected_key) if is_away else None
        self.scroll_to(y=self._scroll_top_for(line) if follow else 0, animate=False, force=True)
        self.invalidate_rows(rows)

    def _find_origin(self) -> int | None:
        """Return the session that the cursor belongs to: the one under it, or the one that is not listed."""
        origin = self._cursor_origin
        return origin.key if origin is not None and origin.instead == self.selected_key else self.selected_key

    def extend(self, listing: SessionListLayout) -> None:
        """Show the same list with other sessions at its end. The rows that are known stay valid."""
        selected = self.selected_key
        self.listing = listing
        self.line_count = listing.line_count
        row = listing.row_of(selected)
        self.set_reactive(SessionRows.cursor, self.validate_cursor(self.cursor if row is None else row))
        self.invalidate_strips()
        self._request_rows()

    def _scroll_top_for(self, line: int) -> int:
        """Return where to scroll so that the cursor is on that line of the screen again.

        A list that is at its top stays there to show new sessions, unless that would hide the cursor.
        """
        cursor_line, height = self._cursor_line, self.page.height
        if self.scroll_offset.y:
            return cursor_line - line
        return max(cursor_line + LINES_PER_ROW - height, 0) if line < height else 0

    def receive_rows(self, request: RowsRequested, rows: Iterable[SessionRow]) -> None:
        """Take the answer to `RowsRequested`. An answer from before the data changed is dropped and requested again."""
        if request.revision != self._revision:
            return
        self._requested_pages.discard(request.page)
        if len(self._rows) > MAX_CACHED_ROWS:
            near = {key for page in self._pages_near() for key in self._keys_on(page)}
            self._rows = {key: cached for key, cached in self._rows.items() if key in near}
        self._rows.update((row.session.key, (self._revision, row)) for row in rows)
        if request.page in self._pages_in_view():
            self.refresh()
        self._prefetch_timer.reset()

    def invalidate_rows(self, fresh: Iterable[SessionRow] = ()) -> None:
        """Request all rows again because the sessions may have changed. Old rows are shown until new ones arrive."""
        self._revision += 1
        self._requested_pages.clear()
        self._rows.update((row.session.key, (self._revision, row)) for row in fresh)
        self.invalidate_strips()
        self._request_rows()

    # ── requests ──────────────────────────────────────────────────────────────────────────────────

    @property
    def keys(self) -> array[int]:
        return self.listing.keys

    @property
    def selected_key(self) -> int | None:
        return self.keys[self.cursor] if self.keys else None

    @property
    def is_on_group(self) -> bool:
        """Whether the cursor is on the row of the empty sessions, which is not a session."""
        return self.selected_key == EMPTY_GROUP

    @property
    def selected(self) -> Session | None:
        row = self._cached_row(self.selected_key)
        return row.session if row else None

    @property
    def selected_tool_hit(self) -> Hit | None:
        """The hit in a tool call because of which the session under the cursor is listed, or None."""
        return self.listing.tool_hits.hits.get(self.selected_key) if self.selected_key is not None else None

    @property
    def title_cells(self) -> int:
        """The width of a list that shows the whole titles of the first page of sessions."""
        rows = islice(self._rows.values(), ROWS_PER_PAGE)
        return max((cell_width(session_title(row.session)) for _, row in rows), default=0) + TITLE_MARGIN

    @property
    def marked_keys(self) -> tuple[int, ...]:
        """The keys of the marked sessions that are listed, so that no action applies to hidden ones."""
        listed = set(self._marked_keys).intersection(self.keys) if self._marked_keys else ()
        return tuple(key for key in self._marked_keys if key in listed)

    def _cached_row(self, key: int | None) -> SessionRow | None:
        cached = self._rows.get(key) if key is not None else None
        if cached is None or key is None:
            return None
        tool_hit = self.listing.tool_hits.hits.get(key)
        return cached[1]._replace(hit=tool_hit) if tool_hit else cached[1]

    def _request_rows(self) -> None:
        """Request the visible rows now, and the rows near them after the visible ones are painted."""
        self._request_pages(self._pages_in_view())
        self._prefetch_timer.reset()

    def _prefetch(self) -> None:
        self._request_pages(self._pages_near())
        height = self.page.height
        first = self.scroll_offset.y + (-height if self._is_going_up else height)
        upcoming = range(max(first, 0), min(first + height, self.line_count))
        fresh = (line for line in upcoming if self._is_fresh(self.keys[self.listing.line_at(line).row]))
        if not self.prerender_lines(fresh, PRERENDER_LINES):
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
        """Return the visible pages and one on each side, so that scrolling finds their rows loaded."""
        visible = self._pages_in_view()
        last = (len(self.keys) - 1) // ROWS_PER_PAGE
        return range(max(visible.start - 1, 0), min(visible.stop, last) + 1)

    def _keys_on(self, page: int) -> array[int]:
        return self.keys[page * ROWS_PER_PAGE : (page + 1) * ROWS_PER_PAGE]

    def _is_fresh(self, key: int) -> bool:
        cached = self._rows.get(key)
        return key == EMPTY_GROUP or (cached is not None and cached[0] == self._revision)

    # ── painting ──────────────────────────────────────────────────────────────────────────────────

    def strip_key(self, line: int) -> Hashable:
        position = self.listing.line_at(line)
        key = self.keys[position.row]
        is_selected = position.row == self.cursor and position.heading is None
        revision, _ = self._rows.get(key, (None, None))
        return line, revision, is_selected, is_selected and self.is_active, key in self._marked_keys

    def build_strip(self, line: int, width: int) -> Strip:
        position = self.listing.line_at(line)
        if position.heading is not None:
            group = self.listing.headings[position.heading]
            has_more = group.value == TOOL_OUTPUT and self.listing.tool_hits.has_more
            heading = render_group_heading(group, self.listing.options.group, width - 2, self.now, has_more=has_more)
            return self.make_strip([(" ", ""), *heading], width, self.component_style("session-list--row"))
        key = self.keys[position.row]
        row = self._cached_row(key)
        text: StyledLine = []
        if key == EMPTY_GROUP:
            is_unfolded = EMPTY_GROUP in self.listing.options.unfolded
            count = self.listing.headings[-1].sessions
            text = render_empty_group(count, width - 2, is_unfolded=is_unfolded)[position.row_line]
        elif row:
            prefix = build_tree_prefix(self.listing, position.row, row.children)
            text = self._row_lines.get(row, width - 2, self.now, prefix, self._words)[position.row_line]
        is_selected = position.row == self.cursor
        lead = (glyphs.CURSOR, ".session-list--bar") if is_selected else (" ", "")
        if key in self._marked_keys and not position.row_line:
            lead = (glyphs.SELECTED, ".session-list--mark")
        style = self.cursor_style("session-list--cursor") if is_selected else self.component_style("session-list--row")
        return self.make_strip([lead, *text], width, style)

    @property
    def is_active(self) -> bool:
        """Whether the cursor looks as if the list had the focus."""
        return self.has_focus or self.has_class(CHOOSING)

    def show_as_active(self, active: bool) -> None:
        """Show that keys move the cursor although another widget has the focus."""
        if active != self.has_class(CHOOSING):
            self.set_class(active, CHOOSING)
            self.refresh_lines(self._cursor_line, LINES_PER_ROW)

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
    """Adds a cursor, marks and keys to the rows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="list.open", tooltip="Open the session"),
        _movement_binding("down,j", "move(1)", "Down", "down", "Next session"),
        _movement_binding("up,k", "move(-1)", "Up", "up", "Previous session"),
        _movement_binding("pagedown,ctrl+d", "page(1)", "Page down", "page_down", "Page down"),
        _movement_binding("pageup,ctrl+u", "page(-1)", "Page up", "page_up", "Page up"),
        _movement_binding("home,g", "first", "First", "first", "Go to the first session"),
        _movement_binding("end,G", "last", "Last", "last", "Go to the last session"),
        Binding(
            "right",
            "unfold",
            "Unfold",
            id="list.unfold",
            show=False,
            tooltip="Show the sessions that came from this one",
        ),
        Binding(
            "left",
            "fold",
            "Fold",
            id="list.fold",
            show=False,
            tooltip="Hide the sessions that came from this one, or go to its parent",
        ),
        # Priority, like the keys that move: the next of them must not come before this one.
        Binding(
            "space",
            "mark",
            "Select",
            id="list.mark",
            show=False,
            priority=True,
            tooltip="Select this session for the next action",
        ),
        Binding("escape", "unmark", "Clear selection", id="list.unmark", tooltip="Clear the selection"),
        Binding("s", "scope", "Scope", id="list.scope", tooltip=SCOPE_TOOLTIP),
        Binding("o", "order", "Order", id="list.order", tooltip="Choose the order and the headings"),
    ]

    class Opened(DataMessage):
        session: Session

    class FoldRequested(DataMessage):
        """Asks to show or hide the children of a session."""

        key: int
        folded: bool

    class MarkedChanged(Message):
        """Says that other sessions are marked."""

    class ScopeRequested(Message):
        """Asks for a dialog to choose the scope."""

    class OrderRequested(Message):
        """Asks for a dialog to choose the order and headings."""

    def set_marked(self, keys: Iterable[int]) -> None:
        self._marked_keys = dict.fromkeys(keys)
        self.refresh()
        self.post_message(self.MarkedChanged())

    def unmark_unlisted(self) -> int:
        """Unmark the sessions that are not listed any more, and return how many they were."""
        listed = self.marked_keys
        dropped = len(self._marked_keys) - len(listed)
        if dropped:
            self.set_marked(listed)
        return dropped

    # ── moving ────────────────────────────────────────────────────────────────────────────────────

    def watch_cursor(self, before: int, after: int) -> None:
        for row in (before, after):
            self.refresh_lines(self.listing.first_line_of(row), LINES_PER_ROW)
        first = self._cursor_line
        if first and self.listing.line_at(first - 1).heading is not None:
            first -= 1  # show the heading too, because the cursor cannot reach it
        height = self._cursor_line + LINES_PER_ROW - first
        self.scroll_to_region(Region(0, first, 1, height), animate=False, force=True, immediate=True)

    def on_focus(self) -> None:
        self.refresh_lines(self._cursor_line, LINES_PER_ROW)

    def on_blur(self) -> None:
        self.refresh_lines(self._cursor_line, LINES_PER_ROW)

    def on_click(self, event: events.Click) -> None:
        line = event.y + self.scroll_offset.y
        if line >= self.line_count or (position := self.listing.line_at(line)).heading is not None:
            return
        self.cursor = position.row
        if event.ctrl:
            self._toggle_mark()
        elif position.row_line and event.x < FOLD_CELLS and self._has_children():
            self._request_fold(self.keys[position.row] in self.listing.options.unfolded)
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
        if self.is_on_group:
            self._request_fold(EMPTY_GROUP in self.listing.options.unfolded)
        elif self.selected is not None:
            self.post_message(self.Opened(self.selected))

    def action_scope(self) -> None:
        self.post_message(self.ScopeRequested())

    def action_order(self) -> None:
        self.post_message(self.OrderRequested())

    def action_unfold(self) -> None:
        """Unfold the session. If it is unfolded, go to its first child."""
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
        """Mark the session and move on, so that holding the key marks many."""
        self._toggle_mark()
        self.cursor += 1

    def action_unmark(self) -> None:
        self.set_marked(())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "unmark":
            return bool(self._marked_keys)
        return super().check_action(action, parameters)

    def _toggle_mark(self) -> None:
        if self.selected_key is not None and not self.is_on_group:
            others = [key for key in self._marked_keys if key != self.selected_key]
            self.set_marked([*others, *[self.selected_key] * (self.selected_key not in self._marked_keys)])

    def _has_children(self) -> bool:
        row = self._cached_row(self.selected_key)
        return self.is_on_group or (row is not None and row.children > 0)

    def _request_fold(self, folded: bool) -> None:
        if self.selected_key is not None:
            self.post_message(self.FoldRequested(self.selected_key, folded))


class _RowLinesCache:
    """Caches the two lines of a row, which are rendered together but painted one after the other."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._lines: tuple[StyledLine, StyledLine] = ([], [])

    def get(
        self, row: SessionRow, width: int, now: datetime, prefix: TreePrefix, words: re.Pattern[str] | None
    ) -> tuple[StyledLine, StyledLine]:
        key = (row, width, now, prefix, words)
        if key != self._key:
            self._key, self._lines = key, render_session(row, width, now, prefix, words)
        return self._lines
