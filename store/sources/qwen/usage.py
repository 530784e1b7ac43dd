"""This module reads the usage in a record of Qwen Code. The input includes cached tokens."""

from __future__ import annotations

from store.model.entry import Json
from store.model.usage import Usage, as_tokens, without_cached
from store.sources.kit.jsonl import as_dict, as_str


def read_usage(record: Json) -> Usage | None:
    """Return the usage of an answer. Some providers include thoughts in the answer, which the total reveals."""
    fields = as_dict(record)
    usage = as_dict(fields.get("usageMetadata"))
    if not usage:
        return None
    names = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount")
    prompt, answer, thoughts, cached = (as_tokens(usage.get(name)) for name in names)
    total = as_tokens(usage.get("totalTokenCount")) or 0
    is_included = (prompt or 0) + (answer or 0) + (thoughts or 0) > total > 0
    return Usage(
        without_cached(prompt, cached),
        cached,
        output=answer if answer is None or is_included else answer + (thoughts or 0),
        reasoning=thoughts,
        model=as_str(fields.get("model")),
        response_id=as_str(fields.get("uuid")),
    )
