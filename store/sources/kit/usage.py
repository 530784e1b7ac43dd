"""This module holds what sources share to read usage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from store.model.entry import Json, Tokens
from store.model.usage import Usage

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
