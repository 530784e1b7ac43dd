"""This module formats API values and numbers of tokens."""

from __future__ import annotations

from store.cli import output
from store.model.statistics import TableInfo
from store.model.usage import MICRO_DOLLARS
from store.store import Store
from store.usage.stale import count_without_usage

UNPRICED = "unpriced"

SHORTENED_TOKENS = 10_000
"""Is the number of tokens from which a terminal shows them in thousands, millions and so on."""


def format_cost(cost: int | None, *, is_estimated: bool = False) -> str:
    """Format micro-dollars. Small amounts have more decimals; an estimate has a ~ before it on a terminal."""
    if cost is None:
        return UNPRICED
    if not output.stdout_is_terminal():
        return f"{cost / MICRO_DOLLARS:.6f}"
    amount = cost / MICRO_DOLLARS
    digits = 2 if amount >= 1 or not cost else 4
    return f"{'~' if is_estimated else ''}${amount:,.{digits}f}"


def format_rate(rate: int) -> str:
    """Format a rate in dollars per million tokens."""
    return f"{rate / MICRO_DOLLARS:,.6f}".rstrip("0").rstrip(".")


def format_tokens(count: int) -> str:
    """Format a number of tokens: short on a terminal, complete elsewhere."""
    if not output.stdout_is_terminal():
        return str(count)
    if count < SHORTENED_TOKENS:
        return f"{count:,}"
    unit, size = next((unit, size) for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)) if count >= size)
    return f"{count / size:,.1f}{unit}"


def describe_prices(table: TableInfo, *, is_estimated: bool = False) -> str:
    """Say where the rates come from."""
    estimate = " ~ marks sums with numbers that the agent did not report." if is_estimated else ""
    return f"API value by {table.name} {table.version} of {table.date} ({table.digest}).{estimate}"


def warn_of_missing_usage(store: Store) -> None:
    """Say on stderr that sessions are missing in a sum, because their usage is not derived yet."""
    if count := count_without_usage(store):
        output.notify(f"{output.format_count(count, 'session')} not counted yet. Run `backscroll sync` to count them.")
