"""Makes the pictures of every screen, from the demo store and with a clock that stands still: `make screenshots`.

The same program gives the same pictures, so that a difference in them is a difference in the program.
"""

from __future__ import annotations

import asyncio
import html
import os
import re
import tempfile
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Self
from unittest.mock import patch

from rich.cells import cell_len
from textual.pilot import Pilot
from textual.widgets import Input

from store import demo
from store.store import Store
from tui.app import Backscroll

FOLDER = Path(__file__).parent
NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
WIDE, NARROW = (140, 40), (80, 24)
CELL = 12.2
"""How wide Rich draws a character."""

_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_TEXT = re.compile(r'textLength="[\d.]+"([^>]*>)([^<]*)')

PICTURES: dict[str, tuple[tuple[int, int], list[str]]] = {
    "list": (WIDE, ["down"]),
    "list-narrow": (NARROW, ["down"]),
    "filter": (WIDE, ["slash", *"upload ret"]),
    "conversation": (WIDE, ["slash", *"flaky upload", "enter", "enter"]),
    "conversation-narrow": (NARROW, ["slash", *"flaky upload", "enter", "enter"]),
    "help": (WIDE, ["question_mark"]),
}


class StandingStill(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls(*NOW.timetuple()[:6], tzinfo=tz)


async def take(store: Store, name: str, size: tuple[int, int], keys: list[str]) -> None:
    app = Backscroll(store, lambda: NOW)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        for key in keys:
            await pilot.press(key)
            if key == "enter":
                await settle(pilot)
        await settle(pilot)
        drawn = app.export_screenshot(title="Backscroll")
    (FOLDER / f"{name}.svg").write_text(finished(drawn), "utf-8")


async def settle(pilot: Pilot[None]) -> None:
    """Until the pause after typing is over and every worker has answered."""
    for _ in range(3):
        await pilot.pause(0.2)
        await pilot.app.workers.wait_for_complete()


def finished(svg: str) -> str:
    """Without the fonts that would be fetched from elsewhere, and with wide characters as wide as they are."""
    return _TEXT.sub(_with_true_length, _FONT.sub("", svg))


def _with_true_length(text: re.Match[str]) -> str:
    length = cell_len(html.unescape(text[2])) * CELL
    return f'textLength="{length:g}"{text[1]}{text[2]}'


async def main() -> None:
    Input.cursor_blink = False  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"HOME": home, "XDG_DATA_HOME": f"{home}/.local/share", "XDG_CONFIG_HOME": f"{home}/.config"}
        with Store.open() as empty:
            await take(empty, "welcome", WIDE, [])
        with Store.memory() as store:
            with patch.object(demo, "datetime", StandingStill):
                demo.fill(store)
            for name, (size, keys) in PICTURES.items():
                await take(store, name, size, keys)


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    asyncio.run(main())
