"""This module is a session of the OpenAI Agents SDK that is kept in a store. It needs the extra `openai-agents`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

try:
    from agents.memory.session import SessionABC
    from agents.memory.session_settings import SessionSettings
except ImportError as missing:
    raise ImportError(
        "The OpenAI Agents SDK is not installed. Run `pip install 'backscroll[openai-agents]'`."
    ) from missing

from store.agent_api.convert import item_role
from store.agent_api.histories.item_history import ItemHistory
from store.formats.content_blocks import parse_item
from store.model.entry import Json, NewEntry, NewRecord

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

    from store.store import Store


class StoreSession(SessionABC):
    """Gives an agent its history, and keeps what it adds. Pass it as `session` to `Runner.run`."""

    def __init__(self, store: Store, session_id: str, **fields: Any) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = None
        self._history = ItemHistory(store, session_id, "input", _build_entries, **{"channel": "openai-agents"} | fields)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items in order, or only the newest."""
        items: list[Any] = await asyncio.to_thread(self._history.load)
        if limit is not None:
            items = items[-limit:] if limit > 0 else []
        return items

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        new_items: list[Any] = [*items]
        await asyncio.to_thread(self._history.append, new_items)

    async def pop_item(self) -> TResponseInputItem | None:
        item: TResponseInputItem | None = await asyncio.to_thread(self._history.pop)
        return item

    async def clear_session(self) -> None:
        await asyncio.to_thread(self._history.clear)


def _build_entries(item: Json, record: NewRecord) -> list[NewEntry]:
    return [NewEntry(role=item_role(item, "user"), parts=parse_item(item), record=record)]
