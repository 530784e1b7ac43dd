"""This module draws charts that fit into a line of a table: sparklines and bars of shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from tui.render.styles import StyledText

_LEVELS = " ▁▂▃▄▅▆▇"
"""Is without a full block, because the sparklines of two lines of a table would touch each other."""


def draw_sparkline(
    amounts: Sequence[int], cells: int, join: Callable[[Sequence[int]], int] = sum, highest: int | None = None
) -> str:
    """Draw amounts as a row of small bars. Neighbours are joined, e.g. added up, if there are more amounts than cells.

    A full bar is the highest amount, unless another one is given.
    """
    if cells < 1 or not amounts:
        return " " * max(cells, 0)
    count = min(len(amounts), cells)
    bounds = [len(amounts) * index // count for index in range(count + 1)]
    sums = [join(amounts[start:stop]) for start, stop in pairwise(bounds)]
    highest = max(*sums, highest or 0, 0)
    steps = len(_LEVELS) - 1
    bars = "".join(_LEVELS[-(-amount * steps // highest)] if highest and amount > 0 else " " for amount in sums)
    return bars.rjust(cells)


def draw_share(share: float, cells: int, style: str = "$primary") -> list[StyledText]:
    """Draw a share, from 0 to 1, as a line with steps of half a cell. Little is not nothing."""
    halves = min(max(round(share * cells * 2), 1 if share > 0 else 0), cells * 2)
    filled = "━" * (halves // 2) + "╸" * (halves % 2)
    return [(filled, style), ("─" * (cells - len(filled)), "$foreground 18%")]
