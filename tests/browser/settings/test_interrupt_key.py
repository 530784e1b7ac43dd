"""Tests Ctrl+C: it copies a selection, and otherwise does what q does."""

from __future__ import annotations

from typing import Any

import pytest
from browser_driver import make_browser, wait_for_text, wait_until
from fake_clipboard import FakeClipboard
from pty_terminal import Terminal
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from store.store import Store
from tui.dialogs.choice import UnsavedDialog
from tui.screens.browser.screen import BrowserScreen


async def press_after(pilot: Pilot[Any], *steps: list[str] | str) -> None:
    await wait_for_text(pilot, "6 sessions", "Fix the flaky")
    for step in steps:
        if isinstance(step, str):
            await wait_for_text(pilot, step)
        else:
            await pilot.press(*step)


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (["slash", *"uplo"], "1 found"),
        (["enter"], "tells how often"),
        (["enter"], "tells how often", ["3"]),
    ],
    ids=["list", "search box", "conversation", "record"],
)
async def test_it_quits(filled_store: Store, steps: tuple[list[str] | str, ...]) -> None:
    app = make_browser(filled_store)
    async with app.run_test(size=(140, 45)) as pilot:
        await press_after(pilot, *steps)
        await pilot.press("ctrl+c")
        await wait_until(pilot, lambda: app._exit)


@pytest.mark.parametrize(
    "steps",
    [
        (["question_mark"], "list.open"),
        (["ctrl+p"], "Search for commands"),
        (["t"], "Cancel"),
        (["m"], "Cancel"),
        (["r"], "Resume in Claude Code"),
        (["o"], "Headings"),
        (["f"], "facts"),
        (["U"], "edits"),
        (["S"], "Summary"),
        (["dollar_sign"], "No secrets"),
        (["dollar_sign"], "No secrets", ["ctrl+c"]),
    ],
    ids=lambda steps: "-".join(map(str, steps[0])),
)
async def test_it_goes_back_where_q_or_escape_does(filled_store: Store, steps: tuple[list[str] | str, ...]) -> None:
    app = make_browser(filled_store)
    async with app.run_test(size=(140, 45)) as pilot:
        await press_after(pilot, *steps)
        if steps[-1] != ["ctrl+c"]:
            assert not isinstance(app.screen, BrowserScreen)
            await pilot.press("ctrl+c")
        await wait_until(pilot, lambda: isinstance(app.screen, BrowserScreen))
        assert not app._exit


async def test_unsaved_text_is_asked_about(filled_store: Store) -> None:
    app = make_browser(filled_store)
    async with app.run_test(size=(100, 30)) as pilot:
        await press_after(pilot, ["m"], "Cancel", [*"Ask Ada.", "ctrl+c"], "Unsaved changes")
        assert isinstance(app.screen, UnsavedDialog)
        await pilot.press("ctrl+c")
        await wait_until(pilot, lambda: isinstance(app.focused, TextArea))
        assert isinstance(app.focused, TextArea)
        assert app.focused.text == "Ask Ada."


async def test_a_selection_is_copied(filled_store: Store, clipboard: FakeClipboard) -> None:
    app = make_browser(filled_store)
    async with app.run_test(size=(100, 30)) as pilot:
        await press_after(pilot, ["m"], "Cancel", [*"Ask Ada", "shift+home", "ctrl+c"])
        await wait_until(pilot, lambda: app.clipboard == "Ask Ada")
        assert isinstance(app.focused, TextArea)
        await pilot.press("right", "escape", "d")
        await wait_until(pilot, lambda: isinstance(app.screen, BrowserScreen))
        await pilot.press("slash", *"uplo")
        await wait_for_text(pilot, "1 found")
        await pilot.press("shift+home", "ctrl+c")
        await wait_until(pilot, lambda: app.clipboard == "uplo")
        assert isinstance(app.focused, Input)


def test_in_a_terminal(filled_store: Store) -> None:
    filled_store.close()
    code = "import sys, tui.main; sys.exit(tui.main.main())"
    with Terminal(code, str(filled_store.path)) as terminal:
        terminal.wait_for_text("6 sessions")
        terminal.press("\x03")
        assert terminal.wait_for_exit() == 0
