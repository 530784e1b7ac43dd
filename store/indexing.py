"""What the search index holds of an entry. Pure: the same function must put text in and take it out again.

Raise INDEX_VERSION when it changes, and `doctor --reindex`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from store.coding import column_text
from store.model import Part, Thinking, ToolCall, ToolResult, readable

INDEX_VERSION = 1
INDEXED = frozenset({"message", "compaction"})
"""The kinds of entries that can be found: what was said, not what only marks an event."""

CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")


def search_text(text: str) -> str:
    """CJK characters set apart, so that a word inside a sentence is found as a phrase of its characters."""
    if text.isascii():
        return text
    return CJK.sub(r" \g<0> ", column_text(text))


def conversation_row(text: str, parts: Sequence[Part]) -> tuple[str, str] | None:
    """What the conversation index holds of an entry: what was said, and what was thought."""
    thoughts = [part.text for part in parts if isinstance(part, Thinking)]
    if not text and not thoughts:
        return None
    return search_text(text), search_text("\n\n".join(thoughts))


def tools_row(parts: Sequence[Part]) -> tuple[str, str] | None:
    """What the tool index holds of an entry: what was called, and what came back."""
    calls = [call_text(part) for part in parts if isinstance(part, ToolCall)]
    results = [readable(part.output) for part in parts if isinstance(part, ToolResult)]
    if not calls and not results:
        return None
    return search_text("\n".join(calls)), search_text("\n".join(results))


def call_text(call: ToolCall) -> str:
    """Every argument, also those that a reader would leave out of an output: a call is found by its file's name."""
    given = call.arguments
    if isinstance(given, dict):
        return "\n".join([call.name, *(f"{name}: {readable(value)}" for name, value in given.items())])
    return f"{call.name}\n{readable(given)}"
