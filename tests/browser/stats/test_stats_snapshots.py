"""Tests how the statistics look: in three sizes, without colours, and in a light theme."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from browser_driver import make_browser
from test_stats_screen import wait_until_counted
from textual.pilot import Pilot
from usage_sessions import add_repeated_reads

from store.store import Store

from test_screen_snapshots import SIZES, Compare, Size, after  # isort: skip

ALL_SIZES = pytest.mark.parametrize("size", [(200, 55), (140, 45), (80, 24)], ids=["huge", "wide", "narrow"])
OPENED = ("4 sessions", "Fix the test", ["percent_sign"], "$1.78 API value")
SCREENS: dict[str, tuple[list[str] | str, ...]] = {
    "cost": (*OPENED, "big-1"),
    "year_of_calls": (*OPENED, ["4", "v", "v", "v"], "By week", "3 calls"),
    "tools": (*OPENED, ["b", "b", "b", "tab"], "p95", "Bash"),
    "explained": (*OPENED, "3 Nov: $1.78", ["equals_sign"], "$1.732100"),
}

CONVERSATION = ("4 sessions", "Fix the test", ["enter"], "$1.78 API value", "On it.")
CONVERSATIONS: dict[str, tuple[list[str] | str, ...]] = {
    "gutter": (*CONVERSATION, ["v", "v"], "$0.29"),
    "turn": (*CONVERSATION, ["home", "J"], "▌ And the docs", ["equals_sign"], "Turn 2: how", "carried context"),
}


def counted(*steps: list[str] | str) -> Callable[[Pilot[Any]], Awaitable[None]]:
    """Return a function that takes the steps, and waits until all figures are shown."""

    async def take(pilot: Pilot[Any]) -> None:
        await after(*steps)(pilot)
        await wait_until_counted(pilot)
        await pilot.pause()

    return take


@ALL_SIZES
@pytest.mark.parametrize("screen", SCREENS)
def test_stats(snap_compare: Compare, used_store: Store, screen: str, size: Size) -> None:
    assert snap_compare(make_browser(used_store), terminal_size=size, run_before=counted(*SCREENS[screen]))


@ALL_SIZES
def test_waste(snap_compare: Compare, used_store: Store, size: Size) -> None:
    add_repeated_reads(used_store)
    steps = counted("4 sessions", "Fix the test", ["percent_sign"], "API value", ["B"], "file read again")
    assert snap_compare(make_browser(used_store), terminal_size=size, run_before=steps)


@SIZES
@pytest.mark.parametrize("screen", CONVERSATIONS)
def test_cost_in_a_conversation(snap_compare: Compare, used_store: Store, screen: str, size: Size) -> None:
    assert snap_compare(make_browser(used_store), terminal_size=size, run_before=after(*CONVERSATIONS[screen]))


@ALL_SIZES
def test_stats_in_a_light_theme(snap_compare: Compare, used_store: Store, size: Size) -> None:
    app = make_browser(used_store)
    app.theme = "textual-light"
    assert snap_compare(app, terminal_size=size, run_before=counted(*SCREENS["cost"]))


@ALL_SIZES
def test_stats_without_colours(
    snap_compare: Compare, used_store: Store, size: Size, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(make_browser(used_store), terminal_size=size, run_before=counted(*SCREENS["cost"]))
