"""This module reads the usage in a step of a trajectory. The prompt includes cached tokens."""

from __future__ import annotations

from store.model.entry import Json
from store.model.usage import Usage, as_micro_dollars, as_tokens, mark_cache_write, without_cached
from store.sources.kit.jsonl import as_dict, as_str


def read_usage(record: Json) -> Usage | None:
    """Return the usage of a step. What the format has no field for is in `extra`, under the names of the vendors."""
    step = as_dict(record)
    metrics = as_dict(step.get("metrics"))
    if not metrics or step.get("source") != "agent":
        return None
    extra = as_dict(metrics.get("extra"))
    reads, writes = as_tokens(metrics.get("cached_tokens")), as_tokens(extra.get("cache_creation_input_tokens"))
    return mark_cache_write(
        Usage(
            without_cached(as_tokens(metrics.get("prompt_tokens")), reads, writes),
            reads,
            writes,
            output=as_tokens(metrics.get("completion_tokens")),
            reasoning=as_tokens(extra.get("reasoning_tokens")),
            model=as_str(step.get("model_name")),
            cost=as_micro_dollars(metrics.get("cost_usd")),
        )
    )
