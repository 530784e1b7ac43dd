"""This program writes the rate table of the package from the data of genai-prices. `make prices` runs it.

genai-prices is needed only here: it takes half a second to import. Its terms become ours as follows.

- A condition on names becomes a pattern: `x*` begins with x, `*x` ends with it, `*x*` contains it, `/x/` is a regular
  expression. All patterns that are joined with `&` must match.
- A rate that is missing is that of the next wider kind, as the vendors do it: cache reads and writes cost as much as
  input, cache writes for an hour as much as those for five minutes, and reasoning as much as output.
- A rate for some hours of the day is left out.
- Of the rates for other ways of processing, those are taken that a record of an agent can name. Fast modes that
  are no longer offered are added, because histories have them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from store.model.usage import MICRO_DOLLARS
from store.usage.prices import BAKED_TABLE, SCHEMA

PACKAGE = "genai-prices"
_FALLBACKS = {
    "cache_read": "input",
    "cache_write_5m": "input",
    "cache_write_1h": "cache_write_5m",
    "reasoning": "output",
}
_PROCESSINGS = {"fast": {"speed": "fast"}, "batch": {"processing": "batch"}}
"""Maps our names of the ways of processing to those of genai-prices."""

_FORMER_FAST_MODES = {"claude-opus-4-6": 6, "claude-opus-4-7": 6}
"""Maps models of Anthropic to how many times the usual rate their fast mode cost, for requests of any size."""

_PRICE_NAMES = {
    "input": "input_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write_5m": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "output": "output_mtok",
    "reasoning": "output_reasoning_mtok",
}


def main(path: Path = BAKED_TABLE) -> None:
    """Write the table. Its date says when it was taken from the package."""
    from genai_prices import data

    providers = [_convert_provider(provider) for provider in data.providers]
    table = {
        "schema": SCHEMA,
        "name": PACKAGE,
        "version": version(PACKAGE),
        "date": datetime.now(UTC).date().isoformat(),
        "providers": [provider for provider in providers if provider["models"]],
    }
    lines = orjson.dumps(table).replace(b'{"id":', b'\n{"id":')
    path.write_bytes(lines + b"\n")


def _convert_provider(provider: Any) -> dict[str, Any]:
    models = ((model, list(_convert_prices(model.prices))) for model in provider.models)
    return {
        "id": provider.id,
        "names": _convert_match(provider.provider_match),
        "model_names": _convert_match(provider.model_match),
        "fallbacks": provider.fallback_model_providers or [],
        "models": [
            {"id": model.id, "names": _convert_match(model.match), "window": model.context_window, "rates": rates}
            | _convert_variants(provider.id, model)
            for model, rates in models
            if rates
        ],
    }


def _convert_match(clause: Any) -> list[str]:
    """Return the patterns of a condition, any of which must match."""
    match type(clause).__name__:
        case "NoneType":
            return []
        case "ClauseOr":
            return [pattern for part in clause.or_ for pattern in _convert_match(part)]
        case "ClauseAnd":
            parts = [_convert_match(part) for part in clause.and_]
            joined = [""]
            for patterns in parts:
                joined = [f"{before}&{pattern}" if before else pattern for before in joined for pattern in patterns]
            return joined
        case "ClauseStartsWith":
            return [f"{clause.starts_with}*"]
        case "ClauseEndsWith":
            return [f"*{clause.ends_with}"]
        case "ClauseContains":
            return [f"*{clause.contains}*"]
        case "ClauseEquals":
            return [clause.equals]
        case "ClauseRegex":
            return [f"/{clause.regex}/"]
    raise ValueError(f"genai-prices has a new kind of condition: {clause!r}")


def _convert_prices(prices: Any) -> Iterator[dict[str, Any]]:
    for condition in prices if isinstance(prices, list) else [prices]:
        constraint = getattr(condition, "constraint", None)
        if type(constraint).__name__ == "TimeOfDateConstraint":
            continue
        start = constraint.start_date.isoformat() if constraint else ""
        price: Any = getattr(condition, "prices", condition)
        if price.input_mtok is not None or price.output_mtok is not None:
            yield from _convert_price(start, price)


def _convert_variants(provider: str, model: Any) -> dict[str, Any]:
    """Return the rates of the ways of processing that have some."""
    found = {name: rates for name in _PROCESSINGS if (rates := _convert_variant(model, _PROCESSINGS[name]))}
    if provider == "anthropic" and model.id in _FORMER_FAST_MODES:
        usual, factor = next(_convert_prices(model.prices)), _FORMER_FAST_MODES[model.id]
        found["fast"] = [usual | {kind: usual[kind] * factor for kind in _PRICE_NAMES}]
    return {"processing": found} if found else {}


def _convert_variant(model: Any, context: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rates of one way of processing. Before their first day, the usual rates are valid."""
    variants = [variant for variant in model.price_variants or () if variant.when == context]
    prices = model.prices if isinstance(model.prices, list) else [model.prices]
    constraints = [getattr(price, "constraint", None) for price in (*prices, *variants)]
    if not variants or any(type(constraint).__name__ == "TimeOfDateConstraint" for constraint in constraints):
        return []
    days = {constraint.start_date if constraint else date.min for constraint in constraints}
    rates: list[dict[str, Any]] = []
    for day in sorted(days):
        price = model.get_prices(datetime.combine(day, time(), UTC), context)
        rates += _convert_price("" if day == date.min else day.isoformat(), price)
    return rates


def _convert_price(start: str, price: Any) -> Iterator[dict[str, Any]]:
    amounts = {kind: getattr(price, name, None) for kind, name in _PRICE_NAMES.items()}
    thresholds = {tier.start for amount in amounts.values() for tier in getattr(amount, "tiers", ())}
    for threshold in sorted({0, *thresholds}):
        yield {"from": start, "over": threshold} | _rates_over(threshold, amounts)


def _rates_over(threshold: int, amounts: dict[str, Any]) -> dict[str, int]:
    """Return the rates of requests with more input than the threshold, in micro-dollars per million tokens."""
    rates: dict[str, int] = {}
    for kind in _PRICE_NAMES:
        amount = getattr(amounts[kind], "base", amounts[kind])
        for tier in getattr(amounts[kind], "tiers", ()):
            amount = tier.price if tier.start <= threshold else amount
        if amount is None:
            rates[kind] = rates[_FALLBACKS[kind]] if kind in _FALLBACKS else 0
        else:
            rates[kind] = round(Decimal(amount) * MICRO_DOLLARS)
    return rates


if __name__ == "__main__":
    main()
