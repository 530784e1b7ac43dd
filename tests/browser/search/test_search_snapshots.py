"""Tests how searching looks: tool hits, hints, choosing, saved searches and the top bar."""

from __future__ import annotations

import pytest
from browser_driver import make_browser
from test_screen_snapshots import SIZES, Compare, Size, _no_agents, _no_blinking, after

from store.search.saved_searches import RecentSearches
from store.store import Store

__all__ = ["_no_agents", "_no_blinking"]

LIST = ("9 sessions", "Rename")
SEARCH = (*LIST, "@dolphins", ["slash"])
SCREENS: dict[str, tuple[list[str] | str, ...]] = {
    "tool_hits": (*SEARCH, [*"dolphin"], "2 more in tool output", "grep dolphin"),
    "only_tool_hits": (*SEARCH, [*"notes.txt"], "2 found in tool output", "In tool output  2"),
    "opened_at_call": (*SEARCH, [*"dolphin", "enter"], "In tool output  2", ["j", "enter"], "│ a dolphin"),
    "choosing": (*SEARCH, [*"dolphin"], "2 more in tool output", ["down", "down"], "a-z Keep searching"),
    "unknown_value": (*SEARCH, [*"is:banana"], "is: has no value"),
    "no_result": (*SEARCH, [*"zzzzzz"], "No session matches 'zzzzzz'."),
    "pinned": (*LIST, "@dolphins"),
    "running": (*SEARCH, [*"@dolphins"], "1 found"),
    "save": (*SEARCH, [*"dolphin"], "2 more in tool output", ["ctrl+s"], "Save this search"),
    "recall": (*SEARCH, ["ctrl+r"], "2 saved, 2 recent", "config keys"),
    "recall_filtered": (*SEARCH, ["ctrl+r"], "2 saved, 2 recent", [*"keys"], "1 of 2 saved"),
    "rename": (*SEARCH, ["ctrl+r"], "2 saved, 2 recent", ["f2"], "Rename @dolphins"),
    "clear_recent": (*SEARCH, ["ctrl+r"], "2 saved, 2 recent", ["f8"], "Forget all recent searches?"),
}


@pytest.fixture
def searched(tool_store: Store) -> Store:
    tool_store.saved_searches.save("dolphins", "dolphin role:user")
    tool_store.saved_searches.pin("dolphins")
    tool_store.saved_searches.save("codex", "agent:codex")
    for query in ("disk", "config keys"):
        RecentSearches().add(query)
    return tool_store


@SIZES
@pytest.mark.parametrize("screen", SCREENS)
def test_search(snap_compare: Compare, searched: Store, screen: str, size: Size) -> None:
    assert snap_compare(make_browser(searched), terminal_size=size, run_before=after(*SCREENS[screen]))
