"""How the browser looks, pixel for cell. `make test ARGS=--snapshot-update` accepts what has changed on purpose."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from pytest_textual_snapshot import SVGImageExtension
from textual.pilot import Pilot
from textual.widgets import Input
from tui_world import browser, fill, until_shown

from store.store import Store

# The plugin gives the extension under the name that an older syrupy knew.
SVGImageExtension.file_extension = "svg"

Compare = Callable[..., bool]
WIDE, NARROW = (140, 40), (80, 24)


@pytest.fixture
def world(store: Store) -> Store:
    fill(store)
    return store


@pytest.fixture
def empty() -> Iterator[Store]:
    """Where it would lie for anybody, since the screen says where."""
    with Store.open() as store:
        yield store


@pytest.fixture(autouse=True)
def _no_blinking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Input, "cursor_blink", False)


def after(*steps: list[str] | str) -> Callable[[Pilot[Any]], Awaitable[None]]:
    """Keys in a list, and between them what must have come up."""

    async def take(pilot: Pilot[Any]) -> None:
        for step in steps:
            if isinstance(step, str):
                await until_shown(pilot, step)
            else:
                await pilot.press(*step)
        await pilot.pause()

    return take


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_list(snap_compare: Compare, world: Store, size: tuple[int, int]) -> None:
    steps = after("6 sessions", "brackets", ["down"], "▌  Rename")
    assert snap_compare(browser(world), terminal_size=size, run_before=steps)


def test_filter(snap_compare: Compare, world: Store) -> None:
    steps = after("6 sessions", "brackets", ["slash", *"uplo"], "1 found", "Fix the flaky")
    assert snap_compare(browser(world), terminal_size=NARROW, run_before=steps)


def test_nothing_found(snap_compare: Compare, world: Store) -> None:
    steps = after("6 sessions", "brackets", ["slash", *"zebra"], "0 found")
    assert snap_compare(browser(world), terminal_size=NARROW, run_before=steps)


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_conversation(snap_compare: Compare, world: Store, size: tuple[int, int]) -> None:
    steps = after("6 sessions", "Fix the flaky", ["enter"], "tells how often")
    assert snap_compare(browser(world), terminal_size=size, run_before=steps)


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_welcome(snap_compare: Compare, empty: Store, size: tuple[int, int]) -> None:
    assert snap_compare(browser(empty), terminal_size=size, run_before=after("Press d", "Show a demo"))


def test_help(snap_compare: Compare, world: Store) -> None:
    steps = after("6 sessions", "brackets", ["question_mark"], "Leave Backscroll")
    assert snap_compare(browser(world), terminal_size=WIDE, run_before=steps)


def test_another_theme(snap_compare: Compare, world: Store) -> None:
    app = browser(world)
    app.theme = "textual-light"
    assert snap_compare(app, terminal_size=NARROW, run_before=after("6 sessions", "brackets"))
