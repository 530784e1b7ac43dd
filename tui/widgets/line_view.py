"""The base of what shows very many lines: a line is painted when it comes into view, and a few hundred are kept."""

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

from tui.privacy.terminal_filter import is_safe_for_terminal
from tui.render.styles import StyledLine

if TYPE_CHECKING:
    from rich.style import Style as RichStyle
    from textual.color import Color
    from textual.filter import LineFilter

REVERSED = Style(reverse=True)


class _FilteredStrip(Strip):
    """All styles of which have gone through the filters already, each of them once and not on every line."""

    __slots__ = ()


class LineView(ScrollView, can_focus=True, inherit_bindings=False):
    """Subclasses say how many lines there are with `line_count`, and what stands on one with `paint_line`."""

    ALLOW_SELECT = False
    ALLOW_MAXIMIZE = False
    MAX_CACHED_STRIPS = 512

    def __init__(self) -> None:
        super().__init__()
        self._line_count = 0
        self._strips: LRUCache[Hashable, Strip] = LRUCache(self.MAX_CACHED_STRIPS)
        self._style_cache: dict[str, Style] = {}
        self._component_style_cache: dict[str, Style] = {}
        "Of what is being painted; who has the focus, and whether it is dark, may be another matter the next time."
        self._filtered_styles: dict[tuple[Style, str], RichStyle] = {}
        self._finish_inputs: tuple[Sequence[LineFilter], tuple[Color, Color]] | None = None
        "What every line has gone through that is kept finished."

    @property
    def page(self) -> Size:
        """What can be seen at once."""
        return self.scrollable_content_region.size

    @property
    def line_count(self) -> int:
        return self._line_count

    @line_count.setter
    def line_count(self, count: int) -> None:
        """Only a scrollbar that comes or goes has the screen laid out again, which takes longer than to paint it."""
        self._line_count = count
        size = Size(0, count)
        if self.size and self.show_vertical_scrollbar == (count > self.size.height):
            self.set_reactive(LineView.virtual_size, size)
            self._scroll_update(size)
        else:
            self.virtual_size = size

    def set_expected_line_count(self, count: int) -> None:
        """So many at least, while the others are being counted: until then the scrollbar stays as it is."""
        self._line_count = count

    def build_strip(self, line: int, width: int) -> Strip:
        raise NotImplementedError

    def strip_key(self, line: int) -> Hashable:
        """What a painted line depends on besides the data; two keys of one line are two strips."""
        return line

    def invalidate_strips(self) -> None:
        """Call when what the lines say has changed."""
        self._strips.clear()
        self.refresh_lines(self.scroll_offset.y, self.size.height)

    # ── scrolling ─────────────────────────────────────────────────────────────────────────────────

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Instead of Textual's, which paints the scrollbar anew even where its handle stays in place."""
        if self.show_vertical_scrollbar:
            self._move_handle(self.vertical_scrollbar, new_value)
        if round(old_value) != round(new_value):
            self.refresh_lines(round(new_value), self.size.height)

    def refresh_lines(self, y_start: int, line_count: int = 1) -> None:
        """Without the scrollbar beside them."""
        self.refresh(Region(0, y_start - self.scroll_offset.y, self._widths[1], line_count))

    def _move_handle(self, bar: ScrollBar, to: float) -> None:
        to = bar.validate_position(to)
        if self._handle_at(bar, to) == self._handle_at(bar, bar.position):
            bar.set_reactive(ScrollBar.position, to)
        else:
            bar.position = to

    def _handle_at(self, bar: ScrollBar, position: float) -> int:
        """In eighths of a cell, of which it is painted."""
        beyond, height = bar.window_virtual_size - bar.window_size, bar.size.height
        if beyond <= 0:
            return 0
        handle = max(1, bar.window_size * height / bar.window_virtual_size)
        return int((height - handle) * position / beyond * 8)

    # ── Textual's line API ────────────────────────────────────────────────────────────────────────

    def render_lines(self, crop: Region) -> list[Strip]:
        """Textual looks for borders and the like around each line, and makes it anew three times over, at every key
        that scrolls. Where there are none, a line is finished once and kept."""
        self._component_style_cache.clear()
        if self.styles.gutter:
            return super().render_lines(crop)
        finish = (self.get_line_filters(), self.background_colors)
        if finish != self._finish_inputs:
            self._finish_inputs = finish
            self._strips.clear()
            self._filtered_styles.clear()
        top, width, whole = self.scroll_offset.y, *self._widths
        lines = range(top + crop.y, min(top + crop.bottom, self.line_count))
        strips = [self._cached_strip(line, width, whole) for line in lines]
        if len(strips) < crop.height:
            strips += [self._finish_strip(Strip.blank(width, self.rich_style), whole)] * (crop.height - len(strips))
        if crop.column_span != (0, self.size.width):
            return [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def prerender_lines(self, lines: Iterable[int], at_most: int) -> int:
        """Lines that will be seen soon; so many of them as were not painted yet."""
        painted, (width, whole) = 0, self._widths
        self._component_style_cache.clear()
        for line in lines:
            if painted == at_most:
                break
            if self._finish_inputs and (self.strip_key(line), width, whole) not in self._strips:
                self._cached_strip(line, width, whole)
                painted += 1
        return painted

    @property
    def _widths(self) -> tuple[int, int]:
        """Of the text, and of a line: what the scrollbar covers is not painted. One that has just come covers nothing
        until it is laid out."""
        width = self.page.width
        is_covered = self.show_vertical_scrollbar and self.vertical_scrollbar.is_on_screen
        return width, width if is_covered else self.size.width

    def _cached_strip(self, line: int, width: int, whole: int) -> Strip:
        key = (self.strip_key(line), width, whole)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._finish_strip(self.build_strip(line, width), whole)
        return strip

    def _finish_strip(self, strip: Strip, width: int) -> Strip:
        filters, (beneath, background) = self._finish_inputs or ((), self.background_colors)
        if strip.cell_length != width:
            strip = strip.adjust_cell_length(width, Style(background=beneath + background).rich_style)
        if isinstance(strip, _FilteredStrip) and is_safe_for_terminal(strip.text):
            return strip
        segments = list(strip)
        for each in filters:
            segments = each.apply(segments, background)
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
        """Of one line, by hand: Textual's own way would wrap and align it first, and takes ten times as long."""
        if isinstance(line, Content):
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
        """Of a part of it that the stylesheet knows."""
        style = self._component_style_cache.get(name)
        if style is None:
            style = self._component_style_cache[name] = self.get_visual_style(name)
        return style

    def cursor_style(self, name: str) -> Style:
        """Of that component, reversed where it is to be: Textual forgets that of all styles of a text."""
        style = self.component_style(name)
        return style + REVERSED if self.get_component_styles(name).text_style.reverse else style

    def _filtered_style_on(self, beneath: Style, name: str) -> RichStyle:
        """That style on what lies beneath it."""
        key = (beneath, name)
        style = self._filtered_styles.get(key)
        if style is None:
            whole = beneath + self._lookup_style(name) if name else beneath
            style = self._filtered_styles[key] = self._filter_style(whole.rich_style)
        return style

    def _filter_style(self, style: RichStyle) -> RichStyle:
        segments = [Segment(" ", style)]
        filters, (_, background) = self._finish_inputs or ((), self.background_colors)
        for each in filters:
            segments = each.apply(segments, background)
        return segments[0].style or style

    def _lookup_style(self, name: str | Style) -> Style:
        if isinstance(name, Style):
            return name
        style = self._style_cache.get(name)
        if style is None:
            style = self._style_cache[name] = self._get_style(name)
        return style
