"""Tests that no one-shot timer is lost, even if the machine is busy when it starts."""

from __future__ import annotations

import asyncio

import pytest
from browser_driver import make_browser
from textual.app import App

from store.store import Store
from tui.textual_compat import reliable_timer

EXPIRED = 1e-9
"""Seconds that have passed before a timer starts to wait."""


async def test_a_timer_that_is_late_at_its_start_still_fires() -> None:
    app: App[None] = App()
    async with app.run_test():
        fired = asyncio.Event()
        reliable_timer(app.screen.set_timer(EXPIRED, fired.set))
        await asyncio.wait_for(fired.wait(), 30)


async def test_a_late_timer_of_the_browser_still_fires(store: Store) -> None:
    async with make_browser(store).run_test() as pilot:
        fired = asyncio.Event()
        pilot.app.set_timer(EXPIRED, fired.set)
        await asyncio.wait_for(fired.wait(), 30)


async def test_textual_loses_a_late_timer() -> None:
    """When this test fails, Textual is fixed and `reliable_timer` can be removed."""
    app: App[None] = App()
    async with app.run_test():
        fired = asyncio.Event()
        app.screen.set_timer(EXPIRED, fired.set)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fired.wait(), 0.5)
