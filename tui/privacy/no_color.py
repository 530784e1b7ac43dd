"""Lines without colour, for whoever set NO_COLOR.

Textual would send greys in their place, whatever colours the terminal has. Here a line is sent in the terminal's own,
and what colours tell beside words is told by what is no colour: what is faint is dim, and what has the colour of its
ground is not there. The style sheet reverses what is chosen.
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
"""How far in brightness a text may be from its ground to be dim; black is 1 from white."""

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
    plain, is_seen = _strip_color(style)
    return Segment(text if is_seen else " " * segment.cell_length, plain)


@lru_cache(STYLE_CACHE_SIZE)
def _strip_color(style: Style) -> tuple[Style, bool]:
    """And whether text in it can be seen."""
    contrast = _compute_contrast(style.color, style.bgcolor)
    is_dim = contrast <= MAX_DIM_CONTRAST and not style.reverse
    return style.without_color + Style.from_meta(style.meta) + (
        DIM if is_dim else Style.null()
    ), contrast > MAX_INVISIBLE_CONTRAST


def _compute_contrast(text: RichColor | None, ground: RichColor | None) -> float:
    """The terminal's own colours can be told apart."""
    if text is None or ground is None or text.is_default or ground.is_default:
        return 1
    return abs(Color.from_rich_color(text).brightness - Color.from_rich_color(ground).brightness)
