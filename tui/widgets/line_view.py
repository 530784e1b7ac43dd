"""This module is the base of views with very many lines. It renders a line when it becomes visible and caches some."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.style import Style

from store.text.sanitize import CHARACTERS_PER_CELL, ELLIPSIS
from tui.privacy.terminal_filter import is_safe_for_terminal
from tui.render.styles import StyledLine
from tui.textual_compat import resolve_style, set_virtual_size

if TYPE_CHECKING:
    from rich.style import Style as RichStyle
    from textual.color import Color
    from textual.filter import LineFilter

REVERSED = Style(reverse=True)


class _FilteredStrip(Strip):
    """Is a strip whose styles have already passed the line filters. Each style is filtered once, not once per line."""

    __slots__ = ()


class LineView(ScrollView, can_focus=True, inherit_bindings=False):
    """Shows many lines. Subclasses set `line_count` and render a line in `build_strip`."""

    ALLOW_SELECT = False
    ALLOW_MAXIMIZE = False
    MAX_CACHED_STRIPS = 512

    def __init__(self) -> None:
        super().__init__()
        self._line_count = 0
        self._strips: LRUCache[Hashable, Strip] = LRUCache(self.MAX_CACHED_STRIPS)
        self._style_cache: dict[str, Style] = {}
        self._component_style_cache: dict[str, Style] = {}
        "Is cleared before each paint, because the focus or the theme may have changed."
        self._filtered_styles: dict[tuple[Style, str], RichStyle] = {}
        self._finish_inputs: tuple[Sequence[LineFilter], tuple[Color, Color]] | None = None
        "The filters and background that the cached strips were finished with."

    @property
    def page(self) -> Size:
        """The size of the visible part."""
        return self.scrollable_content_region.size

    @property
    def line_count(self) -> int:
        return self._line_count

    @line_count.setter
    def line_count(self, count: int) -> None:
        """Set the number of lines. The screen is laid out again only if the scrollbar appears or disappears."""
        self._line_count = count
        size = Size(0, count)
        if self.size and self.show_vertical_scrollbar == (count > self.size.height):
            set_virtual_size(self, size)
        else:
            self.virtual_size = size

    def set_expected_line_count(self, count: int) -> None:
        """Set a preliminary number of lines while the rest is being counted. The scrollbar does not change."""
        self._line_count = count

    def build_strip(self, line: int, width: int) -> Strip:
        raise NotImplementedError

    def strip_key(self, line: int) -> Hashable:
        """Return what a rendered line depends on besides the data. A line has one cached strip per key."""
        return line

    def invalidate_strips(self) -> None:
        """Drop all cached strips. Call this when the content of the lines has changed."""
        self._strips.clear()
        self.refresh_lines(self.scroll_offset.y, self.size.height)

    # ── scrolling ─────────────────────────────────────────────────────────────────────────────────

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Replace Textual's method, which repaints the scrollbar even if its handle does not move."""
        if self.show_vertical_scrollbar:
            self._move_handle(self.vertical_scrollbar, new_value)
        if round(old_value) != round(new_value):
            self.refresh_lines(round(new_value), self.size.height)

    def watch_show_vertical_scrollbar(self, is_shown: bool) -> None:
        """Place the handle when the scrollbar appears, because the view may have scrolled before."""
        if is_shown:
            self.vertical_scrollbar.position = self.scroll_y

    def refresh_lines(self, y_start: int, line_count: int = 1) -> None:
        """Repaint lines without the scrollbar."""
        self.refresh(Region(0, y_start - self.scroll_offset.y, self._widths[1], line_count))

    def _move_handle(self, bar: ScrollBar, position: float) -> None:
        position = bar.validate_position(position)
        if self._handle_at(bar, position) == self._handle_at(bar, bar.position):
            bar.set_reactive(ScrollBar.position, position)
        else:
            bar.position = position

    def _handle_at(self, bar: ScrollBar, position: float) -> int:
        """Return the position of the handle in eighths of a cell, as it is painted."""
        scrollable, height = bar.window_virtual_size - bar.window_size, bar.size.height
        if scrollable <= 0:
            return 0
        handle_height = max(1, bar.window_size * height / bar.window_virtual_size)
        return int((height - handle_height) * position / scrollable * 8)

    # ── Textual's line API ────────────────────────────────────────────────────────────────────────

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render the visible lines from the cache.

        Textual checks every line for borders and copies it three times at every key that scrolls. Without borders, a
        line is finished once and cached.
        """
        self._component_style_cache.clear()
        if self.styles.gutter:
            return super().render_lines(crop)
        finish_inputs = (self.get_line_filters(), self.background_colors)
        if finish_inputs != self._finish_inputs:
            self._finish_inputs = finish_inputs
            self._strips.clear()
            self._filtered_styles.clear()
        top, width, line_width = self.scroll_offset.y, *self._widths
        lines = range(top + crop.y, min(top + crop.bottom, self.line_count))
        strips = [self._cached_strip(line, width, line_width) for line in lines]
        if len(strips) < crop.height:
            strips += [self._finish_strip(Strip.blank(width, self.rich_style), line_width)] * (
                crop.height - len(strips)
            )
        if crop.column_span != (0, self.size.width):
            return [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def prerender_lines(self, lines: Iterable[int], at_most: int) -> int:
        """Render lines that will be visible soon into the cache. Return the number of lines that were not cached."""
        rendered, (width, line_width) = 0, self._widths
        self._component_style_cache.clear()
        for line in lines:
            if rendered == at_most:
                break
            if self._finish_inputs and (self.strip_key(line), width, line_width) not in self._strips:
                self._cached_strip(line, width, line_width)
                rendered += 1
        return rendered

    @property
    def _widths(self) -> tuple[int, int]:
        """The width of the text, and of a line. A line excludes the scrollbar, once the scrollbar is laid out."""
        width = self.page.width
        is_covered = self.show_vertical_scrollbar and self.vertical_scrollbar.is_on_screen
        return width, width if is_covered else self.size.width

    def _cached_strip(self, line: int, width: int, line_width: int) -> Strip:
        key = (self.strip_key(line), width, line_width)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._finish_strip(self.build_strip(line, width), line_width)
        return strip

    def _finish_strip(self, strip: Strip, width: int) -> Strip:
        filters, (base, background) = self._finish_inputs or ((), self.background_colors)
        if strip.cell_length != width:
            strip = strip.adjust_cell_length(width, Style(background=base + background).rich_style)
        if isinstance(strip, _FilteredStrip) and is_safe_for_terminal(strip.text):
            return strip
        segments = list(strip)
        for line_filter in filters:
            segments = line_filter.apply(segments, background)
        return Strip(segments, width)

    def render_line(self, y: int) -> Strip:
        line, width = self.scroll_offset.y + y, self.page.width
        if line >= self.line_count:
            return Strip.blank(width, self.rich_style)
        key = (self.strip_key(line), width)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self.build_strip(line, width)
        return strip

    def notify_style_update(self) -> None:
        self._strips.clear()
        self._style_cache.clear()
        self._filtered_styles.clear()
        super().notify_style_update()

    def make_strip(self, line: Content | StyledLine, width: int, style: Style) -> Strip:
        """Render one line. Textual's own method wraps and aligns it first, which takes ten times as long."""
        if isinstance(line, Content):
            if len(line.plain) > (most := CHARACTERS_PER_CELL * width):
                line = line[:most] + ELLIPSIS  # a letter may have any number of marks, which take no room
            pieces = line.render(style, "", self._lookup_style)
            segments = [Segment(text, piece.rich_style) for text, piece in pieces if text]
        else:
            segments = [Segment(text, self._filtered_style_on(style, name)) for text, name in line if text]
        room = width - sum(len(text) if text.isascii() else cell_len(text) for text, _, _ in segments)
        if room < 0:
            return Strip(segments).adjust_cell_length(width)
        if room:
            segments.append(Segment(" " * room, self._filtered_style_on(style, "")))
        return _FilteredStrip(segments, width) if isinstance(line, list) else Strip(segments, width)

    def component_style(self, name: str) -> Style:
        """Return the style of a component class."""
        style = self._component_style_cache.get(name)
        if style is None:
            style = self._component_style_cache[name] = self.get_visual_style(name)
        return style

    def cursor_style(self, name: str) -> Style:
        """Return the style of a component class, with its `reverse`, which Textual drops."""
        style = self.component_style(name)
        return style + REVERSED if self.get_component_styles(name).text_style.reverse else style

    def _filtered_style_on(self, base: Style, name: str) -> RichStyle:
        """Return a named style combined with the style below it."""
        key = (base, name)
        style = self._filtered_styles.get(key)
        if style is None:
            combined = base + self._lookup_style(name) if name else base
            style = self._filtered_styles[key] = self._filter_style(combined.rich_style)
        return style

    def _filter_style(self, style: RichStyle) -> RichStyle:
        segments = [Segment(" ", style)]
        filters, (_, background) = self._finish_inputs or ((), self.background_colors)
        for line_filter in filters:
            segments = line_filter.apply(segments, background)
        filtered = segments[0].style
        return style if filtered is None else filtered  # a style without colours and attributes is false

    def _lookup_style(self, name: str | Style) -> Style:
        if isinstance(name, Style):
            return name
        style = self._style_cache.get(name)
        if style is None:
            style = self._style_cache[name] = resolve_style(self, name)
        return style
