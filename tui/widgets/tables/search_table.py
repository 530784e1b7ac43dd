"""This module lists saved and recent searches, one per line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from textual.content import Content
from textual.message import Message

from store.search.saved_searches import SavedSearch
from store.text.sanitize import cell_width, one_line
from tui.render import glyphs
from tui.render.styles import FAINT, MUTED, STRONG, WARNING, build_content
from tui.widgets.cursor_view import CursorView

MAX_NAME_CELLS = 24


class SearchRow(NamedTuple):
    """Describes a saved search, or a recent one, which has no name."""

    query: str
    name: str = ""
    pinned: bool = False

    def matches(self, words: Sequence[str]) -> bool:
        text = f"@{self.name} {self.query}".casefold()
        return all(word in text for word in words)

    @property
    def text(self) -> str:
        """The text that runs the search when it is typed."""
        return f"@{self.name}" if self.name else self.query


def list_search_rows(searches: Iterable[SavedSearch], recent: Iterable[str]) -> list[SearchRow]:
    """Return the saved searches, the pinned ones first, and then the recent ones."""
    saved = [SearchRow(search.query, search.name, search.pinned) for search in searches]
    return [*sorted(saved, key=lambda row: not row.pinned), *map(SearchRow, recent)]


def widest_name(rows: Iterable[SearchRow]) -> int:
    return min(max((cell_width(row.name) + 1 for row in rows if row.name), default=0), MAX_NAME_CELLS)


def render_search_row(row: SearchRow, name_width: int, width: int) -> Content:
    """Render `★ @fails  is:error agent:claude`, or a recent search below its column."""
    mark = f"{glyphs.PINNED} " if row.pinned else "  "
    name = one_line(f"@{row.name}", name_width) if row.name else ""
    gap = " " * (name_width - cell_width(name) + 2 * bool(name_width))
    query = one_line(row.query, max(width - 2 - cell_width(name) - len(gap), 1))
    return build_content([(mark, WARNING), (name, STRONG), (gap, ""), (query, "" if row.name else MUTED)])


def render_searches_title(shown: int, saved: int, recent: int) -> Content:
    of = "" if shown == saved + recent else f"{shown:,} of "
    return build_content([("Searches", STRONG), (f"  {of}{saved:,} saved, {recent:,} recent", FAINT)])


class SearchTable(CursorView):
    class Opened(Message):
        """Says that a search was double-clicked."""

    class Highlighted(Message):
        """Says that the cursor moved to another search."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[SearchRow] = ()
        self._name_width = 0

    def show(self, rows: Sequence[SearchRow], *, keeps_cursor: bool) -> None:
        """Show searches. The cursor stays on its search or at least on its line, or goes to the first one."""
        current = self.selected.text if self.selected and keeps_cursor else None
        cursor = self.cursor if keeps_cursor else 0
        cursor = next((line for line, row in enumerate(rows) if row.text == current), cursor)
        self._rows, self._name_width = rows, widest_name(rows)
        self.replace_lines(len(rows), cursor)

    @property
    def selected(self) -> SearchRow | None:
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def render_row(self, index: int, width: int) -> Content:
        return render_search_row(self._rows[index], self._name_width, width)

    def handle_cursor_moved(self) -> None:
        self.post_message(self.Highlighted())

    def handle_double_click(self) -> None:
        self.post_message(self.Opened())
