"""This module draws the hours of the week: one line for each weekday, one column for each hour, shaded by an amount."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from textual.content import Content

from tui.render.charts.calendar import WEEKDAYS
from tui.render.charts.levels import LevelScale, Shading
from tui.render.styles import FAINT, MUTED, StyledText, build_content

HOURS = 24
LABEL_CELLS = 4
HEAD_LINES = 1
HEIGHT = HEAD_LINES + len(WEEKDAYS)
MAX_HOUR_CELLS = 2


class HourSlot(NamedTuple):
    """Identifies an hour of the week. Monday is weekday 0."""

    weekday: int
    hour: int


class HoursChart(NamedTuple):
    amounts: Mapping[HourSlot, int | None]
    hour_cells: int

    @classmethod
    def fit(cls, amounts: Mapping[HourSlot, int | None], width: int) -> HoursChart:
        return cls(amounts, max(min((width - LABEL_CELLS) // HOURS, MAX_HOUR_CELLS), 1))

    @property
    def width(self) -> int:
        return LABEL_CELLS + HOURS * self.hour_cells

    def slot_at(self, x: int, y: int) -> HourSlot | None:
        """Return the hour at a cell, e.g. one that was clicked."""
        slot = HourSlot(y - HEAD_LINES, (x - LABEL_CELLS) // self.hour_cells)
        is_inside = x >= LABEL_CELLS and slot.hour < HOURS and slot.weekday in range(len(WEEKDAYS))
        return slot if is_inside else None

    def render(self, shading: Shading, cursor: HourSlot | None = None) -> list[Content]:
        step = 3 if self.hour_cells > 1 else 6
        hours = "".join(str(hour).ljust(step * self.hour_cells) for hour in range(0, HOURS, step))
        lines = [build_content([(" " * LABEL_CELLS + hours.rstrip(), MUTED)])]
        scale = LevelScale(self.amounts.values())
        for weekday, label in enumerate(WEEKDAYS):
            pieces: list[StyledText] = [(label.ljust(LABEL_CELLS), FAINT)]
            for hour in range(HOURS):
                slot = HourSlot(weekday, hour)
                amount, is_cursor = self.amounts.get(slot, 0), slot == cursor
                pieces.append(shading.shade_amount(scale, amount, self.hour_cells, is_cursor=is_cursor))
            lines.append(build_content(pieces))
        return lines
