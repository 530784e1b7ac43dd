"""This module draws upright bars, stacked by series, with an axis and a legend.

A cell shows an eighth of its height. Where two series meet inside a cell, the lower one is drawn on the colour of the
upper one. Without colours a cell belongs to one series, which has a pattern of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content

from store.text.sanitize import cell_width, one_line
from tui.render.charts.measures import UNPRICED, UNPRICED_SIGN, Measure
from tui.render.styles import FAINT, MUTED, StyledText, build_content

SERIES_COLORS = ("$primary", "$accent", "$success", "$secondary", "$warning", "$foreground 45%")
SERIES_PATTERNS = ("█", "▓", "▒", "░", "▞", "▚")
MAX_SERIES = len(SERIES_COLORS)
EIGHTHS = " ▁▂▃▄▅▆▇█"
AXIS_CELLS = 8
FOOT_LINES = 2
"""Counts the lines below the bars: the baseline and its labels."""

MAX_BAR_CELLS = 7
MAX_NAME_CELLS = 28
_CURSOR_STYLE = "bold $accent"


class Bar(NamedTuple):
    """Holds one bar: a label, and an amount for each series."""

    label: str
    amounts: Sequence[int]
    is_unpriced: bool = False
    "Says that the bar has an amount of money that is not known."

    @property
    def total(self) -> int:
        return sum(self.amounts)


class BarChart(NamedTuple):
    bars: Sequence[Bar]
    measure: Measure
    width: int
    height: int
    "Counts the lines of the bars themselves."

    @property
    def slot_cells(self) -> int:
        """The cells of a bar with the gap after it."""
        return max((self.width - AXIS_CELLS) // max(len(self.bars), 1), 1)

    @property
    def bar_cells(self) -> int:
        return max(min(self.slot_cells - 1, MAX_BAR_CELLS), 1)

    def bar_at(self, x: int) -> int | None:
        """Return the index of the bar at a column."""
        index = (x - AXIS_CELLS) // self.slot_cells
        return index if x >= AXIS_CELLS and index < len(self.bars) else None

    def render(self, cursor: int | None = None, *, has_color: bool = True) -> list[Content]:
        top = round_up(max((bar.total for bar in self.bars), default=0))
        columns = [self._draw_column(bar, top, has_color) for bar in self.bars]
        gap = (" " * (self.slot_cells - self.bar_cells), "")
        lines = []
        for row in range(self.height):
            pieces = [self._label_axis(row, top)]
            for index, column in enumerate(columns):
                sign, style = column[row]
                text = sign.ljust(self.bar_cells) if sign == UNPRICED_SIGN else sign * self.bar_cells
                pieces += [(text, f"bold {style}" if index == cursor and style else style), gap]
            lines.append(build_content(pieces).truncate(self.width))
        return [*lines, self._render_baseline(cursor), self._render_labels(cursor)]

    def _label_axis(self, row: int, top: int) -> StyledText:
        is_labelled = row == 0 or (row * 2 == self.height and self.height >= 4)
        amount = top * (self.height - row) // self.height
        label = self.measure.format_axis(amount) if is_labelled and top else ""
        return f"{label:>{AXIS_CELLS - 2}} " + ("┤" if label else "│"), FAINT

    def _draw_column(self, bar: Bar, top: int, has_color: bool) -> list[StyledText]:
        """Return the cells of a bar from its top to its bottom."""
        eighths = self.height * 8
        edges, sum_so_far = [], 0
        for amount in bar.amounts:
            sum_so_far += amount
            edges.append(-(-sum_so_far * eighths // top) if top else 0)  # rounded up, so that little is not nothing
        draw = _draw_colored if has_color else _draw_patterned
        cells = [draw(edges, row * 8) for row in reversed(range(self.height))]
        if bar.is_unpriced and (free := [row for row, cell in enumerate(cells) if not cell[0].strip()]):
            cells[free[-1]] = (UNPRICED_SIGN, FAINT)
        return cells

    def _render_baseline(self, cursor: int | None) -> Content:
        zero = (f"{self.measure.format_axis(0):>{AXIS_CELLS - 2}} ┼", FAINT)
        if cursor is None:
            return build_content([zero, ("─" * (self.width - AXIS_CELLS), FAINT)])
        before = min(cursor * self.slot_cells, self.width - AXIS_CELLS)
        after = max(self.width - AXIS_CELLS - before - self.bar_cells, 0)
        return build_content([zero, ("─" * before, FAINT), ("━" * self.bar_cells, _CURSOR_STYLE), ("─" * after, FAINT)])

    def _render_labels(self, cursor: int | None) -> Content:
        """Label as many bars as there is room for, and always the one under the cursor."""
        widest = max((cell_width(bar.label) for bar in self.bars), default=1)
        step = -(-(widest + 2) // self.slot_cells)
        pieces: list[StyledText] = [(" " * AXIS_CELLS, "")]
        used, room = 0, self.width - AXIS_CELLS
        for index in range(0, len(self.bars), step):
            is_current = cursor is not None and index <= cursor < index + step
            shown = cursor if is_current and cursor is not None else index
            label = self.bars[shown].label
            column = max(min(shown * self.slot_cells, room - cell_width(label)), used)
            if column + cell_width(label) <= room:
                pieces += [(" " * (column - used), ""), (label, _CURSOR_STYLE if is_current else MUTED), (" ", "")]
                used = column + cell_width(label) + 1
        return build_content(pieces)


def _draw_colored(edges: Sequence[int], bottom: int) -> StyledText:
    """Draw the cell that begins at this height: the lowest series in it, below the one that reaches its top.

    Series that lie between the two are left out, since a cell has two colours.
    """
    inside = [(min(edge - bottom, 8), series) for series, edge in enumerate(edges) if edge > bottom]
    if not inside:
        return " ", ""
    filled, lower = inside[0]
    highest = max(edge for edge, _ in inside)
    upper = next(series for edge, series in inside if edge == highest)
    if highest < 8:
        return EIGHTHS[highest], SERIES_COLORS[upper]
    return EIGHTHS[filled], SERIES_COLORS[lower] + (f" on {SERIES_COLORS[upper]}" if filled < 8 else "")


def _draw_patterned(edges: Sequence[int], bottom: int) -> StyledText:
    """Draw the series that fills the lower half of the cell, or else the highest one in it."""
    highest = max(edges, default=0)
    if highest <= bottom:
        return " ", ""
    return SERIES_PATTERNS[next(series for series, edge in enumerate(edges) if edge >= min(bottom + 4, highest))], ""


def render_legend(
    names: Sequence[str],
    width: int,
    *,
    has_color: bool = True,
    chosen: int | None = None,
    has_unpriced: bool = False,
) -> Content:
    """Render the names of the series with their colours, or their patterns without colours. One may be chosen.

    Names without room are counted, because the beginnings of two names may be the same. The sign for tokens without a
    price comes first, so that there is always room for it.
    """
    pieces: list[StyledText] = [(UNPRICED_SIGN, FAINT), (f" {UNPRICED}   ", MUTED)] if has_unpriced else []
    room = width - sum(cell_width(text) for text, _ in pieces)
    for series, full_name in enumerate(names):
        name = one_line(full_name, MAX_NAME_CELLS)
        room -= cell_width(name) + len("██ ") + len("   ")
        if room < 0 or (room < len("+9") and series < len(names) - 1):
            return build_content([*pieces, (f"+{len(names) - series}", MUTED)])
        sign = SERIES_PATTERNS[0 if has_color else series]
        pieces.append((f"{sign * 2} ", SERIES_COLORS[series] if has_color else ""))
        pieces += [(name, _CURSOR_STYLE if series == chosen else MUTED), ("   ", "")]
    return build_content(pieces)


def round_up(amount: int) -> int:
    """Return the next number that is easy to read at the end of an axis: e.g. 1.5, 2 or 8 times a power of ten."""
    if amount <= 0:
        return 0
    power = 10 ** (len(str(amount)) - 1)
    steps = (10, 15, 20, 30, 40, 50, 60, 80, 100)
    return next(step * power // 10 for step in steps if step * power >= amount * 10) or amount
