"""This module opens a screen above the browser for a test, presses its keys and reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from browser_driver import make_browser, screen_text, wait_for_text, wait_until
from textual.pilot import Pilot
from textual.screen import Screen

from store.store import Store

WIDE, NARROW = (140, 45), (80, 24)


class ScreenDriver:
    """Drives a screen above the browser, and holds the results that it was dismissed with."""

    def __init__(self, pilot: Pilot[Any], screen: Screen[str | None]) -> None:
        self.pilot = pilot
        self.screen = screen
        self.results: list[str | None] = []

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def wait_for_text(self, *texts: str) -> None:
        await wait_for_text(self.pilot, *texts)

    async def wait_until(self, condition: Callable[[], object]) -> None:
        await wait_until(self.pilot, condition)

    @property
    def text(self) -> str:
        return screen_text(self.pilot)


@asynccontextmanager
async def open_screen(
    store: Store, screen: Screen[str | None], size: tuple[int, int] = WIDE
) -> AsyncIterator[ScreenDriver]:
    app = make_browser(store)
    async with app.run_test(size=size, notifications=True) as pilot:
        driver = ScreenDriver(pilot, screen)
        await app.push_screen(screen, driver.results.append)
        yield driver
