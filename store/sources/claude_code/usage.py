"""This module reads the usage in a record of Claude Code. Anthropic counts cached tokens apart from the input."""

from __future__ import annotations

from collections.abc import Mapping

from store.model.entry import Json
from store.model.usage import Usage, as_micro_dollars, as_tokens, join_processing
from store.sources.claude_code.record import SYNTHETIC_MODEL
from store.sources.kit.jsonl import as_dict, as_str
from store.sources.kit.usage import read_cache_writes


def read_usage(record: Json) -> Usage | None:
    """Return the usage of a response, or None if the record reports none."""
    fields = as_dict(record)
    return read_message_usage(as_dict(fields.get("message")), fields)


def read_message_usage(message: Mapping[str, Json], fields: Mapping[str, Json]) -> Usage | None:
    """Return the usage in a message and its record. All records of one response repeat it under the same id."""
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return None
    model = as_str(message.get("model"))
    if model == SYNTHETIC_MODEL and not usage.get("output_tokens"):
        return None  # the program itself wrote the message, usually about an error
    writes = read_cache_writes(usage)
    return Usage(
        as_tokens(usage.get("input_tokens")),
        as_tokens(usage.get("cache_read_input_tokens")),
        writes.five_minutes,
        writes.one_hour,
        as_tokens(usage.get("output_tokens")),
        as_tokens(as_dict(usage.get("output_tokens_details")).get("thinking_tokens")),
        join_processing(model, _read_processing(usage)),
        "anthropic",
        as_str(message.get("id")),
        cost=as_micro_dollars(fields.get("costUSD")),
        estimated=writes.estimated,
    )


def _read_processing(usage: Mapping[str, Json]) -> str:
    """Return how the vendor says that it processed the request, which is not always how it was asked to."""
    if usage.get("speed") == "fast":
        return "fast"
    return "batch" if usage.get("service_tier") == "batch" else ""
