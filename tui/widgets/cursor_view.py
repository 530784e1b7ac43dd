"""This module is the base of lists with a cursor."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip

from tui.render import glyphs
from tui.widgets.line_view import LineView


class CursorView(LineView):
    """Shows lines with a cursor. Subclasses implement `render_row`, and the handlers that they need."""

    DEFAULT_CSS = """
    CursorView {
        .cursor-view--cursor {
            background: $surface-lighten-1;
        }

        .cursor-view--bar {
            color: $foreground 60%;
        }

        &:focus {
            .cursor-view--cursor {
                background: $primary-muted;
            }

            .cursor-view--bar {
                color: $accent;
            }
        }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"cursor-view--cursor", "cursor-view--bar"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", id="rows.down", show=False, tooltip="Next row"),
        Binding("up,k", "move(-1)", "Up", id="rows.up", show=False, tooltip="Previous row"),
        Binding("pagedown,ctrl+d", "page(1)", "Page down", id="rows.page_down", show=False, tooltip="Page down"),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", id="rows.page_up", show=False, tooltip="Page up"),
        Binding("home", "first", "First", id="rows.first", show=False, tooltip="Go to the first row"),
        Binding("end", "last", "Last", id="rows.last", show=False, tooltip="Go to the last row"),
    ]

    cursor: reactive[int] = reactive(0, repaint=False)

    hides_cursor_without_focus = False
    "Is set for a list beside other things with a cursor, so that a person sees which of them a key means."

    def render_row(self, index: int, width: int) -> Content:
        raise NotImplementedError

    def handle_cursor_moved(self) -> None:
        """Is called after the cursor moved."""

    def handle_click(self, x: int) -> None:
        """Is called after the row under the cursor was clicked, `x` cells from its left."""

    def handle_double_click(self) -> None:
        """Is called after the row under the cursor was double-clicked."""

    @property
    def text_width(self) -> int:
        """The width without the cursor's bar and a gap before the scrollbar."""
        return max(self.page.width - 2, 1)

    # ── painting ──────────────────────────────────────────────────────────────────────────────────

    def strip_key(self, line: int) -> Hashable:
        return line, line == self.cursor, line == self.cursor and self.has_focus

    def build_strip(self, line: int, width: int) -> Strip:
        text = self.render_row(line, self.text_width)
        if line != self.cursor or (self.hides_cursor_without_focus and not self.has_focus):
            return self.make_strip(Content.assemble(" ", text), width, self.visual_style)
        style = self.cursor_style("cursor-view--cursor")
        return self.make_strip(Content.assemble((glyphs.CURSOR, ".cursor-view--bar"), text), width, style)

    def replace_lines(self, count: int, cursor: int) -> None:
        """Show this many new lines with the cursor on one of them. Its row may be another one even if its number is the
        same, so `handle_cursor_moved` is always called."""
        self.line_count = count
        self.invalidate_strips()
        self.cursor = cursor
        self.scroll_to_cursor()
        self.handle_cursor_moved()

    # ── moving ────────────────────────────────────────────────────────────────────────────────────

    def validate_cursor(self, index: int) -> int:
        return max(0, min(index, self.line_count - 1))

    def watch_cursor(self, before: int, after: int) -> None:
        self.refresh_lines(before)
        self.refresh_lines(after)
        self.scroll_to_cursor()
        self.handle_cursor_moved()

    def scroll_to_cursor(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True, immediate=True)

    def on_focus(self) -> None:
        self.refresh_lines(self.cursor)

    def on_blur(self) -> None:
        self.refresh_lines(self.cursor)

    def on_click(self, event: events.Click) -> None:
        index = event.y + self.scroll_offset.y
        if index >= self.line_count:
            return
        self.cursor = index
        if event.chain == 2:
            self.handle_double_click()
        else:
            self.handle_click(event.x - 1)

    def action_move(self, by: int) -> None:
        self.cursor += by

    def action_page(self, by: int) -> None:
        self.cursor += by * max(self.page.height - 1, 1)

    def action_first(self) -> None:
        self.cursor = 0

    def action_last(self) -> None:
        self.cursor = self.line_count - 1
