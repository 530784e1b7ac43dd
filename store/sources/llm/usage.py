"""This module reads the usage in a record of llm: a call of the model, or the message that calls ended with.

llm keeps two totals of a call, and beside them what the plugin of the vendor said, in the vendor's words. OpenAI's and
Google's input includes cached tokens; Anthropic's does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

from store.model.entry import Json
from store.model.usage import TOKEN_KINDS, Usage, as_tokens, without_cached
from store.sources.kit.jsonl import as_dict
from store.sources.kit.usage import read_cache_writes
from store.sources.llm.tables import parse_json_column


def read_usage(record: Json) -> Usage | None:
    """Return the usage of a stored record: a row of a call, or a message with its calls as `turns`."""
    fields = as_dict(record)
    calls = fields.get("turns")
    return read_calls(map(as_dict, calls)) if isinstance(calls, list) else read_calls([fields])


def read_calls(calls: Iterable[Mapping[str, Any]]) -> Usage | None:
    """Return the usage of calls that ended with the same message, or None if llm recorded none. Usually it is one."""
    found = [usage for usage in map(_read_call, calls) if any(usage[: len(TOKEN_KINDS)])]
    return reduce(_add, found) if found else None


def _add(one: Usage, other: Usage) -> Usage:
    return Usage(
        _add_known(one.input, other.input),
        _add_known(one.cache_read, other.cache_read),
        _add_known(one.cache_write_5m, other.cache_write_5m),
        _add_known(one.cache_write_1h, other.cache_write_1h),
        _add_known(one.output, other.output),
        _add_known(one.reasoning, other.reasoning),
        estimated=tuple({*one.estimated, *other.estimated}),
    )


def _add_known(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


def _read_call(call: Mapping[str, Any]) -> Usage:
    details = as_dict(parse_json_column(call.get("token_details")))
    prompt = as_dict(details.get("prompt_tokens_details")) or as_dict(details.get("input_tokens_details"))
    answer = as_dict(details.get("completion_tokens_details")) or as_dict(details.get("output_tokens_details"))
    reads_within = _first_count(prompt.get("cached_tokens"), details.get("cachedContentTokenCount"))
    writes_within = as_tokens(prompt.get("cache_write_tokens"))
    writes = read_cache_writes(details)
    return Usage(
        without_cached(as_tokens(call.get("input_tokens")), reads_within, writes_within),
        _first_count(reads_within, details.get("cache_read_input_tokens")),
        _first_count(writes_within, writes.five_minutes),
        writes.one_hour,
        as_tokens(call.get("output_tokens")),
        _first_count(answer.get("reasoning_tokens"), details.get("thoughtsTokenCount")),
        estimated=writes.estimated,
    )


def _first_count(*values: object) -> int | None:
    return next((count for value in values if (count := as_tokens(value)) is not None), None)
