"""What the search index holds of an entry. Pure: the same function must put text in and take it out again.

Raise INDEX_VERSION when it changes, and `doctor --reindex`.
"""

from __future__ import annotations

from collections.abc import Sequence

from store.model.entry import Part, Thinking, ToolCall, ToolResult, readable_text
from store.text.unicode import separate_cjk

INDEX_VERSION = 2
INDEXED_KINDS = frozenset({"message", "compaction"})
"""The kinds of entries that can be found: what was said, not what only marks an event."""


def conversation_text(text: str, parts: Sequence[Part]) -> str | None:
    """What the conversation index holds of an entry: what was said, and what was thought."""
    thoughts = [part.text for part in parts if isinstance(part, Thinking)]
    return separate_cjk("\n\n".join([text, *thoughts])) if text or thoughts else None


def tools_text(parts: Sequence[Part]) -> str | None:
    """What the tool index holds of an entry: what was called, and what came back."""
    calls = [call_text(part) for part in parts if isinstance(part, ToolCall)]
    results = [readable_text(part.output) for part in parts if isinstance(part, ToolResult)]
    return separate_cjk("\n".join([*calls, *results])) if calls or results else None


def call_text(call: ToolCall) -> str:
    """Every argument, also those that a reader would leave out of an output: a call is found by its file's name."""
    given = call.arguments
    if isinstance(given, dict):
        return "\n".join([call.name, *(f"{name}: {readable_text(value)}" for name, value in given.items())])
    return f"{call.name}\n{readable_text(given)}"
