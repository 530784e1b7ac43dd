"""A screen over the browser for a test: its keys, what it shows, and what it answered with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from browser_driver import browser, screen_text, until, until_shown
from textual.pilot import Pilot
from textual.screen import Screen

from store.store import Store

WIDE, NARROW = (140, 45), (80, 24)


class Shown:
    """A screen over the browser, and what it answered with."""

    def __init__(self, pilot: Pilot[Any], screen: Screen[str | None]) -> None:
        self.pilot = pilot
        self.screen = screen
        self.answers: list[str | None] = []

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def shows(self, *texts: str) -> None:
        await until_shown(self.pilot, *texts)

    async def until(self, condition: Callable[[], object]) -> None:
        await until(self.pilot, condition)

    @property
    def text(self) -> str:
        return screen_text(self.pilot)


@asynccontextmanager
async def shown(store: Store, screen: Screen[str | None], size: tuple[int, int] = WIDE) -> AsyncIterator[Shown]:
    app = browser(store)
    async with app.run_test(size=size, notifications=True) as pilot:
        one = Shown(pilot, screen)
        await app.push_screen(screen, one.answers.append)
        yield one
