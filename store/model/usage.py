"""This module defines usage: the tokens of one API response, by kind, and how each number is known."""

from __future__ import annotations

from typing import NamedTuple

USAGE_VERSION = 4
"""Is raised when sources understand more of the usage in their records. Stored sessions are then derived again."""

TOKEN_KINDS = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")
"""Names the kinds of tokens. They add up without `reasoning`, which is a part of `output`."""

PROCESSINGS = ("fast", "batch")
"""Names how a vendor processes requests if not as usual. They have rates of their own."""

MAX_COUNT = 1_000_000_000
"""Is the largest number of tokens of one response. No model takes a thousandth of it, so a larger number is wrong."""

MICRO_DOLLARS = 1_000_000
"""Is how many micro-dollars a dollar has."""

RATE_TOKENS = 1_000_000
"""Is how many tokens a rate is for."""

MAX_REPORTED_DOLLARS = 1_000_000

MEASURED, ESTIMATED, ABSENT = 0, 1, 2
"""Say how a number is known: its agent reported it, it was concluded from other numbers, or no agent reported it."""


class Usage(NamedTuple):
    """Counts the tokens of one API response. A number that the agent did not report is None."""

    input: int | None = None
    "Does not include tokens that were read from a cache or written to one."
    cache_read: int | None = None
    cache_write_5m: int | None = None
    "Also holds those of vendors that have one rate for all cache writes, however long they last."
    cache_write_1h: int | None = None
    output: int | None = None
    "Includes reasoning, for every vendor."
    reasoning: int | None = None
    model: str = ""
    "Is empty if the entry names the model. See `join_processing`."
    provider: str = ""
    response_id: str = ""
    "Is the vendor's id of the response. The same id in another session is the same response."
    report_id: str = ""
    "Is the same for all reports of one response within a session. It matters only without a response id."
    cost: int | None = None
    "Is what the agent says that it cost, in micro-dollars."
    estimated: tuple[str, ...] = ()
    "Names the kinds of tokens that were concluded from other numbers."

    def pack_numbers(self) -> tuple[int, ...]:
        """Return the number of tokens of each kind, and how they are known as one number with two bits for each kind.

        An import calls this for every response, so it is written for speed.
        """
        read, short, long, reasoning = self.cache_read, self.cache_write_5m, self.cache_write_1h, self.reasoning
        known = 0 if self.input is not None else ABSENT
        if read is None:
            known |= ABSENT << 2
        if short is None:
            known |= ABSENT << 4
        if long is None:
            known |= ABSENT << 6
        if self.output is None:
            known |= ABSENT << 8
        if reasoning is None:
            known |= ABSENT << 10
        for kind in self.estimated:
            known |= ESTIMATED << 2 * TOKEN_KINDS.index(kind)
        return (self.input or 0, read or 0, short or 0, long or 0, self.output or 0, reasoning or 0, known)


def unpack_knowledge(packed: int) -> dict[str, int]:
    """Return how the number of each kind is known."""
    return {kind: packed >> 2 * position & 3 for position, kind in enumerate(TOKEN_KINDS)}


def join_processing(model: str, processing: str) -> str:
    """Return the name under which responses of a model are counted that were not processed as usual."""
    return f"{model} ({processing})" if model and processing in PROCESSINGS else model


def split_processing(name: str) -> tuple[str, str]:
    """Return the model and how its responses were processed: one of `PROCESSINGS`, or empty for as usual."""
    model, found, processing = name.removesuffix(")").rpartition(" (")
    return (model, processing) if found and join_processing(model, processing) == name else (name, "")


def as_tokens(value: object) -> int | None:
    """Return a number of tokens. Return None for a value that cannot be one, which the record still holds."""
    if type(value) is int:
        return value if 0 <= value <= MAX_COUNT else None
    return as_tokens(int(value)) if isinstance(value, float) and value.is_integer() else None


def as_micro_dollars(dollars: object) -> int | None:
    """Return an amount of money that an agent reported. Return None for a value that cannot be one."""
    if not isinstance(dollars, int | float) or isinstance(dollars, bool) or not 0 <= dollars <= MAX_REPORTED_DOLLARS:
        return None
    return round(dollars * MICRO_DOLLARS)


def price_tokens(tokens: int, rate: int) -> int:
    """Return what tokens cost at a rate, rounded to a micro-dollar."""
    return (tokens * rate + RATE_TOKENS // 2) // RATE_TOKENS


def without_cached(total: int | None, *cached: int | None) -> int | None:
    """Return the input without its cached part, for vendors whose input includes it."""
    return None if total is None else max(total - sum(count or 0 for count in cached), 0)


def mark_cache_write(usage: Usage) -> Usage:
    """Mark cache writes whose lifetime is unknown as an estimate: they are taken for the default of five minutes."""
    is_unknown = usage.cache_write_5m and usage.cache_write_1h is None
    return usage._replace(estimated=("cache_write_5m",)) if is_unknown else usage
