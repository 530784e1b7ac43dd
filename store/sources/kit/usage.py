"""This module holds what sources share to read usage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from store.model.entry import Json, Tokens
from store.model.usage import Usage, as_tokens
from store.sources.kit.jsonl import as_dict

if TYPE_CHECKING:
    from store.sources.contract import UsageReader


def read_each_record(read_usage: Callable[[Json], Usage | None]) -> UsageReader:
    """Return a reader for records that need no other ones to be understood, or only earlier ones."""

    def read_records(records: Iterable[tuple[int, Json]]) -> Iterator[tuple[int, Usage]]:
        for key, record in records:
            if (usage := read_usage(record)) is not None:
                yield key, usage

    return read_records


def tokens_from_usage(usage: Usage | None) -> Tokens | None:
    """Return the tokens of an entry that has all of a response's usage."""
    if usage is None:
        return None
    written = (usage.cache_write_5m or 0) + (usage.cache_write_1h or 0)
    return Tokens(usage.input or 0, usage.output or 0, usage.cache_read or 0, written)


class CacheWrites(NamedTuple):
    """Counts the tokens that a request to Anthropic wrote to the cache, by how long they last."""

    five_minutes: int | None
    one_hour: int | None
    estimated: tuple[str, ...]


def read_cache_writes(usage: Mapping[str, Json]) -> CacheWrites:
    """Return the cache writes in a usage of Anthropic. What has no lifetime is taken for five minutes, the default."""
    written = as_tokens(usage.get("cache_creation_input_tokens"))
    by_lifetime = as_dict(usage.get("cache_creation"))
    five_minutes = as_tokens(by_lifetime.get("ephemeral_5m_input_tokens"))
    one_hour = as_tokens(by_lifetime.get("ephemeral_1h_input_tokens"))
    rest = (written or 0) - (five_minutes or 0) - (one_hour or 0)
    if rest > 0:
        return CacheWrites((five_minutes or 0) + rest, one_hour, ("cache_write_5m",))
    return CacheWrites(written if five_minutes is None and one_hour is None else five_minutes, one_hour, ())
