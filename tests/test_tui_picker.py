"""A person who wants to go on with something: finds it in the picker, and Enter chooses it."""

from __future__ import annotations

import pytest
from textual.app import App
from textual.pilot import Pilot
from tui_world import clock, fill, session_list, until, until_shown

from store.model import Session
from store.store import Store
from tui.app import Backscroll
from tui.screens.picker import PickerScreen
from tui.widgets.top_bar import Words


class Picking(App[Session | None]):
    CSS_PATH = Backscroll.CSS_PATH

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._picker = PickerScreen(store, clock)

    def on_mount(self) -> None:
        self.push_screen(self._picker, self.exit)


@pytest.fixture
def world(store: Store) -> Store:
    fill(store)
    return store


async def chosen(store: Store, *keys: str) -> Session | None:
    """What comes of it: the keys in one breath, as somebody types who knows what they want."""
    app = Picking(store)
    async with app.run_test(size=(80, 16)) as pilot:
        await until_shown(pilot, "6 sessions")
        await pilot.press(*keys)
        await until(pilot, lambda: not app.is_running or app._exit)
    return app.return_value


async def test_enter_chooses_the_newest(world: Store) -> None:
    found = await chosen(world, "enter")
    assert found is not None
    assert found.id == "claude:e0741090"


async def test_words_and_enter_in_one_breath_choose_what_they_find(world: Store) -> None:
    found = await chosen(world, *"rename", "enter")
    assert found is not None
    assert found.id == "codex:0199aa"


async def test_arrows_go_to_the_list_and_its_keys_are_those_of_the_browser(world: Store) -> None:
    found = await chosen(world, "down", "down", "j", "k", "enter")
    assert found is not None
    assert found.id == "codex:0199aa"


async def test_escape_takes_the_words_away_and_then_leaves(world: Store) -> None:
    app = Picking(world)
    async with app.run_test(size=(80, 16)) as pilot:
        await until_shown(pilot, "6 sessions")
        await pilot.press(*"rename")
        await until_shown(pilot, "1 found")
        await pilot.press("escape")
        await until_shown(pilot, "6 sessions")
        assert not app._exit
        await pilot.press("escape")
        await until(pilot, lambda: app._exit)
    assert app.return_value is None


async def test_nothing_found_chooses_nothing_and_one_types_on(world: Store) -> None:
    app = Picking(world)
    async with app.run_test(size=(80, 16)) as pilot:
        await until_shown(pilot, "6 sessions")
        await pilot.press(*"zebra", "enter")
        await until_shown(pilot, "0 found", "No title and no conversation has")
        assert typing(pilot)
        await pilot.press("ctrl+u", *"morning", "enter")
        await until(pilot, lambda: app._exit)
    assert app.return_value is not None
    assert app.return_value.id == "telegram:648079060"


async def test_a_click_chooses_a_row_and_two_take_it(world: Store) -> None:
    app = Picking(world)
    async with app.run_test(size=(80, 16)) as pilot:
        await until_shown(pilot, "Rename")
        await pilot.click("SessionList", offset=(10, 3))
        assert session_list(pilot).cursor == 1
        await pilot.click("SessionList", offset=(10, 3), times=2)
        await until(pilot, lambda: app._exit)
    assert app.return_value is not None
    assert app.return_value.id == "codex:0199aa"


def typing(pilot: Pilot[Session | None]) -> bool:
    return pilot.app.screen.query_one(Words).has_focus
