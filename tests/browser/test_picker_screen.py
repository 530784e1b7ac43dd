"""Tests the picker of `backscroll resume`: finding a session and choosing it with Enter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser_driver import fixed_clock, session_list, wait_for_text, wait_until
from textual.pilot import Pilot

from store.store import Store
from tui.app import Backscroll
from tui.screens.picker import PickerScreen
from tui.screens.resume import ResumeScreen
from tui.widgets.top_bar import QueryInput


def picking(store: Store) -> Backscroll:
    """Return the picker. No agent is installed, so the card shows which session was chosen."""
    return Backscroll(store, fixed_clock, pick=True)


@pytest.fixture(autouse=True)
def _no_agents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "no programs"))


def card_of(app: Backscroll) -> ResumeScreen | None:
    return app.screen if isinstance(app.screen, ResumeScreen) else None


async def chosen_in(pilot: Pilot[Any]) -> str:
    app = pilot.app
    assert isinstance(app, Backscroll)
    await wait_until(pilot, lambda: card_of(app))
    card = card_of(app)
    assert card is not None
    return card.plan.session.id


async def chosen(store: Store, *keys: str) -> str:
    """Press the keys without a pause, and return the id of the chosen session."""
    async with picking(store).run_test(size=(80, 16)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press(*keys)
        return await chosen_in(pilot)


async def test_enter_chooses_the_newest(filled_store: Store) -> None:
    assert await chosen(filled_store, "enter") == "claude:e0741090"


async def test_words_and_enter_without_a_pause_choose_the_result(filled_store: Store) -> None:
    assert await chosen(filled_store, *"rename", "enter") == "codex:0199aa"


async def test_arrows_choose_and_tab_goes_to_the_list_which_has_the_keys_of_the_browser(filled_store: Store) -> None:
    assert await chosen(filled_store, "down", "down", "enter") == "codex:0199aa"
    assert await chosen(filled_store, "down", "down", "tab", "j", "k", "enter") == "codex:0199aa"


async def test_escape_clears_the_search_and_then_leaves(filled_store: Store) -> None:
    app = picking(filled_store)
    async with app.run_test(size=(80, 16)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press(*"rename")
        await wait_for_text(pilot, "1 found")
        await pilot.press("escape")
        await wait_for_text(pilot, "6 sessions")
        assert not app._exit
        await pilot.press("escape")
        await wait_until(pilot, lambda: app._exit)
    assert app.return_value is None


async def test_enter_without_results_chooses_nothing(filled_store: Store) -> None:
    app = picking(filled_store)
    async with app.run_test(size=(80, 16)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press(*"zebra", "enter")
        await wait_for_text(pilot, "0 found", "No session matches")
        assert typing(pilot)
        await pilot.press("ctrl+u", *"morning", "enter")
        assert await chosen_in(pilot) == "telegram:648079060"


async def test_a_click_moves_the_cursor_and_a_double_click_chooses(filled_store: Store) -> None:
    app = picking(filled_store)
    async with app.run_test(size=(80, 16)) as pilot:
        await wait_for_text(pilot, "Rename")
        await pilot.click("SessionListView", offset=(10, 4))
        assert session_list(pilot).cursor == 1
        await pilot.click("SessionListView", offset=(10, 4), times=2)
        assert await chosen_in(pilot) == "codex:0199aa"


async def test_leaving_the_card_returns_to_the_same_list(filled_store: Store) -> None:
    app = picking(filled_store)
    async with app.run_test(size=(80, 16)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press(*"rename", "enter")
        assert await chosen_in(pilot) == "codex:0199aa"
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(app.screen, PickerScreen))
        await wait_for_text(pilot, "rename", "1 found")
        assert not app._exit


def typing(pilot: Pilot[Any]) -> bool:
    return pilot.app.screen.query_one(QueryInput).has_focus


async def test_the_key_hints_show_enter_and_escape(filled_store: Store) -> None:
    async with picking(filled_store).run_test(size=(80, 16)) as pilot:
        await wait_for_text(pilot, "6 sessions", "↵ Resume", "esc Leave")
        await pilot.press("down")
        await wait_for_text(pilot, "↵ Resume", "tab To the list", "a-z Keep searching")
        await pilot.press("tab")
        await wait_for_text(pilot, "↵ Resume  s Scope", "esc Leave")
