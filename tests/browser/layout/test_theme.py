"""Tests the default theme: its text can be read, and a theme that a person chose stays."""

from __future__ import annotations

import json

import pytest
from browser_driver import contrast_ratio, make_browser, wait_for_text
from textual.color import Color

from store.paths import state_file
from store.store import Store
from tui.render.styles import ERROR, FAINT, MUTED, THEME, WARNING

COLORS = THEME.to_color_system().generate()
PAGES = ("background", "surface", "surface-lighten-1", "primary-muted")
"""The colours behind text: a page, a dialog, the cursor in a pane without the focus, and in one with it."""

TEXT = ("$foreground", MUTED, ERROR, WARNING, "$text-primary", "$text-secondary", "$text-accent", "$text-success")
MARKS = (FAINT, "$accent", "$success", "$error", "$warning", "$primary", "$secondary")


def color_on(name: str, page: Color) -> Color:
    """Return the colour of a style such as `$foreground 75%` on a page."""
    variable, _, percent = name.removeprefix("$").partition(" ")
    color = Color.parse(COLORS[variable])
    return page + color.multiply_alpha(int(percent.rstrip("%")) / 100) if percent else page + color


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", TEXT)
def test_text_can_be_read(name: str, page: str) -> None:
    background = color_on("background", Color(0, 0, 0)) + Color.parse(COLORS[page])
    assert contrast_ratio(color_on(name, background), background) >= 4.5


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", MARKS)
def test_marks_can_be_seen(name: str, page: str) -> None:
    background = color_on("background", Color(0, 0, 0)) + Color.parse(COLORS[page])
    assert contrast_ratio(color_on(name, background), background) >= 3


def test_the_last_line_and_hits_can_be_read() -> None:
    page = Color.parse(COLORS["background"])
    for text, behind in (
        ("footer-key-foreground", "footer-background"),
        ("footer-description-foreground", "footer-background"),
        ("text-warning", "warning-muted"),
    ):
        background = page + Color.parse(COLORS[behind])
        assert contrast_ratio(background + Color.parse(COLORS[text]), background) >= 4.5, text


async def test_the_browser_has_a_theme_of_its_own(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        assert pilot.app.theme == THEME.name


async def test_a_chosen_theme_stays(filled_store: Store) -> None:
    state_file().parent.mkdir(parents=True, exist_ok=True)
    state_file().write_text(json.dumps({"theme": "nord"}))
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        assert pilot.app.theme == "nord"
