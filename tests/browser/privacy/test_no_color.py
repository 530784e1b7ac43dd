"""Tests `NO_COLOR` and `motion = false`: what is sent to the terminal, and when."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from browser_driver import TIMEOUT, make_browser, screen_text, wait_for_text, wait_until
from pty_terminal import Terminal
from rich.segment import Segment
from rich.style import Style
from test_images import add_picture
from textual.color import Color
from textual.widgets import Input, TextArea

from store.paths import config_file
from store.store import Store
from tui.privacy.no_color import NoColorFilter
from tui.screens.help import HelpScreen

BACKSCROLL = "from tui.main import main; raise SystemExit(main())"
LOOKS = re.compile(rb"\x1b\[([\d;:]*)m")
WITHOUT_COLOUR = {b"", *(b"%d" % code for code in range(30))}
BLACK = Color(0, 0, 0)
DIALOGS = {"\x10": "Search for commands", "?": "o  Choose the order", "o": "Headings", "m": "^s Save"}
BLINK = 0.5
"""Seconds for which Textual shows a cursor, or does not."""


# ── no colours ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def plain(text: str, style: str, **meta: Any) -> Segment:
    (segment,) = NoColorFilter().apply([Segment(text, Style.parse(style) + Style.from_meta(meta))], BLACK)
    return segment


def test_styles_replace_colours() -> None:
    assert plain("x", "bold #ffffff on #000000") == Segment("x", Style(bold=True))
    assert plain("x", "#505050 on #000000") == Segment("x", Style(dim=True))
    assert plain("x", "#b0b0b0 on #ffffff") == Segment("x", Style(dim=True))
    assert plain("日本", "#101010 on #101010").text == "    "
    assert plain("x", "red") == plain("x", "default on default") == Segment("x", Style())
    assert NoColorFilter().apply([Segment("x")], BLACK) == [Segment("x")]


def test_click_actions_are_kept() -> None:
    style = plain("x", "red on blue", grab=True).style
    assert style is not None
    assert style.meta == {"grab": True}


@pytest.mark.usefixtures("no_colour")
def test_no_colour_is_sent_and_the_current_row_is_reversed(filled_store: Store) -> None:
    with Terminal(BACKSCROLL, "--store", str(filled_store.path), columns=140, rows=40) as terminal:
        terminal.wait_for_text("6 sessions", "it now reopens it")
        terminal.press("j")
        terminal.wait_for_text("▌  Rename")
        for keys, shown in DIALOGS.items():
            terminal.press(keys)
            terminal.wait_for_text(shown)
            terminal.press("\x1b")
            terminal.wait_until_gone(shown)
        terminal.press("p")
        terminal.wait_for_text("Pinned “")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0
        looks = {code for look in LOOKS.findall(terminal.raw) for code in re.split(rb"[;:]", look)}
    assert looks <= WITHOUT_COLOUR
    assert re.search(rb"\x1b\[[\d;]*7mRename the config", terminal.raw)


@pytest.mark.usefixtures("no_colour")
async def test_a_dialog_has_a_border_and_an_empty_background(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions", "brackets")
        await pilot.press("t")
        await wait_for_text(pilot, "╭─", "Title", "Cancel")
        await wait_until(pilot, lambda: "brackets" not in screen_text(pilot))


@pytest.mark.usefixtures("no_colour")
async def test_a_message_replaces_a_picture(store: Store) -> None:
    add_picture(store, "red", "blue", width=8)
    async with make_browser(store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "1 session", "see this")
        await pilot.press("enter")
        await wait_for_text(pilot, "shot.png")
        await pilot.press("end", "enter")
        await wait_for_text(pilot, "NO_COLOR is set")


# ── no motion ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def no_motion() -> None:
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text("[browser]\nmotion = false\n")


@pytest.mark.usefixtures("no_motion")
@pytest.mark.parametrize(("key", "kind"), [("t", Input), ("m", TextArea), ("slash", Input), ("ctrl+p", Input)])
async def test_the_cursor_does_not_blink(filled_store: Store, key: str, kind: type[Input | TextArea]) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions", "brackets")
        await pilot.press(key)
        await wait_until(pilot, lambda: isinstance(pilot.app.focused, kind))
        field = pilot.app.focused
        assert isinstance(field, Input | TextArea)
        await wait_until(pilot, lambda: not field.cursor_blink)
        await pilot.press("a")
        await pilot.pause(BLINK * 1.5)
        assert field._draw_cursor if isinstance(field, TextArea) else field._cursor_visible


@pytest.mark.usefixtures("no_motion")
async def test_a_page_scrolls_without_animation(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions", "brackets")
        await pilot.press("question_mark")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        await wait_for_text(pilot, "Go to the last session")
        page = pilot.app.focused
        assert page is not None
        seen = set[float]()
        pilot.app.watch(page, "scroll_y", lambda y: seen.add(y), init=False)
        await pilot.press("end")
        await wait_until(pilot, lambda: page.scroll_y == page.max_scroll_y)
        assert seen == {page.max_scroll_y}


def test_nothing_is_sent_while_no_key_is_pressed(filled_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    with Terminal(BACKSCROLL, "--store", str(filled_store.path), columns=80, rows=24) as terminal:
        terminal.wait_for_text("6 sessions", "brackets")
        terminal.press("t")
        terminal.wait_for_text("Title", "Cancel")
        began = quiet_since = time.monotonic()
        while time.monotonic() < quiet_since + 3 * BLINK:
            sent = len(terminal.raw)
            terminal.read(0.05)
            if len(terminal.raw) > sent:
                quiet_since = time.monotonic()
            assert quiet_since < began + TIMEOUT, "it is never at rest"
