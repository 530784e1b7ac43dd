"""This module keeps the message history of Pydantic AI in a store. It needs the extra `pydantic-ai`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

try:
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
except ImportError as missing:
    raise ImportError("Pydantic AI is not installed. Run `pip install 'backscroll[pydantic-ai]'`.") from missing

from store.agent_api.histories.item_history import ItemHistory
from store.model.entry import Json, NewEntry, NewRecord, Opaque, Part, Text, Thinking, ToolCall, ToolResult

if TYPE_CHECKING:
    from store.store import Store


class StoreMessageHistory:
    """Holds the messages of one session. Pass `messages()` to an agent, and `append` what the run added."""

    def __init__(self, store: Store, session_id: str, **fields: Any) -> None:
        self._history = ItemHistory(
            store, session_id, "pydantic_ai", _build_entries, **{"channel": "pydantic-ai"} | fields
        )

    def messages(self) -> list[ModelMessage]:
        return list(ModelMessagesTypeAdapter.validate_python(self._history.load()))

    def append(self, messages: Sequence[ModelMessage]) -> None:
        """Add messages, usually `result.new_messages()`."""
        self._history.append(ModelMessagesTypeAdapter.dump_python(list(messages), mode="json"))

    def clear(self) -> None:
        self._history.clear()

    async def amessages(self) -> list[ModelMessage]:
        return await asyncio.to_thread(self.messages)

    async def aappend(self, messages: Sequence[ModelMessage]) -> None:
        await asyncio.to_thread(self.append, messages)


def _build_entries(message: Json, record: NewRecord) -> list[NewEntry]:
    """Return an entry for each role in a message. A request can hold a prompt and the results of tools."""
    is_response = message.get("kind") == "response"
    model = str(message.get("model_name") or "") if is_response else ""
    grouped: list[tuple[str, list[Part]]] = []
    for role, part in _parse_parts(message.get("parts") or (), is_response):
        if not grouped or grouped[-1][0] != role:
            grouped.append((role, []))
        grouped[-1][1].append(part)
    return [NewEntry(role=role, parts=tuple(parts), model=model, record=record) for role, parts in grouped]


def _parse_parts(parts: Sequence[Json], is_response: bool) -> Iterator[tuple[str, Part]]:
    for part in parts:
        kind, content = part.get("part_kind"), part.get("content")
        call_id, name = str(part.get("tool_call_id") or ""), str(part.get("tool_name") or "")
        match kind:
            case "system-prompt":
                yield "system", Text(str(content))
            case "user-prompt":
                yield from (("user", found) for found in _parse_prompt(content))
            case "text":
                yield "assistant", Text(str(content))
            case "thinking":
                yield "assistant", Thinking(str(content), str(part.get("signature") or ""))
            case "tool-call" | "builtin-tool-call":
                yield "assistant", ToolCall(call_id, name, part.get("args"))
            case "tool-return" | "builtin-tool-return":
                yield (
                    ("assistant" if is_response else "tool"),
                    ToolResult(call_id, content, part.get("outcome") == "failed"),
                )
            case "retry-prompt" if name:
                yield "tool", ToolResult(call_id, content, True)
            case _:
                yield ("assistant" if is_response else "user"), Opaque(str(kind), dict(part))


def _parse_prompt(content: Json) -> list[Part]:
    items = content if isinstance(content, list) else [content]
    return [Text(item) if isinstance(item, str) else Opaque("content", item) for item in items]
