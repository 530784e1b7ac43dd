"""While somebody types, what can wait does: the look at agents' files, and the tidying up of memory."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from browser_driver import add_session, make_browser, prompt_entry, time_ago, wait_until

from store.sources.kit import giving_way, stamps
from store.sources.kit.giving_way import ask_for, give_way
from store.sources.kit.stamps import tree_stamp
from store.store import Store
from tui.screens.browser import session_list


class Time:
    """In place of the module: who sleeps is what makes it go on."""

    def __init__(self) -> None:
        self.now = 100.0
        self.rests = 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.rests += 1


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    passing = Time()
    monkeypatch.setattr(giving_way, "time", passing)
    monkeypatch.setattr(giving_way, "_until", None)
    monkeypatch.setattr(giving_way, "_rested", 0.0)
    return passing


def test_nobody_waits_unasked_and_nobody_longer_than_asked(time: Time) -> None:
    give_way()
    assert time.now == 100
    ask_for(0.5)
    give_way()
    assert 100.5 <= time.now < 100.6
    later = time.now
    give_way()
    assert time.now == later


def test_where_somebody_is_there_it_rests_now_and_then(time: Time) -> None:
    ask_for(0)
    for _ in range(100):
        time.now += giving_way.AT_A_STRETCH / 10
        give_way()
    assert 8 <= time.rests <= 10


def test_a_walk_gives_way_before_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    asked: list[None] = []
    monkeypatch.setattr(stamps, "give_way", lambda: asked.append(None))
    tree_stamp(tmp_path)
    assert len(asked) == 3


@pytest.fixture
def alone() -> Iterator[None]:
    """As the console script leaves the process to the browser."""
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.disable()
    yield
    gc.enable()
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("alone")
async def test_what_is_typed_puts_off_what_can_wait(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    add_session(store, "reef", time_ago(hours=1), prompt_entry("the reef", time_ago(hours=1)))
    asked: list[float] = []
    monkeypatch.setattr(session_list, "ask_for", asked.append)
    async with make_browser(store).run_test() as pilot:
        await wait_until(pilot, gc.isenabled)
        with monkeypatch.context() as patch:
            tidying: list[str] = []
            for name in ("disable", "enable"):
                patch.setattr(gc, name, partial(tidying.append, name))
            await pilot.press("slash", "r")
            assert not asked, "one letter looks at titles alone"
            await pilot.press("e")
            assert asked == [session_list.TYPING_SECONDS]
            await wait_until(pilot, lambda: tidying == ["disable", "enable"])
