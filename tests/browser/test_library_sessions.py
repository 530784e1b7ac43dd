"""Tests that a session which a program keeps through another library's interface is listed, found and continued."""

from __future__ import annotations

import pytest
from browser_driver import make_browser, wait_for_text

from store.agent_api.histories.item_history import ItemHistory
from store.model.entry import NewEntry, Text
from store.store import Store


@pytest.mark.parametrize("size", [(140, 45), (80, 24)])
async def test_it_is_listed_found_and_says_how_to_continue(store: Store, size: tuple[int, int]) -> None:
    history = ItemHistory(
        store,
        "lamp-1",
        "input",
        lambda item, record: [NewEntry(role="user", parts=(Text(item["content"]),), record=record)],
        channel="langchain",
        agent_title="The lamp",
    )
    history.append([{"content": "How is the lighthouse?"}])
    async with make_browser(store).run_test(size=size) as pilot:
        await wait_for_text(pilot, "The lamp")
        await pilot.press("slash", *"lighthouse")
        await wait_for_text(pilot, "The lamp", "lighthouse")
        await pilot.press("escape", "r")
        await wait_for_text(pilot, "LangChain", "StoreChatMessageHistory")
