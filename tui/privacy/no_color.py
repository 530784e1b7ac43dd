"""This module removes colours from lines if NO_COLOR is set.

Textual would replace colours by greys. Here a line gets the terminal's own colours. Faint text becomes dim, and text in
the colour of its background stays invisible. The style sheet reverses the selected row.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

if TYPE_CHECKING:
    from rich.color import Color as RichColor

MAX_DIM_CONTRAST = 0.42
"""Text is dim up to this difference in brightness from its background; black and white differ by 1."""

MAX_INVISIBLE_CONTRAST = 0.02
DIM = Style(dim=True)
STYLE_CACHE_SIZE = 4_096


class NoColorFilter(LineFilter):
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [_strip_segment_color(segment) for segment in segments]


def _strip_segment_color(segment: Segment) -> Segment:
    text, style, _ = segment
    if style is None:
        return segment
    plain, is_visible = _strip_color(style)
    return Segment(text if is_visible else " " * segment.cell_length, plain)


@lru_cache(STYLE_CACHE_SIZE)
def _strip_color(style: Style) -> tuple[Style, bool]:
    """Return the style without colour, and whether text in it is visible."""
    contrast = _compute_contrast(style.color, style.bgcolor)
    is_dim = contrast <= MAX_DIM_CONTRAST and not style.reverse
    return style.without_color + Style.from_meta(style.meta) + (
        DIM if is_dim else Style.null()
    ), contrast > MAX_INVISIBLE_CONTRAST


def _compute_contrast(text: RichColor | None, background: RichColor | None) -> float:
    """Return the difference in brightness. The terminal's default colours count as black and white."""
    if text is None or background is None or text.is_default or background.is_default:
        return 1
    return abs(Color.from_rich_color(text).brightness - Color.from_rich_color(background).brightness)
