"""This module computes costs in SQL. Each model in the store is resolved to its rates once, in Python; the rates are a
table of the query, and a response is joined with the one that was valid when it was made.

The cost of a response is rounded to a micro-dollar, so that parts add up to their total exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from store.model.usage import TOKEN_KINDS
from store.text.validate import encode
from store.usage.prices import ModelPrices, PriceTable, Rate

if TYPE_CHECKING:
    from store.store import Store

_FOREVER = 2**62
_RATE_COLUMNS = ("model", "since", "until", "over", "up_to", *(f"{kind}_rate" for kind in TOKEN_KINDS))
_COLUMNS = ", ".join(f"json_extract(value, '$[{position}]') as {name}" for position, name in enumerate(_RATE_COLUMNS))

RATES = f"rates as materialized (select {_COLUMNS} from json_each(?))"
"""Is a common table expression. Its value is what `rates_parameter` returns."""

CONTEXT = "(usage.input + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h)"
"""Counts all tokens that a request sent. Long-context rates depend on it."""

JOIN_RATES = f"""
    left join rates on rates.model = usage.model and usage.at >= rates.since and usage.at < rates.until
        and (rates.up_to is null or ({CONTEXT} > rates.over and {CONTEXT} <= rates.up_to))
"""
COST = """
    ((usage.input * input_rate + usage.cache_read * cache_read_rate + usage.cache_write_5m * cache_write_5m_rate
        + usage.cache_write_1h * cache_write_1h_rate + max(usage.output - usage.reasoning, 0) * output_rate
        + min(usage.reasoning, usage.output) * reasoning_rate + 500000) / 1000000)
"""
"""Is the cost of one response in micro-dollars, or null without a rate."""


class UsedModel(NamedTuple):
    """Describes a model that some response in the store was made with."""

    key: int
    provider: str
    name: str
    prices: ModelPrices | None


def list_models(store: Store, table: PriceTable) -> list[UsedModel]:
    rows = store.rows("select key, provider, model from usage_models")
    return [UsedModel(key, provider, name, table.find(provider, name)) for key, provider, name in rows]


def rates_parameter(models: list[UsedModel]) -> str:
    """Return the rates of all models as the value of `RATES`."""
    rows = [(model.key, *row) for model in models if model.prices for row in _split_rates(model.prices.rates)]
    return encode(rows).decode()


def _split_rates(rates: tuple[Rate, ...]) -> Iterator[tuple[int | None, ...]]:
    """Yield the rates with the time and the size of input for which each is valid, so that they do not overlap.

    A rate for any size has no bounds, which is faster to compare.
    """
    periods = [(valid_from, list(group)) for valid_from, group in groupby(rates, lambda rate: rate.valid_from)]
    for position, (valid_from, group) in enumerate(periods):
        since = _epoch(valid_from) if valid_from else -_FOREVER
        until = _epoch(periods[position + 1][0]) if position + 1 < len(periods) else _FOREVER
        for index, rate in enumerate(group):
            up_to = group[index + 1].over if index + 1 < len(group) else _FOREVER
            bounds = (rate.over or -1, up_to) if len(group) > 1 else (None, None)
            yield (since, until, *bounds, *rate.amounts)


def _epoch(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())
