"""This module reads the usage in a step or a message of opencode. It counts cached tokens apart, for every vendor."""

from __future__ import annotations

from collections.abc import Mapping

from store.model.entry import Json
from store.model.usage import Usage, as_micro_dollars, as_tokens, mark_cache_write
from store.sources.kit.jsonl import as_dict, as_str


def read_usage(data: Mapping[str, Json], message: Mapping[str, Json]) -> Usage | None:
    """Return the usage of a step, or of a message without steps. The message names the model.

    Some releases include reasoning in the output and others do not; the total shows which.
    """
    tokens = as_dict(data.get("tokens"))
    if not tokens:
        return None
    cache = as_dict(tokens.get("cache"))
    counts = [as_tokens(tokens.get(name)) for name in ("input", "output", "reasoning")]
    reads, writes = as_tokens(cache.get("read")), as_tokens(cache.get("write"))
    input_tokens, output, reasoning = counts
    total = as_tokens(tokens.get("total")) or 0
    is_apart = total >= sum(count or 0 for count in (*counts, reads, writes))
    return mark_cache_write(
        Usage(
            input_tokens,
            reads,
            writes,
            output=output if output is None or not is_apart else output + (reasoning or 0),
            reasoning=reasoning,
            model=as_str(message.get("modelID")) or as_str(as_dict(message.get("model")).get("id")),
            provider=as_str(message.get("providerID")) or as_str(as_dict(message.get("model")).get("providerID")),
            cost=as_micro_dollars(data.get("cost")),
        )
    )
