"""This module divides amounts into five levels, and gives each a shade.

With colours, a level is a tint of one colour. Without them, it is a block of dots that gets denser.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from textual.content import Content

from tui.render.charts.measures import UNPRICED, UNPRICED_SIGN
from tui.render.styles import FAINT, StyledText, build_content

LEVELS = 5
EMPTY, FULL = "·", "█"
_DENSITIES = (EMPTY, "░", "▒", "▓", FULL)
_TINTS = ("$foreground 22%", "$success 30%", "$success 52%", "$success 76%", "$success")
_CURSOR_SIGN, _CURSOR_STYLE = "╋", "bold $accent"


class LevelScale:
    """Finds the level of an amount: 0 for nothing, then the quarters of all amounts that are not zero.

    Quarters, because a single huge day would make all other days look alike on an even scale.
    """

    def __init__(self, amounts: Iterable[int | None]) -> None:
        ordered = sorted(amount for amount in amounts if amount)
        last = len(ordered) - 1
        self._bounds = [ordered[last * quarter // 4] for quarter in (1, 2, 3)] if ordered else []

    def find_level(self, amount: int | None) -> int:
        return 1 + bisect_left(self._bounds, amount) if amount else 0


class Shading(NamedTuple):
    """Turns levels into styled cells."""

    has_color: bool = True

    def shade(self, level: int, cells: int) -> StyledText:
        """Return the cells of a level."""
        sign = _DENSITIES[level] if not self.has_color or not level else FULL
        return (sign * cells if level else sign.ljust(cells)), _TINTS[level]

    def shade_amount(self, scale: LevelScale, amount: int | None, cells: int, *, is_cursor: bool = False) -> StyledText:
        """Return the cells of an amount; None is one without a price. The cursor has a sign of its own."""
        if is_cursor:
            return (FULL if self.has_color else _CURSOR_SIGN) * cells, _CURSOR_STYLE
        if amount is None:
            return UNPRICED_SIGN.ljust(cells), FAINT
        return self.shade(scale.find_level(amount), cells)

    def render_key(self, amounts: Iterable[int | None], cells: int = 2) -> Content:
        """Render `less · ░ ▒ ▓ █ more`, and what the sign of an amount without a price means, if there is one."""
        unpriced = f"{UNPRICED_SIGN} {UNPRICED}   " if None in amounts else ""
        pieces: list[StyledText] = [(f"{unpriced}less ", FAINT)]
        for level in range(LEVELS):
            pieces += [self.shade(level, cells), (" ", "")]
        return build_content([*pieces, ("more", FAINT)])
