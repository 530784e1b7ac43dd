"""Tests Ctrl+T in the list: a program of the person's own proposes titles, which are shown before they are set."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from browser_driver import make_browser, screen_text, wait_for_text, wait_until

from store.paths import config_file
from store.store import Store
from tui.dialogs.preview import PreviewDialog
from tui.screens.browser.screen import BrowserScreen


def configure(tmp_path: Path, code: str) -> None:
    program = tmp_path / "namer"
    program.write_text(f"#!{sys.executable}\nimport json, sys, time\ndocument = json.load(sys.stdin)\n{code}\n")
    program.chmod(0o755)
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text(f'[titles]\ncommand = "{program}"\n')


NAME_IT = "print('Named by', document['session']['source'], len(document['turns']))"


async def test_a_title_is_shown_then_set_and_undone(filled_store: Store, tmp_path: Path) -> None:
    configure(tmp_path, NAME_IT)
    async with make_browser(filled_store).run_test(size=(100, 30), notifications=True) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        await pilot.press("ctrl+t")
        await wait_for_text(pilot, "1 title by namer", "→ Named by claude 1", "Apply")
        assert filled_store.sessions.get("claude:e0741090").own_title == ""
        await pilot.press("enter")
        await wait_for_text(pilot, "Set 1 title. Press u to undo.")
        assert filled_store.sessions.get("claude:e0741090").title == "Named by claude 1"
        await pilot.press("u")
        await wait_until(pilot, lambda: filled_store.sessions.get("claude:e0741090").own_title == "")


async def test_all_selected_sessions_are_named_with_one_undo(filled_store: Store, tmp_path: Path) -> None:
    configure(tmp_path, NAME_IT)
    before = {session.id: session.own_title for session in filled_store.list_sessions(99)}
    async with make_browser(filled_store).run_test(size=(100, 30), notifications=True) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        await pilot.press("space", "space", "ctrl+t")
        await wait_for_text(pilot, "2 titles by namer", "Apply")
        await pilot.press("enter")
        await wait_for_text(pilot, "Set 2 titles. Press u to undo.")
        titles = {session.id: session.own_title for session in filled_store.list_sessions(99)}
        assert sum(titles[name] != before[name] for name in before) == 2
        await pilot.press("u")
        await wait_until(
            pilot, lambda: {session.id: session.own_title for session in filled_store.list_sessions(99)} == before
        )


async def test_a_problem_is_shown_and_cannot_be_applied(filled_store: Store, tmp_path: Path) -> None:
    configure(tmp_path, "print('\\x1b[2Jx')")
    async with make_browser(filled_store).run_test(size=(100, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        await pilot.press("ctrl+t")
        await wait_for_text(pilot, "namer printed a title with control characters.")
        assert "Apply" not in screen_text(pilot)
        await pilot.press("enter", "escape")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))


async def test_leaving_ends_a_slow_program(filled_store: Store, tmp_path: Path) -> None:
    configure(tmp_path, "time.sleep(600)")
    async with make_browser(filled_store).run_test(size=(100, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        await pilot.press("ctrl+t")
        await wait_for_text(pilot, "Waiting for namer…")
        assert isinstance(pilot.app.screen, PreviewDialog)
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))
        await wait_until(pilot, lambda: not [worker for worker in pilot.app.workers if worker.group == "look"])


@pytest.mark.parametrize("reads", [True, False])
async def test_without_a_program_it_says_how_to_set_one(filled_store: Store, reads: bool) -> None:
    async with make_browser(filled_store).run_test(size=(100, 30), notifications=True) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        if reads:
            await pilot.press("ctrl+p", *"propose")
            await wait_for_text(pilot, "Propose titles")
            await pilot.press("enter")
        else:
            await pilot.press("ctrl+t")
        await wait_for_text(pilot, "No program proposes titles.")
