"""This module measures the time between two timestamps."""

from __future__ import annotations

from datetime import datetime, timedelta


def elapsed_ms(start: str, end: str) -> float | None:
    """Return the milliseconds between two times; None when one is missing, or when the end is not after the start.

    Equal times say nothing: some agents write a call and its result together, or give a record the time of another.
    """
    if not start or end <= start:
        return None
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(start)) / timedelta(milliseconds=1)
    except (ValueError, TypeError):
        return None
