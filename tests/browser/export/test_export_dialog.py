"""Tests the dialog that exports a session, a turn or one answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser_driver import add_session, answer_entry, make_browser, prompt_entry, time_ago, wait_for_text, wait_until
from textual.pilot import Pilot
from textual.widgets import Input

from store.export.verification import verify_file
from store.leaks.rule_table import RULES
from store.leaks.rules import Tier
from store.store import Store
from tui.dialogs.session_export import ExportPathDialog, SessionExportDialog
from tui.screens.browser.screen import BrowserScreen

TOKEN = next(rule.example for rule in RULES if rule.is_builtin and rule.tier is Tier.CERTAIN and rule.prefix)
SIZES = [(80, 24), (140, 45)]


@pytest.fixture
def filled(store: Store) -> Store:
    add_session(
        store,
        "s1",
        time_ago(hours=1),
        prompt_entry("Why does it fail?", time_ago(hours=1)),
        answer_entry("The first answer.", time_ago(minutes=59)),
        prompt_entry("And now?", time_ago(minutes=58)),
        answer_entry("The second answer.", time_ago(minutes=57)),
    )
    return store


async def open_dialog(pilot: Pilot[Any], *, from_conversation: bool = False) -> SessionExportDialog:
    await wait_for_text(pilot, "Why does it fail?")
    if from_conversation:
        await pilot.press("enter")
        browser = pilot.app.screen
        assert isinstance(browser, BrowserScreen)
        # A wide list shows the conversation before it is opened.
        await wait_until(pilot, lambda: browser.is_reading and browser.conversation.selected_seq is not None)
    await pilot.press("W")
    await wait_for_text(pilot, "Export Why does it fail?", "markdown · the session", "## Turn 1")
    assert isinstance(pilot.app.screen, SessionExportDialog)
    return pilot.app.screen


async def write_to(pilot: Pilot[Any], path: Path) -> None:
    await pilot.press("enter")
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, ExportPathDialog))
    pilot.app.screen.query_one(Input).value = str(path)
    await pilot.press("enter")


@pytest.mark.parametrize("size", SIZES)
async def test_a_session_is_exported_with_the_chosen_format(filled: Store, tmp_path: Path, size: Any) -> None:
    path = tmp_path / "talk.html"
    async with make_browser(filled).run_test(size=size) as pilot:
        await open_dialog(pilot)
        await pilot.press("f")
        await wait_for_text(pilot, "html · the session · with tool calls")
        await write_to(pilot, path)
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))
    assert verify_file(filled, path)[2:] == (True, "same")


async def test_one_turn_and_one_answer(filled: Store, tmp_path: Path) -> None:
    async with make_browser(filled).run_test(size=(140, 45)) as pilot:
        dialog = await open_dialog(pilot, from_conversation=True)
        await pilot.press("s")
        await wait_until(pilot, lambda: dialog._options.turns is not None)
        await wait_until(pilot, lambda: "The first answer." not in _preview(dialog) or "Turn 2" not in _preview(dialog))
        await pilot.press("s")
        await wait_until(pilot, lambda: dialog._options.entry is not None)
        await write_to(pilot, tmp_path / "answer.md")
        await wait_until(pilot, (tmp_path / "answer.md").exists)
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))
    text = (tmp_path / "answer.md").read_text()
    assert text.count("## Turn") == 1
    assert verify_file(filled, tmp_path / "answer.md").is_good


def _preview(dialog: SessionExportDialog) -> str:
    return "\n".join(str(line) for line in dialog.preview)


async def test_tools_and_thinking_cannot_be_left_out_of_records(filled: Store) -> None:
    async with make_browser(filled).run_test(size=(140, 45)) as pilot:
        dialog = await open_dialog(pilot)
        await pilot.press("t", "h")
        await wait_for_text(pilot, "without tool calls · without thinking")
        await pilot.press("f", "f", "f", "f")
        await wait_for_text(pilot, "raw · the session · with tool calls · with thinking")
        assert dialog.check_action("leave_out", ("tools",)) is False
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))


async def test_leaks_are_refused_until_they_are_masked(filled: Store, tmp_path: Path) -> None:
    filled.append_message("s1", "user", f"my key {TOKEN}")
    path = tmp_path / "x.md"
    async with make_browser(filled).run_test(size=(140, 45)) as pilot:
        await open_dialog(pilot)
        await write_to(pilot, path)
        await wait_for_text(pilot, "A certain leak would leave the store")
        assert not path.exists()
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, SessionExportDialog))
        await pilot.press("m")
        await wait_for_text(pilot, "leaks masked")
        await write_to(pilot, path)
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))
    assert TOKEN not in path.read_text()


async def test_a_file_that_exists_is_kept(filled: Store, tmp_path: Path) -> None:
    path = tmp_path / "mine.md"
    path.write_text("mine")
    async with make_browser(filled).run_test(size=(80, 24)) as pilot:
        await open_dialog(pilot)
        await write_to(pilot, path)
        await wait_for_text(pilot, "already exists")
    assert path.read_text() == "mine"
