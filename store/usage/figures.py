"""This module adds up figures: in SQL those of responses, in Python those of several rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any

from store.model.statistics import NO_FIGURES, NO_TOKENS, Figures, TokenCounts
from store.model.usage import TOKEN_KINDS
from store.usage.cost import CONTEXT, COST

_ESTIMATED_BITS = sum(1 << 2 * position for position in range(len(TOKEN_KINDS)))
SUMS = {
    "responses": "count(*)",
    **{kind: f"sum(usage.{kind})" for kind in TOKEN_KINDS},
    "cost": f"sum({COST})",
    "unpriced": f"sum(iif(rates.model is null, {CONTEXT} + usage.output, 0))",
    "reported": "sum(usage.reported_cost)",
    "is_estimated": f"max(usage.known & {_ESTIMATED_BITS}) > 0",
}
"""Maps the name of each figure of responses to the SQL that sums it up."""

RESPONSE_SUMS = ", ".join(SUMS.values())
"""Selects the figures of responses, in the order of `response_figures`."""


def response_figures(numbers: Sequence[Any]) -> Figures:
    """Return the figures that `RESPONSE_SUMS` selects."""
    responses, *tokens, cost, unpriced, reported, is_estimated = numbers
    return Figures(
        responses=responses,
        tokens=TokenCounts._make(tokens),
        cost=cost,
        unpriced_tokens=unpriced,
        reported_cost=reported,
        is_estimated=bool(is_estimated),
    )


def add_figures(all_figures: Iterable[Figures]) -> Figures:
    """Return the sum. A cost is None only if all of them are."""
    return reduce(_add_two, all_figures, NO_FIGURES)


def _add_two(one: Figures, other: Figures) -> Figures:
    if one is NO_FIGURES:
        return other
    return Figures(
        one.sessions + other.sessions,
        one.turns + other.turns,
        one.tool_calls + other.tool_calls,
        one.errors + other.errors,
        one.active_seconds + other.active_seconds,
        one.responses + other.responses,
        _add_tokens(one.tokens, other.tokens),
        _add_known(one.cost, other.cost),
        one.unpriced_tokens + other.unpriced_tokens,
        _add_known(one.reported_cost, other.reported_cost),
        one.is_estimated or other.is_estimated,
    )


def _add_tokens(one: TokenCounts, other: TokenCounts) -> TokenCounts:
    if one is NO_TOKENS or other is NO_TOKENS:
        return other if one is NO_TOKENS else one
    return TokenCounts(*map(add, one, other))


def _add_known(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other
