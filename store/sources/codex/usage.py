"""This module reads the usage in the lines of a rollout. OpenAI's input includes what was read from a cache or written
to one. Codex reports writes since GPT-5.6, which costs more for them, and OpenAI has one rate for them."""

from __future__ import annotations

from collections.abc import Mapping

from store.model.entry import Json
from store.model.usage import Usage, as_tokens, without_cached
from store.sources.codex.files import unwrap_line
from store.sources.kit.jsonl import as_dict, as_str


class CodexUsageReader:
    """Reads the lines of one rollout in order. The model of a response is in a line before it."""

    def __init__(self) -> None:
        self.model = ""

    def read(self, record: Json) -> Usage | None:
        return self.read_payload(*unwrap_line(record))

    def read_payload(self, kind: str, payload: Mapping[str, Json]) -> Usage | None:
        """Return the usage of a response. Codex reports it several times, each time with the same running total."""
        if kind == "turn_context":
            self.model = as_str(payload.get("model")) or self.model
        if kind == "token_usage_record":
            total, last = payload.get("thread_token_usage"), payload.get("usage")
        elif kind == "event_msg" and payload.get("type") == "token_count":
            info = as_dict(payload.get("info"))
            total, last = info.get("total_token_usage"), info.get("last_token_usage")
        else:
            return None
        if not isinstance(total, dict) or not isinstance(last, dict):
            return None
        reads, writes = as_tokens(last.get("cached_input_tokens")), as_tokens(last.get("cache_write_input_tokens"))
        return Usage(
            without_cached(as_tokens(last.get("input_tokens")), reads, writes),
            reads,
            writes,
            output=as_tokens(last.get("output_tokens")),
            reasoning=as_tokens(last.get("reasoning_output_tokens")),
            model=self.model,
            provider="openai",
            report_id="/".join(str(total.get(name)) for name in ("input_tokens", "output_tokens", "total_tokens")),
        )
