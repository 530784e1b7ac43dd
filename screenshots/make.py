"""Makes the pictures of every screen, from the demo store and with a fixed clock. `make screenshots` runs it.

The same program makes the same pictures, so a changed picture shows a change of the program.
"""

from __future__ import annotations

import asyncio
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

from rich.cells import cell_len
from textual import events
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from store import demo
from store.store import Store
from store.text import json
from tui.app import Backscroll
from tui.screens.browser.screen import BrowserScreen

FOLDER = Path(__file__).parent
NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
HUGE, WIDE, NARROW = (200, 55), (140, 40), (80, 24)
QUIET_CHECKS = 4
"""Counts the checks without a change, ten a second, after which the screen is idle."""

CONCURRENT_APPS = 4
"""Limits how many apps run together. Most of the time they wait to become idle."""

CELL_WIDTH = 12.2
"""Is the width of a character in the SVG files that Rich writes."""

_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_TEXT = re.compile(r'textLength="[\d.]+"([^>]*>)([^<]*)')

PASTE_PREFIX = "="
"""Marks text that is pasted instead of typed, because the results of half a word depend on the speed of the machine."""

SEARCH_KEYS = ["slash", "=flaky upload", "enter"]
SCREENSHOTS: dict[str, tuple[tuple[int, int], list[str]]] = {
    "browser": (WIDE, ["right", "enter", "home"]),
    "browser-narrow": (NARROW, ["down"]),
    "search": (WIDE, ["slash", "=upload is:e"]),
    "conversation": (WIDE, [*SEARCH_KEYS, "enter", "E", "right"]),
    "conversation-narrow": (NARROW, [*SEARCH_KEYS, "enter"]),
    "record": (WIDE, [*SEARCH_KEYS, "enter", "3", "z"]),
    "inspector": (WIDE, [*SEARCH_KEYS, "enter", "E", "i"]),
    "calls": (WIDE, [*SEARCH_KEYS, "enter", "a"]),
    "tools": (WIDE, ["A"]),
    "stats": (HUGE, ["percent_sign", "4"]),
    "stats-narrow": (NARROW, ["percent_sign", "4", "shift+tab", "shift+tab"]),
    "explanation": (WIDE, ["percent_sign", "4", "tab", "equals_sign"]),
    "fork": (WIDE, [*SEARCH_KEYS, "enter", "F"]),
    "order": (WIDE, ["o"]),
    "resume": (WIDE, ["down", "r"]),
    "facts": (WIDE, ["f"]),
    "summary": (WIDE, ["down", "S"]),
    "secrets": (WIDE, ["slash", "=has:secret", "enter", "dollar_sign"]),
    "journal": (WIDE, ["U"]),
    "help": (WIDE, ["question_mark"]),
}
PNG_NAMES = ("browser", "search", "inspector", "facts", "stats")
"""Names the pictures that are also made as PNG files."""


class FrozenDatetime(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls(*NOW.timetuple()[:6], tzinfo=tz)


async def take_screenshot(store: Store, path: Path, size: tuple[int, int], keys: list[str]) -> None:
    app = Backscroll(store, lambda: NOW)
    async with app.run_test(size=size) as pilot:
        await wait_until_idle(pilot)
        for key in keys:
            if key.startswith(PASTE_PREFIX) and app.focused:
                app.focused.post_message(events.Paste(key.removeprefix(PASTE_PREFIX)))
            else:
                await pilot.press(key)
            await wait_until_idle(pilot)
        svg = app.export_screenshot(title="Backscroll")
    path.write_text(clean_svg(svg), "utf-8")


async def wait_until_idle(pilot: Pilot[Any]) -> None:
    """Wait until nothing runs and the screen has not changed for longer than the pause after typing."""
    unchanged, before = 0, ""
    while unchanged < QUIET_CHECKS:
        await pilot.pause(0.1)
        shown = "".join(strip.text for strip in pilot.app.screen._compositor.render_strips())
        unchanged = unchanged + 1 if shown == before and not is_busy(pilot.app) else 0
        before = shown


def is_busy(app: App[Any]) -> bool:
    """Return whether a worker runs, or the session under the cursor is still to be opened."""
    is_opening = isinstance(app.screen, BrowserScreen) and app.screen.is_opening
    return is_opening or not all(worker.is_finished for worker in app.workers)


def clean_svg(svg: str) -> str:
    """Remove the fonts that would be fetched from the network, and correct the width of wide characters."""
    return _TEXT.sub(_fix_text_length, _FONT_FACE.sub("", svg))


def _fix_text_length(text: re.Match[str]) -> str:
    length = cell_len(html.unescape(text[2])) * CELL_WIDTH
    return f'textLength="{length:g}"{text[1]}{text[2]}'


async def main(folder: Path) -> None:
    Input.cursor_blink = TextArea.cursor_blink = False  # type: ignore[assignment]
    with (
        tempfile.TemporaryDirectory() as home,
        patch.object(demo, "datetime", FrozenDatetime),
        patch.object(json, "datetime", FrozenDatetime),
    ):
        # An empty PATH: the pictures must not depend on which agents are installed here.
        environment = {"HOME": home, "PATH": home} | {
            f"XDG_{kind}_HOME": f"{home}/{folder_name}"
            for kind, folder_name in (("DATA", ".local/share"), ("STATE", ".local/state"), ("CONFIG", ".config"))
        }
        with patch.dict(os.environ, environment):
            await take_all_screenshots(folder)


async def take_all_screenshots(folder: Path) -> None:
    with Store.open() as empty:
        await take_screenshot(empty, folder / "welcome.svg", WIDE, [])
    semaphore = asyncio.Semaphore(CONCURRENT_APPS)

    async def take_one(name: str, size: tuple[int, int], keys: list[str]) -> None:
        async with semaphore:
            with Store.memory() as store:
                demo.fill_store(store)
                await take_screenshot(store, folder / f"{name}.svg", size, keys)

    await asyncio.gather(*(take_one(name, size, keys) for name, (size, keys) in SCREENSHOTS.items()))


def render_pngs(folder: Path) -> None:
    """Render the PNG files that the README shows, if Chromium is installed."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("Chromium is not installed; the PNG files are unchanged.")
        return
    for name in PNG_NAMES:
        svg = folder / f"{name}.svg"
        size = _SIZE.search(svg.read_text("utf-8"))
        width, height = (round(float(side)) for side in size.groups()) if size else (1720, 1000)
        subprocess.run(
            [
                chromium,
                "--headless",
                "--no-sandbox",
                "--hide-scrollbars",
                "--default-background-color=00000000",
                f"--window-size={width},{height}",
                f"--screenshot={svg.with_suffix('.png')}",
                svg.as_uri(),
            ],
            check=True,
            stderr=subprocess.DEVNULL,
        )


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    if len(sys.argv) > 1:
        asyncio.run(main(Path(sys.argv[1])))
    else:
        asyncio.run(main(FOLDER))
        render_pngs(FOLDER)
