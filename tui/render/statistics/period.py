"""This module defines the periods that statistics cover. Days are days of local time."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Literal, NamedTuple

from tui.render.charts.calendar import MAX_WEEKS

PeriodName = Literal["today", "7 days", "30 days", "year", "all"]
Bucket = Literal["hour", "day", "week", "month"]

PERIOD_DAYS: dict[PeriodName, int] = {"today": 1, "7 days": 7, "30 days": 30, "year": 365}
PERIODS: tuple[PeriodName, ...] = ("today", "7 days", "30 days", "year", "all")
BUCKETS: dict[PeriodName, Bucket] = {"today": "hour", "7 days": "day", "30 days": "day", "year": "week", "all": "month"}
"""Says what one bar of a period shows."""


class StatsPeriod(NamedTuple):
    """Is a number of days that end on a day, or all time."""

    name: PeriodName
    last_day: date

    @property
    def first_day(self) -> date | None:
        """The first day, or None for all time."""
        return None if self.name == "all" else self.last_day - timedelta(days=PERIOD_DAYS[self.name] - 1)

    @property
    def bucket(self) -> Bucket:
        return BUCKETS[self.name]

    def move(self, by: int, today: date) -> StatsPeriod:
        """Return the period that many periods later, or earlier. None ends after today."""
        if self.name == "all":
            return self
        last_day = self.last_day + timedelta(days=by * PERIOD_DAYS[self.name])
        return self._replace(last_day=min(last_day, today))

    def rename(self, name: PeriodName, today: date) -> StatsPeriod:
        """Return a period of another length that ends on the same day. All time ends today."""
        return StatsPeriod(name, today if name == "all" else self.last_day)

    def describe(self, today: date) -> str:
        """Return e.g. `5 Oct – 3 Nov 2026`."""
        first, last = self.first_day, self.last_day
        if first is None:
            return "all time"
        if first == last:
            return "today" if last == today else f"{last:%a} {format_day(last)} {last.year}"
        first_year = "" if first.year == last.year else f" {first.year}"
        return f"{format_day(first)}{first_year} – {format_day(last)} {last.year}"

    def to_filters(self) -> str:
        """Return the filters of a query that finds what happened in this period."""
        return "" if self.first_day is None else day_filters(self.first_day, self.last_day)

    def find_start(self, day: date) -> date:
        """Return the day on which the bucket of a day begins."""
        match self.bucket:
            case "week":
                return day - timedelta(days=day.weekday())
            case "month":
                return day.replace(day=1)
        return day


def find_calendar_end(period: StatsPeriod, today: date) -> date:
    """Return the last day of the calendar: today, unless the period begins before the year up to today."""
    is_recent = period.first_day is None or (today - period.first_day) < timedelta(weeks=MAX_WEEKS - 1)
    return today if is_recent else period.last_day


def next_bucket(start: date, bucket: Bucket) -> date:
    """Return the day after the last day of a bucket."""
    if bucket == "month":
        return (start + timedelta(days=31)).replace(day=1)
    return start + timedelta(days=7 if bucket == "week" else 1)


def day_filters(first: date, last: date) -> str:
    return f"day:{first}" if first == last else f"day:{first}..{last}"


def format_day(day: date) -> str:
    return f"{day.day} {day:%b}"
