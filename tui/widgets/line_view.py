"""The base of what shows very many lines: a line is painted when it comes into view, and a few hundred are kept."""

from __future__ import annotations

from collections.abc import Hashable

from rich.segment import Segment
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style


class LineView(ScrollView, can_focus=True, inherit_bindings=False):
    """Subclasses say how many lines there are with `line_count`, and what stands on one with `paint_line`."""

    ALLOW_SELECT = False
    ALLOW_MAXIMIZE = False
    STRIPS_KEPT = 512

    def __init__(self) -> None:
        super().__init__()
        self._strips: LRUCache[Hashable, Strip] = LRUCache(self.STRIPS_KEPT)
        self._styles: dict[str, Style] = {}

    @property
    def page(self) -> Size:
        """What can be seen at once."""
        return self.scrollable_content_region.size

    @property
    def line_count(self) -> int:
        return self.virtual_size.height

    @line_count.setter
    def line_count(self, count: int) -> None:
        self.virtual_size = Size(0, count)

    def paint_line(self, line: int, width: int) -> Strip:
        raise NotImplementedError

    def strip_key(self, line: int) -> Hashable:
        """What a painted line depends on besides the data; two keys of one line are two strips."""
        return line

    def forget_strips(self) -> None:
        """Call when what the lines say has changed."""
        self._strips.clear()
        self.refresh()

    # ── Textual's line API ────────────────────────────────────────────────────────────────────────

    def render_line(self, y: int) -> Strip:
        line, width = self.scroll_offset.y + y, self.page.width
        if line >= self.line_count:
            return Strip.blank(width, self.rich_style)
        key = (self.strip_key(line), width)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self.paint_line(line, width)
        return strip

    def notify_style_update(self) -> None:
        self._strips.clear()
        self._styles.clear()
        super().notify_style_update()

    def strip_of(self, content: Content, width: int, style: Style) -> Strip:
        """Of one line, by hand: Textual's own way would wrap and align it first, and takes ten times as long."""
        pieces = content.render(style, "", self._style_of)
        return Strip([Segment(text, piece.rich_style) for text, piece in pieces if text]).adjust_cell_length(
            width, style.rich_style
        )

    def _style_of(self, name: str | Style) -> Style:
        if isinstance(name, Style):
            return name
        style = self._styles.get(name)
        if style is None:
            style = self._styles[name] = self._get_style(name)
        return style
