"""This module writes a turn as plain text for an agent. It is pure."""

from __future__ import annotations

from collections.abc import Iterator

from store.agent_api.past.quotation import shorten
from store.model.entry import Entry, Text, ToolCall, ToolResult, Turn, readable_text

MAX_CALL_CHARACTERS = 400
MAX_RESULT_CHARACTERS = 600
"""Limit a tool call and its result, unless everything is asked for."""


def format_turn(turn: Turn, *, full: bool = False) -> str:
    """Return who said what, and which tools were called with which result. Thoughts are left out."""
    lines = [f"=== turn {turn.n}, {turn.started_at}"]
    for entry in turn.entries:
        lines += _format_entry(entry, full)
    return "\n".join(lines)


def _format_entry(entry: Entry, full: bool) -> Iterator[str]:
    if entry.kind == "header":
        return
    speaker = {"user": "person", "assistant": "agent"}.get(entry.role, entry.role or entry.kind)
    has_text = False
    for part in entry.parts:
        match part:
            case Text(text=text) if text.strip():
                has_text = True
                yield f"--- {speaker}:\n{text}"
            case ToolCall(name=name, arguments=arguments):
                has_text = True
                called = readable_text(arguments)
                yield f"--- call {name}:\n{called if full else shorten(called, MAX_CALL_CHARACTERS)}"
            case ToolResult(output=output, is_error=is_error):
                has_text = True
                result = readable_text(output)
                state = "failed" if is_error else "result"
                yield f"--- {state}:\n{result if full else shorten(result, MAX_RESULT_CHARACTERS)}"
    if not has_text and entry.text.strip() and entry.kind in ("message", "compaction"):
        yield f"--- {speaker}:\n{entry.text}"
