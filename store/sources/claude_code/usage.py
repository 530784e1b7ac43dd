"""This module reads the usage in a record of Claude Code. Anthropic counts cached tokens apart from the input."""

from __future__ import annotations

from collections.abc import Mapping

from store.model.entry import Json
from store.model.usage import Usage, as_micro_dollars, as_tokens, join_processing
from store.sources.claude_code.record import SYNTHETIC_MODEL
from store.sources.kit.jsonl import as_dict, as_str


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
    written = as_tokens(usage.get("cache_creation_input_tokens"))
    by_lifetime = as_dict(usage.get("cache_creation"))
    five_minutes = as_tokens(by_lifetime.get("ephemeral_5m_input_tokens"))
    one_hour = as_tokens(by_lifetime.get("ephemeral_1h_input_tokens"))
    # What has no lifetime is taken for five minutes, the default of the API.
    rest = max((written or 0) - (five_minutes or 0) - (one_hour or 0), 0)
    if rest or (five_minutes is None and one_hour is None):
        five_minutes = None if written is None else (five_minutes or 0) + rest
    return Usage(
        as_tokens(usage.get("input_tokens")),
        as_tokens(usage.get("cache_read_input_tokens")),
        five_minutes,
        one_hour,
        as_tokens(usage.get("output_tokens")),
        as_tokens(as_dict(usage.get("output_tokens_details")).get("thinking_tokens")),
        join_processing(model, _read_processing(usage)),
        "anthropic",
        as_str(message.get("id")),
        cost=as_micro_dollars(fields.get("costUSD")),
        estimated=("cache_write_5m",) if rest else (),
    )


def _read_processing(usage: Mapping[str, Json]) -> str:
    """Return how the vendor says that it processed the request, which is not always how it was asked to."""
    if usage.get("speed") == "fast":
        return "fast"
    return "batch" if usage.get("service_tier") == "batch" else ""
