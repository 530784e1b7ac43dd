"""This module adds up figures: in SQL those of responses, in Python those of several rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from store.model.statistics import Figures, TokenCounts
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
    values = list(all_figures)
    if not values:
        return Figures()
    if len(values) == 1:
        return values[0]
    sessions, turns, calls, errors, seconds, responses, tokens, costs, unpriced, reported, is_estimated = zip(
        *values, strict=True
    )
    return Figures(
        sum(sessions),
        sum(turns),
        sum(calls),
        sum(errors),
        sum(seconds),
        sum(responses),
        TokenCounts(*map(sum, zip(*tokens, strict=True))),
        _add_known(costs),
        sum(unpriced),
        _add_known(reported),
        any(is_estimated),
    )


def _add_known(amounts: Iterable[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None
