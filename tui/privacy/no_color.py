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

FAINT = 0.42
"""How far in brightness a text may be from its ground to be dim; black is 1 from white."""

UNSEEN = 0.02
DIM = Style(dim=True)
KEPT = 4_096


class Colourless(LineFilter):
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [_plain(segment) for segment in segments]


def _plain(segment: Segment) -> Segment:
    text, style, _ = segment
    if style is None:
        return segment
    plain, is_seen = _without_colour(style)
    return Segment(text if is_seen else " " * segment.cell_length, plain)


@lru_cache(KEPT)
def _without_colour(style: Style) -> tuple[Style, bool]:
    """And whether text in it can be seen."""
    contrast = _contrast(style.color, style.bgcolor)
    is_dim = contrast <= FAINT and not style.reverse
    return style.without_color + Style.from_meta(style.meta) + (DIM if is_dim else Style.null()), contrast > UNSEEN


def _contrast(text: RichColor | None, ground: RichColor | None) -> float:
    """The terminal's own colours can be told apart."""
    if text is None or ground is None or text.is_default or ground.is_default:
        return 1
    return abs(Color.from_rich_color(text).brightness - Color.from_rich_color(ground).brightness)
