"""This module draws a calendar: one column for each week, one line for each weekday, shaded by an amount."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import NamedTuple

from textual.content import Content

from tui.render.charts.levels import LevelScale, Shading
from tui.render.styles import FAINT, MUTED, StyledText, build_content

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
LABEL_CELLS = 4
HEAD_LINES = 1
MAX_WEEKS = 53
MAX_WEEK_CELLS = 3
HEIGHT = HEAD_LINES + len(WEEKDAYS)

DayAmounts = Mapping[date, int | None]
"""Maps days to amounts. None is an amount of money that is not known."""


class CalendarChart(NamedTuple):
    """Shows the weeks up to that of the last day."""

    amounts: DayAmounts
    last_day: date
    weeks: int
    week_cells: int

    @classmethod
    def fit(cls, amounts: DayAmounts, last_day: date, width: int) -> CalendarChart:
        """Return a calendar of a year, or of as many weeks as there is room for."""
        room = max(width - LABEL_CELLS, 1)
        week_cells = max(min(room // MAX_WEEKS, MAX_WEEK_CELLS), 1)
        return cls(amounts, last_day, max(min(room // week_cells, MAX_WEEKS), 1), week_cells)

    @property
    def width(self) -> int:
        return LABEL_CELLS + self.weeks * self.week_cells

    @property
    def first_day(self) -> date:
        monday = self.last_day - timedelta(days=self.last_day.weekday())
        return monday - timedelta(weeks=self.weeks - 1)

    def day_at(self, x: int, y: int) -> date | None:
        """Return the day at a cell, e.g. one that was clicked."""
        week, weekday = (x - LABEL_CELLS) // self.week_cells, y - HEAD_LINES
        if x < LABEL_CELLS or week >= self.weeks or weekday not in range(len(WEEKDAYS)):
            return None
        day = self.first_day + timedelta(weeks=week, days=weekday)
        return day if day <= self.last_day else None

    def render(self, shading: Shading, cursor: date | None = None) -> list[Content]:
        scale = LevelScale(self.amounts.values())
        return [
            self._render_months(),
            *(self._render_weekday(weekday, scale, shading, cursor) for weekday in range(len(WEEKDAYS))),
        ]

    def _render_months(self) -> Content:
        """Name each month above the week in which it begins, where there is room."""
        line = " " * LABEL_CELLS
        for week in range(self.weeks):
            monday = self.first_day + timedelta(weeks=week)
            begins = monday.day <= 7 or (week == 0 and monday.day <= 14)
            column = LABEL_CELLS + week * self.week_cells
            if begins and len(line) <= column and column + 3 <= self.width:
                line = line.ljust(column) + f"{monday:%b} "
        return build_content([(line.rstrip(), MUTED)])

    def _render_weekday(self, weekday: int, scale: LevelScale, shading: Shading, cursor: date | None) -> Content:
        label = WEEKDAYS[weekday] if weekday % 2 == 0 or weekday == len(WEEKDAYS) - 1 else ""
        return build_content([(label.ljust(LABEL_CELLS), FAINT), *self._shade_days(weekday, scale, shading, cursor)])

    def _shade_days(
        self, weekday: int, scale: LevelScale, shading: Shading, cursor: date | None
    ) -> Iterator[StyledText]:
        gap = 1 if self.week_cells > 2 else 0
        for week in range(self.weeks):
            day = self.first_day + timedelta(weeks=week, days=weekday)
            if day > self.last_day:
                return
            amount, is_cursor = self.amounts.get(day, 0), day == cursor
            yield shading.shade_amount(scale, amount, self.week_cells - gap, is_cursor=is_cursor)
            yield " " * gap, ""


class Streaks(NamedTuple):
    """Counts days in a row on which something happened."""

    current: int
    longest: int
    active_days: int


def find_streaks(amounts: DayAmounts, today: date) -> Streaks:
    """Find the streaks up to today. One that ends yesterday is current, too, since today is not over."""
    days = sorted(day for day, amount in amounts.items() if (amount is None or amount) and day <= today)
    longest = running = 0
    before: date | None = None
    for day in days:
        running = running + 1 if before is not None and day - before == timedelta(days=1) else 1
        longest, before = max(longest, running), day
    is_current = before is not None and today - before <= timedelta(days=1)
    return Streaks(running if is_current else 0, longest, len(days))
