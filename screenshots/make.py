"""Makes the pictures of every screen, from the demo store and with a clock that stands still: `make screenshots`.

The same program gives the same pictures, so that a difference in them is a difference in the program.
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
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from store import demo
from store.store import Store
from store.text import json
from tui.app import Backscroll

FOLDER = Path(__file__).parent
NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
WIDE, NARROW = (140, 40), (80, 24)
QUIET = 4
"""Looks, ten a second."""

AT_ONCE = 4
"""Most of the time they wait for quiet."""

CELL = 12.2
"""How wide Rich draws a character."""

_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_TEXT = re.compile(r'textLength="[\d.]+"([^>]*>)([^<]*)')

TYPED = "="
"""Before what is typed at once: the answers to half a word depend on how quick the fingers and the machine are."""

SEARCH = ["slash", "=flaky upload", "enter"]
PICTURES: dict[str, tuple[tuple[int, int], list[str]]] = {
    "browser": (WIDE, ["down", "right", "enter", "home"]),
    "browser-narrow": (NARROW, ["down"]),
    "search": (WIDE, ["slash", "=upload is:e"]),
    "conversation": (WIDE, [*SEARCH, "enter", "E", "right"]),
    "conversation-narrow": (NARROW, [*SEARCH, "enter"]),
    "record": (WIDE, [*SEARCH, "enter", "3", "z"]),
    "inspector": (WIDE, [*SEARCH, "enter", "E", "i"]),
    "calls": (WIDE, [*SEARCH, "enter", "a"]),
    "tools": (WIDE, ["A"]),
    "fork": (WIDE, [*SEARCH, "enter", "F"]),
    "order": (WIDE, ["o"]),
    "resume": (WIDE, ["down", "r"]),
    "facts": (WIDE, ["f"]),
    "summary": (WIDE, ["down", "S"]),
    "secrets": (WIDE, ["slash", "=has:secret", "enter", "dollar_sign"]),
    "journal": (WIDE, ["U"]),
    "help": (WIDE, ["question_mark"]),
}
SHOWN = ("browser", "search", "inspector", "facts")
"""As PNGs, too."""


class StandingStill(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls(*NOW.timetuple()[:6], tzinfo=tz)


async def take(store: Store, path: Path, size: tuple[int, int], keys: list[str]) -> None:
    app = Backscroll(store, lambda: NOW)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        for key in keys:
            if key.startswith(TYPED) and app.focused:
                app.focused.post_message(events.Paste(key.removeprefix(TYPED)))
            else:
                await pilot.press(key)
            await settle(pilot)
        drawn = app.export_screenshot(title="Backscroll")
    path.write_text(finished(drawn), "utf-8")


async def settle(pilot: Pilot[Any]) -> None:
    """Until nobody works and nothing has changed for longer than the pause after typing."""
    quiet, before = 0, ""
    while quiet < QUIET:
        await pilot.pause(0.1)
        shown = "".join(strip.text for strip in pilot.app.screen._compositor.render_strips())
        quiet = quiet + 1 if shown == before and all(worker.is_finished for worker in pilot.app.workers) else 0
        before = shown


def finished(svg: str) -> str:
    """Without the fonts that would be fetched from elsewhere, and with wide characters as wide as they are."""
    return _TEXT.sub(_with_true_length, _FONT.sub("", svg))


def _with_true_length(text: re.Match[str]) -> str:
    length = cell_len(html.unescape(text[2])) * CELL
    return f'textLength="{length:g}"{text[1]}{text[2]}'


async def main(folder: Path) -> None:
    Input.cursor_blink = TextArea.cursor_blink = False  # type: ignore[assignment]
    with (
        tempfile.TemporaryDirectory() as home,
        patch.object(demo, "datetime", StandingStill),
        patch.object(json, "datetime", StandingStill),
    ):
        # No programs either: which of the agents are installed here is nobody's business.
        away = {"HOME": home, "PATH": home} | {
            f"XDG_{kind}_HOME": f"{home}/{place}"
            for kind, place in (("DATA", ".local/share"), ("STATE", ".local/state"), ("CONFIG", ".config"))
        }
        with patch.dict(os.environ, away):
            await take_all(folder)


async def take_all(folder: Path) -> None:
    with Store.open() as empty:
        await take(empty, folder / "welcome.svg", WIDE, [])
    at_once = asyncio.Semaphore(AT_ONCE)

    async def take_one(name: str, size: tuple[int, int], keys: list[str]) -> None:
        async with at_once:
            with Store.memory() as store:
                demo.fill(store)
                await take(store, folder / f"{name}.svg", size, keys)

    await asyncio.gather(*(take_one(name, size, keys) for name, (size, keys) in PICTURES.items()))


def render(folder: Path) -> None:
    """The PNGs that the README shows, where there is a browser to draw them."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("There is no chromium here, so the PNGs stay as they are.")
        return
    for name in SHOWN:
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
        render(FOLDER)
