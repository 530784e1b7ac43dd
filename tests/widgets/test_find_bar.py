"""Tests the find bar: what it searches for, when, and how it is left."""

from __future__ import annotations

from typing import Any

from browser_driver import screen_text, wait_until
from textual import on
from textual.app import App, ComposeResult
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input

from tui.widgets.find_bar import NOTHING_FOUND, FindBar, FindInput


class FindBarApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.searches: list[str] = []
        self.exits: list[bool] = []
        self.input_changes = 0

    def compose(self) -> ComposeResult:
        yield FindBar()

    @property
    def bar(self) -> FindBar:
        return self.query_one(FindBar)

    @on(FindBar.TextChanged)
    def _record_search(self, message: FindBar.TextChanged) -> None:
        self.searches.append(message.text)

    @on(FindBar.Exited)
    def _record_exit(self, message: FindBar.Exited) -> None:
        self.exits.append(message.kept)

    @on(Input.Changed)
    def _count_input_change(self) -> None:
        self.input_changes += 1


async def open_bar(pilot: Pilot[Any], text: str = "") -> FindBarApp:
    app = pilot.app
    assert isinstance(app, FindBarApp)
    app.bar.open(text)
    await pilot.pause()
    return app


async def test_the_bar_is_hidden_until_it_is_opened() -> None:
    async with FindBarApp().run_test() as pilot:
        assert "find" not in screen_text(pilot)
        app = await open_bar(pilot)
        assert "find" in screen_text(pilot)
        assert app.bar.input.has_focus


async def test_typing_searches_after_a_pause_and_enter_immediately() -> None:
    async with FindBarApp().run_test() as pilot:
        app = await open_bar(pilot)
        await pilot.press(*"abc")
        await wait_until(pilot, lambda: app.searches and app.searches[-1] == "abc")
        await pilot.press("d", "enter")
        await pilot.pause()
        assert app.searches[-1] == "abcd"
        assert app.exits == [True]
        assert app.bar.display
        assert not app.input_changes, "messages of the input do not leave the bar"


async def test_escape_drops_the_hits_and_closes() -> None:
    async with FindBarApp().run_test() as pilot:
        app = await open_bar(pilot, "abc")
        assert app.searches == ["abc"]
        await pilot.press("escape")
        await pilot.pause()
        assert app.exits == [False]
        assert not app.bar.display
        await open_bar(pilot)
        assert app.searches == ["abc", "abc"], "when it is opened again, it repeats the last search"


async def test_enter_without_text_closes() -> None:
    async with FindBarApp().run_test() as pilot:
        app = await open_bar(pilot)
        await pilot.press("enter")
        await pilot.pause()
        assert app.exits == [False]
        assert app.searches == []


async def test_typing_replaces_the_last_text_when_opened_again() -> None:
    async with FindBarApp().run_test() as pilot:
        app = await open_bar(pilot, "old")
        app.bar.open()
        await pilot.press("n")
        assert app.bar.text == "n"


async def test_the_bar_shows_the_number_of_the_hit() -> None:
    async with FindBarApp().run_test() as pilot:
        app = await open_bar(pilot, "word")
        for hit, total, text in ((3, 17, "3 of 17"), (1, 12_000, "1 of 12,000"), (0, 0, NOTHING_FOUND)):
            app.bar.show_position(hit, total)
            await pilot.pause()
            assert text in screen_text(pilot)
        app.bar.show_position(3, 10_000, more=True)
        await pilot.pause()
        assert "3 of 10,000+" in screen_text(pilot)
        app.bar.input.value = ""
        app.bar.show_position(0, 0)
        await pilot.pause()
        assert NOTHING_FOUND not in screen_text(pilot)


async def test_of_a_pasted_file_only_the_beginning_is_searched_for() -> None:
    app = FindBarApp()
    async with app.run_test() as pilot:
        app.bar.open()
        await pilot.pause()
        app.post_message(Paste("[a](" * 100_000))
        await wait_until(pilot, lambda: app.searches)
        assert app.searches == ["[a](" * (FindInput.max_characters // 4)]
