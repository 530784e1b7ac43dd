"""The list of sessions: all their keys, and the rows of those in view.

It never reads the store. It is given keys, asks upwards for the rows that are about to be seen, and paints them when
they come; so a hundred thousand sessions cost it an array of integers and a few pages.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from store.model import Session
from tui.painting.sessions import Row, session_lines
from tui.widgets.line_view import LineView

LINES = 2
"""Lines to a session."""

PAGE = 64
"""How many rows are asked for at once."""

ROWS_KEPT = 16 * PAGE


class SessionList(LineView):
    COMPONENT_CLASSES: ClassVar[set[str]] = {"session-list--row", "session-list--cursor", "session-list--bar"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="list.open", tooltip="Read the conversation"),
        Binding("down,j", "move(1)", "Down", id="list.down", show=False, tooltip="The next session"),
        Binding("up,k", "move(-1)", "Up", id="list.up", show=False, tooltip="The session before"),
        Binding("pagedown,ctrl+d", "page(1)", "Page down", id="list.page_down", show=False, tooltip="A page on"),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", id="list.page_up", show=False, tooltip="A page back"),
        Binding("home,g", "first", "First", id="list.first", show=False, tooltip="The newest session"),
        Binding("end,G", "last", "Last", id="list.last", show=False, tooltip="The oldest session"),
    ]

    cursor: reactive[int] = reactive(0, repaint=False)
    now: reactive[datetime] = reactive(datetime.fromtimestamp(0, UTC), repaint=False)
    "What ages are told by."

    @dataclass
    class Wanted(Message):
        """These sessions are in view, or soon will be, and their rows are not known."""

        page: int
        keys: array[int]
        edition: int

    @dataclass
    class Opened(Message):
        session: Session

    def __init__(self) -> None:
        super().__init__()
        self.keys: array[int] = array("q")
        self._rows: dict[int, tuple[int, Row]] = {}
        self._asked: set[int] = set()
        self._edition = 0

    # ── what is handed down ───────────────────────────────────────────────────────────────────────

    def show(self, keys: array[int], *, follow: bool) -> None:
        """Another list. Follow: the session under the cursor stays under it, and where it is on the screen."""
        found = _index(keys, self.selected_key) if follow else 0
        line = self.cursor * LINES - self.scroll_offset.y
        self.keys = keys
        self.line_count = len(keys) * LINES
        self.set_reactive(SessionList.cursor, self.validate_cursor(self.cursor if found is None else found))
        self.scroll_to(y=self._top_for(line) if follow else 0, animate=False, force=True)
        self.expire()

    def _top_for(self, line: int) -> int:
        """Where to scroll so that the cursor is on that line of the screen again. Whoever is at the top stays there
        to see what is new, unless that would push the cursor out of sight."""
        at, height = self.cursor * LINES, self.page.height
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
        for row in rows:
            self._rows[row.session.key] = (self._edition, row)
        self.forget_strips()

    def expire(self) -> None:
        """The sessions may have changed: what is known is shown until what is new has come."""
        self._edition += 1
        self._asked.clear()
        self.forget_strips()
        self._want_rows()

    # ── what is asked for ─────────────────────────────────────────────────────────────────────────

    @property
    def selected_key(self) -> int | None:
        return self.keys[self.cursor] if self.keys else None

    @property
    def selected(self) -> Session | None:
        key = self.selected_key
        known = self._rows.get(key) if key is not None else None
        return known[1].session if known else None

    def _want_rows(self) -> None:
        for page in self._pages_near():
            keys = self._keys_on(page)
            if page not in self._asked and not all(map(self._is_known, keys)):
                self._asked.add(page)
                self.post_message(self.Wanted(page, keys, self._edition))

    def _pages_near(self) -> range:
        """The pages in view, and one on either side, so that scrolling meets rows that are there already."""
        top = self.scroll_offset.y // LINES
        bottom = top + self.page.height // LINES
        last = (len(self.keys) - 1) // PAGE
        return range(max(top // PAGE - 1, 0), min(bottom // PAGE + 1, last) + 1)

    def _keys_on(self, page: int) -> array[int]:
        return self.keys[page * PAGE : (page + 1) * PAGE]

    def _is_known(self, key: int) -> bool:
        known = self._rows.get(key)
        return known is not None and known[0] == self._edition

    # ── painting ──────────────────────────────────────────────────────────────────────────────────

    def strip_key(self, line: int) -> Hashable:
        return line, line // LINES == self.cursor and self.has_focus, line // LINES == self.cursor

    def paint_line(self, line: int, width: int) -> Strip:
        index, part = divmod(line, LINES)
        known = self._rows.get(self.keys[index])
        text = session_lines(known[1], width - 2, self.now)[part] if known else Content("")
        if index != self.cursor:
            style = self.get_visual_style("session-list--row")
            return self.strip_of(Content.assemble(" ", text), width, style)
        style = self.get_visual_style("session-list--cursor")
        return self.strip_of(Content.assemble(("▌", ".session-list--bar"), text), width, style)

    # ── moving ────────────────────────────────────────────────────────────────────────────────────

    def validate_cursor(self, index: int) -> int:
        return max(0, min(index, len(self.keys) - 1))

    def watch_cursor(self, before: int, after: int) -> None:
        self.refresh_lines(before * LINES, LINES)
        self.refresh_lines(after * LINES, LINES)
        self.scroll_to_region(Region(0, after * LINES, 1, LINES), animate=False, force=True, immediate=True)

    def watch_now(self) -> None:
        self.forget_strips()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._want_rows()

    def on_resize(self) -> None:
        self._want_rows()

    def on_focus(self) -> None:
        self.refresh_lines(self.cursor * LINES, LINES)

    def on_blur(self) -> None:
        self.refresh_lines(self.cursor * LINES, LINES)

    def on_click(self, event: events.Click) -> None:
        index = (event.y + self.scroll_offset.y) // LINES
        if index < len(self.keys):
            self.cursor = index
            if event.chain == 2:
                self.action_open()

    def action_move(self, by: int) -> None:
        self.cursor += by

    def action_page(self, by: int) -> None:
        self.cursor += by * max(self.page.height // LINES, 1)

    def action_first(self) -> None:
        self.cursor = 0

    def action_last(self) -> None:
        self.cursor = len(self.keys) - 1

    def action_open(self) -> None:
        if self.selected is not None:
            self.post_message(self.Opened(self.selected))


def _index(keys: array[int], key: int | None) -> int | None:
    try:
        return keys.index(key) if key is not None else None
    except ValueError:
        return None
