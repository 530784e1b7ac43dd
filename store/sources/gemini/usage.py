"""This module reads the usage in a message of Gemini CLI. Google's input includes cached tokens."""

from __future__ import annotations

from store.model.entry import Json
from store.model.usage import Usage, as_tokens, without_cached
from store.sources.kit.jsonl import as_dict, as_str


def read_usage(record: Json) -> Usage | None:
    """Return the usage of a message. It is written again when its numbers arrive, under the same id."""
    message = as_dict(record)
    tokens = as_dict(message.get("tokens"))
    if not tokens or message.get("type") != "gemini":
        return None
    prompt, cached, answer, thoughts, tool_use = (
        as_tokens(tokens.get(name)) for name in ("input", "cached", "output", "thoughts", "tool")
    )
    input_tokens = without_cached(prompt, cached)
    return Usage(
        None if input_tokens is None else input_tokens + (tool_use or 0),
        cached,
        output=None if answer is None else answer + (thoughts or 0),
        reasoning=thoughts,
        model=as_str(message.get("model")),
        provider="google",
        response_id=as_str(message.get("id")),
    )
