"""This module defines what statistics measure, and how an amount of it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from store.model.usage import MICRO_DOLLARS
from tui.render.tool_call import format_duration

UNPRICED = "unpriced"
"""Is shown instead of an amount of money that is not known."""

UNPRICED_SIGN = "?"
"""Marks a cell of a chart with tokens whose price is not known."""


class Measure(NamedTuple):
    """Describes one thing that is measured. Amounts are whole numbers: micro-dollars, tokens, turns, milliseconds."""

    key: str
    label: str
    format: Callable[[int], str]
    format_axis: Callable[[int], str]

    def write(self, amount: int | None, *, is_estimate: bool = False) -> str:
        """Return an amount as a person reads it. None is an amount of money that is not known."""
        if amount is None:
            return UNPRICED
        return f"~{self.format(amount)}" if is_estimate else self.format(amount)


def format_short(number: float) -> str:
    """Return a number with at most three digits and a unit, e.g. `1.2k` or `35M`."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size * 0.9995:
            value = number / size
            return f"{value:.1f}".removesuffix(".0") + unit if value < 99.95 else f"{value:,.0f}{unit}"
    return f"{number:,.0f}"


_DIGITS = ((0.00995, 4), (0.0995, 3), (1_000, 2), (float("inf"), 0))
"""Holds how many digits follow the point in amounts below a limit, so that small ones have two that count."""


def format_money(micro_dollars: int) -> str:
    """Return an amount of money. Cents are shown below a thousand dollars, and parts of them below ten cents."""
    dollars = micro_dollars / MICRO_DOLLARS
    if not micro_dollars:
        return "$0"
    if abs(dollars) < 0.0001:
        return "<$0.0001"
    digits = next(digits for below, digits in _DIGITS if abs(dollars) < below)
    return f"{'-' if dollars < 0 else ''}${abs(dollars):,.{digits}f}"


def format_exact_money(micro_dollars: int) -> str:
    """Return an amount of money with all its digits, so that a sum can be checked."""
    return f"{'-' if micro_dollars < 0 else ''}${abs(micro_dollars) / MICRO_DOLLARS:,.6f}"


def format_rate(micro_dollars: int) -> str:
    """Return a price with cents, and with more digits only if it has them."""
    whole, digits = f"{micro_dollars / MICRO_DOLLARS:,.6f}".split(".")
    return f"${whole}.{digits[:2]}{digits[2:].rstrip('0')}"


def _format_money_axis(micro_dollars: int) -> str:
    dollars = micro_dollars / MICRO_DOLLARS
    if dollars >= 1_000:
        return f"${format_short(dollars)}"
    return f"${dollars:.0f}" if dollars >= 10 else f"${dollars:.2g}"


def format_time(milliseconds: int) -> str:
    """Return a time of seconds to days, e.g. `14h 20m`."""
    minutes = round(milliseconds / 60_000)
    if milliseconds and minutes < 1:
        return format_duration(milliseconds)
    if minutes < 60:
        return f"{minutes}m"
    return f"{minutes // 60:,}h {minutes % 60:02}m"


def _format_time_axis(milliseconds: int) -> str:
    hours = milliseconds / 3_600_000
    return f"{hours:.0f}h" if hours >= 10 else f"{hours:.1f}h" if hours >= 1 else f"{milliseconds / 60_000:.0f}m"


def _format_number(number: int) -> str:
    return f"{number:,}"


COST = Measure("cost", "API value", format_money, _format_money_axis)
TOKENS = Measure("tokens", "tokens", format_short, format_short)
TURNS = Measure("turns", "turns", _format_number, format_short)
CALLS = Measure("calls", "calls", _format_number, format_short)
ERRORS = Measure("errors", "errors", _format_number, format_short)
ACTIVE = Measure("active", "active time", format_time, _format_time_axis)
MEASURES = (COST, TOKENS, TURNS, CALLS, ERRORS, ACTIVE)
