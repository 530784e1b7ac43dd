"""This module is a chat message history of LangChain that is kept in a store. It needs the extra `langchain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

try:
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
except ImportError as missing:
    raise ImportError("LangChain is not installed. Run `pip install 'backscroll[langchain]'`.") from missing

from store.agent_api.histories.item_history import ItemHistory
from store.formats.content_blocks import parse_blocks
from store.model.entry import Json, NewEntry, NewRecord, Part, ToolCall, ToolResult

if TYPE_CHECKING:
    from store.store import Store

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}


class StoreChatMessageHistory(BaseChatMessageHistory):
    """Holds the messages of one session, for example for `RunnableWithMessageHistory`."""

    def __init__(self, store: Store, session_id: str, **fields: Any) -> None:
        self._history = ItemHistory(store, session_id, "langchain", _build_entries, **{"channel": "langchain"} | fields)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        return list(messages_from_dict(self._history.load()))

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self._history.append([message_to_dict(message) for message in messages])

    def clear(self) -> None:
        self._history.clear()


def _build_entries(item: Json, record: NewRecord) -> list[NewEntry]:
    data, kind = item["data"], item["type"]
    return [NewEntry(role=_ROLES.get(kind, kind), parts=_parse_parts(kind, data), record=record)]


def _parse_parts(kind: str, data: Json) -> tuple[Part, ...]:
    content = data.get("content") or ""
    if kind == "tool":
        return (ToolResult(str(data.get("tool_call_id", "")), content, data.get("status") == "error"),)
    calls = [
        ToolCall(str(call.get("id") or ""), str(call.get("name") or ""), call.get("args"))
        for call in data.get("tool_calls") or ()
    ]
    blocks = content if isinstance(content, str) else [block for block in content if not _is_call(block)]
    return (*(parse_blocks(blocks) if blocks else ()), *calls)


def _is_call(block: Json) -> bool:
    """Return whether a block repeats a call that the message also lists as such."""
    return isinstance(block, dict) and block.get("type") in ("tool_use", "tool_call")
