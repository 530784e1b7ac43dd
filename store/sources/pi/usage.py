"""This module reads the usage in a record of pi. It counts cached tokens apart, for every vendor."""

from __future__ import annotations

from store.model.entry import Json
from store.model.usage import Usage, as_micro_dollars, as_tokens, mark_cache_write, without_cached
from store.sources.kit.jsonl import as_dict, as_str


def read_usage(record: Json) -> Usage | None:
    """Return the usage of an answer, or None if the record has none."""
    message = as_dict(as_dict(record).get("message"))
    usage = as_dict(message.get("usage"))
    if not usage:
        return None
    one_hour = as_tokens(usage.get("cacheWrite1h"))  # a part of `cacheWrite`, if the vendor keeps them apart
    return mark_cache_write(
        Usage(
            as_tokens(usage.get("input")),
            as_tokens(usage.get("cacheRead")),
            without_cached(as_tokens(usage.get("cacheWrite")), one_hour),
            one_hour,
            as_tokens(usage.get("output")),
            as_tokens(usage.get("reasoning")),
            model=as_str(message.get("model")),
            provider=as_str(message.get("provider")),
            response_id=as_str(message.get("responseId")),
            cost=as_micro_dollars(as_dict(usage.get("cost")).get("total")),
        )
    )
