"""This module lists the scopes of memory as folders, and the lines, facts and proposals in one of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from textual import events
from textual.content import Content
from textual.geometry import Offset
from textual.message import Message

from tui.messages import DataMessage
from tui.render.memory_lines import MemoryGroup, MemoryRow, render_group, render_memory_row
from tui.widgets.cursor_view import CursorView


class MemoryGroupList(CursorView):
    """Lists the scopes. Its cursor chooses what the table shows."""

    class Chosen(DataMessage):
        key: str

    def __init__(self) -> None:
        super().__init__()
        self._groups: Sequence[MemoryGroup] = ()
        self._drop_target: int | None = None

    def show(self, groups: Sequence[MemoryGroup]) -> None:
        """Show scopes. The cursor stays on its scope if that is still listed."""
        current = self._groups[self.cursor].key if self.cursor < len(self._groups) else ""
        self._groups = groups
        self.replace_lines(len(groups), next((n for n, group in enumerate(groups) if group.key == current), 0))

    def render_row(self, index: int, width: int) -> Content:
        return render_group(self._groups[index], width, is_drop_target=index == self._drop_target)

    def strip_key(self, line: int) -> Hashable:
        return super().strip_key(line), line == self._drop_target

    def find_group(self, at: Offset) -> MemoryGroup | None:
        """Return the scope at a place of the screen."""
        index = at.y - self.content_region.y + self.scroll_offset.y
        return self._groups[index] if self.content_region.contains_point(at) and index < len(self._groups) else None

    def mark_drop_target(self, target: MemoryGroup | None) -> None:
        """Show where a fact that is dragged would be dropped."""
        self._drop_target = None if target is None else self._groups.index(target)
        self.invalidate_strips()

    def handle_cursor_moved(self) -> None:
        if self.cursor < len(self._groups):
            self.post_message(self.Chosen(self._groups[self.cursor].key))


class MemoryTable(CursorView):
    class Highlighted(Message):
        """Says that the cursor moved to another row, or that the rows were read again."""

    class Dragged(DataMessage):
        """Says where on the screen a row is dragged with the mouse."""

        row: MemoryRow
        at: Offset

    class Dropped(DataMessage):
        """Says where on the screen a row was dropped."""

        row: MemoryRow
        at: Offset

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[MemoryRow] = ()
        self._pressed: MemoryRow | None = None
        "Is the row on which the mouse was pressed."
        self._is_dragging = False

    def show(self, rows: Sequence[MemoryRow]) -> None:
        """Show rows. The cursor stays on its row if that is still listed."""
        current = self.selected.key if self.selected else ""
        cursor = self.cursor
        self._rows = rows
        self.replace_lines(len(rows), next((n for n, row in enumerate(rows) if row.key == current), cursor))

    @property
    def selected(self) -> MemoryRow | None:
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def render_row(self, index: int, width: int) -> Content:
        return render_memory_row(self._rows[index], width)

    def handle_cursor_moved(self) -> None:
        self.post_message(self.Highlighted())

    # ── dragging ──────────────────────────────────────────────────────────────────────────────────

    def on_mouse_down(self, event: events.MouseDown) -> None:
        index = event.y + self.scroll_offset.y
        self._pressed = self._rows[index] if event.button == 1 and index < len(self._rows) else None

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._pressed is None or event.button != 1:
            return
        if not self._is_dragging:
            self._is_dragging = True
            self.capture_mouse()
        self.post_message(self.Dragged(self._pressed, event.screen_offset))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        row, self._pressed = self._pressed, None
        if self._is_dragging and row is not None:
            self._is_dragging = False
            self.release_mouse()
            self.post_message(self.Dropped(row, event.screen_offset))
