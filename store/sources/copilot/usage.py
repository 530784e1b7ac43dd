"""This module reads the usage in an event of Copilot CLI. The input includes what was read from a cache or written to
one. Its `cost` counts premium requests, which are no money."""

from __future__ import annotations

from store.model.entry import Json
from store.model.usage import Usage, as_tokens, mark_cache_write, without_cached
from store.sources.kit.jsonl import as_dict, as_str


def read_usage(record: Json) -> Usage | None:
    """Return the usage of a model call. Older versions wrote no such events; there only the entries have tokens."""
    event = as_dict(record)
    usage = as_dict(as_dict(event.get("data")).get("usage"))
    if event.get("type") != "session.usage_record" or not usage:
        return None
    reads, writes = as_tokens(usage.get("cacheReadTokens")), as_tokens(usage.get("cacheWriteTokens"))
    return mark_cache_write(
        Usage(
            without_cached(as_tokens(usage.get("inputTokens")), reads, writes),
            reads,
            writes,
            output=as_tokens(usage.get("outputTokens")),
            reasoning=as_tokens(usage.get("reasoningTokens")),
            model=as_str(usage.get("model")),
            response_id=as_str(usage.get("apiCallId")),
        )
    )
