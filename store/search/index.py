"""This module decides which text of an entry goes into the search index. It is pure.

Deleting from the index needs exactly the text that was inserted. If you change a function here, raise INDEX_VERSION
and run `doctor --reindex`.
"""

from __future__ import annotations

from collections.abc import Sequence

from store.model.entry import Part, Thinking, ToolCall, ToolResult, readable_text
from store.text.unicode import separate_cjk

INDEX_VERSION = 2
INDEXED_KINDS = frozenset({"message", "compaction"})
"""The kinds of entries that are indexed. Events are not."""


def conversation_text(text: str, parts: Sequence[Part]) -> str | None:
    """Return the text of an entry for the conversation index: the message and its thinking."""
    thoughts = [part.text for part in parts if isinstance(part, Thinking)]
    return separate_cjk("\n\n".join([text, *thoughts])) if text or thoughts else None


def tools_text(parts: Sequence[Part]) -> str | None:
    """Return the text of an entry for the tool index: its tool calls and tool results."""
    calls = [call_text(part) for part in parts if isinstance(part, ToolCall)]
    results = [readable_text(part.output) for part in parts if isinstance(part, ToolResult)]
    return separate_cjk("\n".join([*calls, *results])) if calls or results else None


def call_text(call: ToolCall) -> str:
    """Return the name and all arguments of a call, so that it is found by the name of a file, for example."""
    arguments = call.arguments
    if isinstance(arguments, dict):
        return "\n".join([call.name, *(f"{name}: {readable_text(value)}" for name, value in arguments.items())])
    return f"{call.name}\n{readable_text(arguments)}"
