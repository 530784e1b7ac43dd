"""The line in which one types what to find: what it asks, when, and how it is left."""

from __future__ import annotations

from typing import Any

from browser_driver import screen_text, wait_until
from textual import on
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Input

from tui.widgets.find_bar import NOTHING_FOUND, FindBar


class Pane(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.left: list[bool] = []
        self.typed = 0

    def compose(self) -> ComposeResult:
        yield FindBar()

    @property
    def bar(self) -> FindBar:
        return self.query_one(FindBar)

    @on(FindBar.TextChanged)
    def _asked(self, asked: FindBar.TextChanged) -> None:
        self.asked.append(asked.text)

    @on(FindBar.Exited)
    def _left(self, left: FindBar.Exited) -> None:
        self.left.append(left.kept)

    @on(Input.Changed)
    def _typed(self) -> None:
        self.typed += 1


async def opened(pilot: Pilot[Any], text: str = "") -> Pane:
    app = pilot.app
    assert isinstance(app, Pane)
    app.bar.open(text)
    await pilot.pause()
    return app


async def test_it_is_not_there_until_opened() -> None:
    async with Pane().run_test() as pilot:
        assert "find" not in screen_text(pilot)
        app = await opened(pilot)
        assert "find" in screen_text(pilot)
        assert app.bar.input.has_focus


async def test_words_are_asked_for_as_one_types_and_enter_does_not_wait() -> None:
    async with Pane().run_test() as pilot:
        app = await opened(pilot)
        await pilot.press(*"abc")
        await wait_until(pilot, lambda: app.asked and app.asked[-1] == "abc")
        await pilot.press("d", "enter")
        await pilot.pause()
        assert app.asked[-1] == "abcd"
        assert app.left == [True]
        assert app.bar.display
        assert not app.typed, "what the input says is the bar's own business"


async def test_escape_drops_and_closes() -> None:
    async with Pane().run_test() as pilot:
        app = await opened(pilot, "abc")
        assert app.asked == ["abc"]
        await pilot.press("escape")
        await pilot.pause()
        assert app.left == [False]
        assert not app.bar.display
        await opened(pilot)
        assert app.asked == ["abc", "abc"], "opened again, it finds what was looked for last"


async def test_enter_on_nothing_drops_too() -> None:
    async with Pane().run_test() as pilot:
        app = await opened(pilot)
        await pilot.press("enter")
        await pilot.pause()
        assert app.left == [False]
        assert app.asked == []


async def test_opened_again_typing_replaces_what_was_there() -> None:
    async with Pane().run_test() as pilot:
        app = await opened(pilot, "old")
        app.bar.open()
        await pilot.press("n")
        assert app.bar.text == "n"


async def test_it_tells_which_hit_of_how_many() -> None:
    async with Pane().run_test() as pilot:
        app = await opened(pilot, "word")
        for at, of, told in ((3, 17, "3 of 17"), (1, 12_000, "1 of 12,000"), (0, 0, NOTHING_FOUND)):
            app.bar.show_position(at, of)
            await pilot.pause()
            assert told in screen_text(pilot)
        app.bar.show_position(3, 10_000, more=True)
        await pilot.pause()
        assert "3 of 10,000+" in screen_text(pilot)
        app.bar.input.value = ""
        app.bar.show_position(0, 0)
        await pilot.pause()
        assert NOTHING_FOUND not in screen_text(pilot)
