"""Timers that ring but once: none is lost, however busy the machine is when it begins."""

from __future__ import annotations

import asyncio

import pytest
from browser_driver import make_browser
from textual.app import App

from store.store import Store
from tui.workers import reliable_timer

LATE = 1e-9
"""Seconds that are over before a timer has begun to wait."""


async def test_a_timer_that_is_late_when_it_begins_rings_all_the_same() -> None:
    app: App[None] = App()
    async with app.run_test():
        has_rung = asyncio.Event()
        reliable_timer(app.screen.set_timer(LATE, has_rung.set))
        await asyncio.wait_for(has_rung.wait(), 30)


async def test_so_do_those_of_the_browser_itself_of_which_one_heeds_resizes(store: Store) -> None:
    async with make_browser(store).run_test() as pilot:
        has_rung = asyncio.Event()
        pilot.app.set_timer(LATE, has_rung.set)
        await asyncio.wait_for(has_rung.wait(), 30)


async def test_textual_would_have_forgotten_it() -> None:
    """When this fails, `surely` may go."""
    app: App[None] = App()
    async with app.run_test():
        has_rung = asyncio.Event()
        app.screen.set_timer(LATE, has_rung.set)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(has_rung.wait(), 0.5)
