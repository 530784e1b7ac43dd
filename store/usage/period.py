"""This module defines the span of time that statistics are about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from store.search.sql import Condition, all_of, format_timestamp


class Period(NamedTuple):
    """Is a span of time. None means that it is open at that end."""

    since: datetime | None = None
    until: datetime | None = None

    def responses_condition(self) -> Condition:
        return self._condition("usage.at", lambda moment: int(moment.timestamp()))

    def turns_condition(self, moment: str = "turns.started_at") -> Condition:
        """Return the condition on turns, or on what happened at another moment that is stored as text."""
        return self._condition(moment, format_timestamp)

    def _condition(self, column: str, convert: Callable[[datetime], int | str]) -> Condition:
        bounds = ((self.since, ">="), (self.until, "<"))
        return all_of(Condition(f"{column} {sign} ?", (convert(moment),)) for moment, sign in bounds if moment)


ALL_TIME = Period()
