"""This module finds the rates of a model: in the config file, in a table that a person added, or in the baked one.

A rate is a whole number of micro-dollars per million tokens. Nothing is fetched: `make prices` bakes a table into the
package, and `backscroll prices update FILE` takes a newer one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from store.config import MAX_RATE_DOLLARS, OPTIONAL_RATES, PRICES_SECTION, find_price_problems
from store.errors import BadValue, StoreError
from store.model.statistics import TableInfo
from store.model.usage import MICRO_DOLLARS, TOKEN_KINDS, join_processing, split_processing
from store.paths import config_file, data_dir, load_config, make_private_folder

SCHEMA = 1
BAKED_TABLE = Path(__file__).with_name("prices.json")
MAX_TABLE_BYTES = 20_000_000

MAX_RATE = MAX_RATE_DOLLARS * MICRO_DOLLARS
"""Is the largest rate: 1,000 dollars per million tokens. With a larger one, a product could exceed 64 bits."""


class Rate(NamedTuple):
    """Holds what a model costs from some day on, for requests with more input than some number of tokens."""

    valid_from: str
    "Is a date, or empty for the beginning of time."
    over: int
    "Is the number of input tokens, cached ones included, above which all tokens of a request cost this."
    input: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int
    output: int
    reasoning: int
    "Is the rate of the part of the output that is reasoning."

    @property
    def amounts(self) -> tuple[int, ...]:
        return self[2:]


class ModelPrices(NamedTuple):
    """Holds the rates of a model, and where they come from."""

    provider: str
    model: str
    rates: tuple[Rate, ...]
    window: int | None = None
    "Is the size of the context window, if the table knows it."
    is_own: bool = False
    "Is true for rates of the config file."


class PriceTable:
    """Holds the rates of all models."""

    def __init__(
        self, info: TableInfo, providers: Sequence[Mapping[str, Any]], own: Sequence[ModelPrices] = ()
    ) -> None:
        self.info = info
        self._providers = providers
        self._by_id = {provider["id"]: provider for provider in providers}
        self._own = own
        self._found: dict[tuple[str, str], ModelPrices | None] = {}

    def find(self, provider: str, model: str) -> ModelPrices | None:
        """Return the rates of a model, or None if it has no price.

        A provider that the table knows answers alone, or those that it names. For any other provider, the model's name
        says whose model it is. Where the table has no rate for how responses were processed, the usual one is taken.
        """
        key = (provider.lower(), model.lower())
        if key not in self._found:
            self._found[key] = self._find(*key) if model else None
        return self._found[key]

    def _find(self, provider: str, model: str) -> ModelPrices | None:
        for prices in self._own:
            if matches(prices.model, model):
                return prices
        model, processing = split_processing(model)
        known = self._by_id.get(provider) or next(
            (entry for entry in self._providers if provider and matches_any(entry["names"], provider)), None
        )
        if known is not None:
            fallbacks = (self._by_id[name] for name in known["fallbacks"] if name in self._by_id)
            candidates: Iterable[Mapping[str, Any]] = [known, *fallbacks]
        else:
            candidates = (entry for entry in self._providers if matches_any(entry["model_names"], model))
        for candidate in candidates:
            for entry in candidate["models"]:
                if matches_any(entry["names"], model):
                    return _parse_model(candidate["id"], entry, processing)
        return None

    def all_models(self) -> Iterator[ModelPrices]:
        yield from self._own
        for provider in self._providers:
            for entry in provider["models"]:
                for processing in ("", *entry.get("processing", ())):
                    yield _parse_model(provider["id"], entry, processing)


def _parse_model(provider: str, entry: Mapping[str, Any], processing: str = "") -> ModelPrices:
    found = entry.get("processing", {}).get(processing)
    rates = (
        Rate(rate["from"], rate["over"], *(rate[kind] for kind in TOKEN_KINDS)) for rate in found or entry["rates"]
    )
    model = join_processing(entry["id"], processing) if found else entry["id"]
    return ModelPrices(provider, model, tuple(sorted(rates)), entry.get("window"))


# ── patterns ──────────────────────────────────────────────────────────────────────────────────────


def matches_any(patterns: Iterable[str], name: str) -> bool:
    return any(matches(pattern, name) for pattern in patterns)


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a name in lower case. `*` matches anything at either end."""
    if pattern.startswith("/") and pattern.endswith("/"):
        return re.search(pattern[1:-1], name, re.IGNORECASE) is not None
    if "&" in pattern:
        return all(matches(part, name) for part in pattern.split("&"))
    text = pattern.lower()
    begins, ends = text.endswith("*"), text.startswith("*") and len(text) > 1
    text = text[ends : len(text) - begins]
    if begins and ends:
        return text in name
    return name.startswith(text) if begins else name.endswith(text) if ends else name == text


# ── loading ───────────────────────────────────────────────────────────────────────────────────────


def added_table_path() -> Path:
    """Return the file of the table that a person added."""
    return data_dir() / "prices.json"


def load_table() -> PriceTable:
    """Return the newer one of the baked table and the one that a person added, with the rates of the config file."""
    baked = _load_baked()
    path = added_table_path()
    added = _load_file(path, _stamp(path)) if path.exists() else None
    info, providers = baked if added is None or added[0].date < baked[0].date else added
    return PriceTable(info, providers, read_own_prices(load_config()))


@lru_cache(maxsize=1)
def _load_baked() -> tuple[TableInfo, Sequence[Mapping[str, Any]]]:
    """Return the table of the package. A test checks it, so that a start need not."""
    data = BAKED_TABLE.read_bytes()
    return _read_table(data, orjson.loads(data))


def update_table(path: Path) -> TableInfo:
    """Use a table from now on. A file that is not a table is refused, and the one in use stays."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TABLE_BYTES + 1)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}).") from None
    info, _ = parse_table(data, str(path))
    target = added_table_path()
    make_private_folder(target.parent)
    temporary = target.with_name(f"{target.name}.new")
    temporary.write_bytes(data)
    temporary.replace(target)
    return info


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=4)
def _load_file(path: Path, _stamp: tuple[int, int]) -> tuple[TableInfo, Sequence[Mapping[str, Any]]]:
    try:
        return parse_table(path.read_bytes(), str(path))
    except OSError as error:
        raise StoreError(f"The rate table {path} cannot be read ({error.strerror}).") from None
    except BadValue as error:
        raise StoreError(f"{error} Remove it, or take another with `backscroll prices update FILE`.") from None


def parse_table(data: bytes, name: str) -> tuple[TableInfo, Sequence[Mapping[str, Any]]]:
    """Check a table and return it. A file that is not one raises an error that says what is wrong."""
    if len(data) > MAX_TABLE_BYTES:
        raise BadValue(f"{name} is no rate table: it is larger than {MAX_TABLE_BYTES >> 20} MB.")
    try:
        table = orjson.loads(data)
    except ValueError:
        raise BadValue(f"{name} is no rate table: it is not JSON.") from None
    if not isinstance(table, dict) or table.get("schema") != SCHEMA:
        raise BadValue(f'{name} is no rate table: it has no "schema": {SCHEMA}. `make prices` writes one.')
    if problem := next(_find_problems(table), ""):
        raise BadValue(f"{name} is no rate table: {problem}")
    return _read_table(data, table)


def _read_table(data: bytes, table: Mapping[str, Any]) -> tuple[TableInfo, Sequence[Mapping[str, Any]]]:
    digest = hashlib.sha256(data).hexdigest()[:12]
    return TableInfo(table["name"], table["version"], table["date"], digest), table["providers"]


def _find_problems(table: Mapping[str, Any]) -> Iterator[str]:
    for field in ("name", "version", "date"):
        if not isinstance(table.get(field), str):
            yield f'"{field}" must be a text.'
    if not _is_date(table.get("date")):
        yield f'"date" must be a date, and is {table.get("date")!r}.'
    if not isinstance(table.get("providers"), list) or not table["providers"]:
        yield '"providers" must be a list that is not empty.'
        return
    for provider in table["providers"]:
        if not isinstance(provider, dict) or not isinstance(provider.get("id"), str):
            yield "a provider has no id."
            return
        if not all(_is_patterns(provider.get(field)) for field in ("names", "model_names", "fallbacks")):
            yield f"the patterns of {provider['id']} must be lists of patterns."
            return
        if not isinstance(provider.get("models"), list):
            yield f"{provider['id']} has no list of models."
            return
        for model in provider["models"]:
            yield from _find_problems_of_model(provider["id"], model)


def _find_problems_of_model(provider: str, model: Any) -> Iterator[str]:
    if not isinstance(model, dict) or not isinstance(model.get("id"), str) or not _is_patterns(model.get("names")):
        yield f"a model of {provider} has no id, or its names are no patterns."
        return
    name, others = f"{model['id']} of {provider}", model.get("processing", {})
    if not isinstance(others, dict):
        yield f"the other rates of {name} have no names."
        return
    if model.get("window") is not None and not (type(model["window"]) is int and model["window"] > 0):
        yield f"the context window of {name} is no number of tokens."
    for rates in (model.get("rates"), *others.values()):
        if not isinstance(rates, list) or not rates:
            yield f"{name} has no rates."
        elif not all(map(_is_rate, rates)):
            yield f"a rate of {name} is no whole number of micro-dollars, or has a wrong date."
        elif len({(rate["from"], rate["over"]) for rate in rates}) < len(rates):
            yield f"{name} has two rates for the same day and size."


def _is_patterns(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and _is_pattern(item) for item in value)


def _is_pattern(text: str) -> bool:
    try:
        matches(text, "")
    except re.error:
        return False
    return True


def _is_rate(rate: Any) -> bool:
    if not isinstance(rate, dict) or not (rate.get("from") == "" or _is_date(rate.get("from"))):
        return False
    return all(type(rate.get(name)) is int and 0 <= rate[name] <= MAX_RATE for name in ("over", *TOKEN_KINDS))


def _is_date(value: Any) -> bool:
    try:
        return bool(date.fromisoformat(value))
    except (TypeError, ValueError):
        return False


# ── the config file ───────────────────────────────────────────────────────────────────────────────


def read_own_prices(config: Mapping[str, Any]) -> list[ModelPrices]:
    """Return the rates in the config file. They are in dollars per million tokens there, as vendors write them."""
    section = config.get(PRICES_SECTION, {})
    if problem := next(find_price_problems(section), ""):
        raise StoreError(f"In {config_file()}, {problem}")
    return [_parse_own_price(pattern, values) for pattern, values in section.items()]


def _parse_own_price(pattern: str, values: Mapping[str, float]) -> ModelPrices:
    amounts = {"input": values["input"], "output": values["output"]}
    for kind, wider in OPTIONAL_RATES.items():
        amounts[kind] = values.get(kind, amounts[wider])
    amounts["reasoning"] = values["output"]
    rates = (round(amounts[kind] * MICRO_DOLLARS) for kind in TOKEN_KINDS)
    return ModelPrices("", pattern, (Rate("", 0, *rates),), is_own=True)
