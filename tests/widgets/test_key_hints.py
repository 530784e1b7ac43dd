"""Tests the key hints: which keys are shown, how they change, and clicks on them."""

from __future__ import annotations

from browser_driver import wait_until
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.widgets import Static

from tui.widgets.key_hints import KeyHintBar


class KeysApp(App[None]):
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [  # noqa: RUF012 (declared so by Textual)
        Binding("o,O", "open", "Open"),
        Binding("h", "hidden", "Hidden", show=False),
        Binding("m", "mark", "Mark"),
    ]
    opened = 0
    may_mark: bool | None = True

    def compose(self) -> ComposeResult:
        yield KeyHintBar()

    def action_open(self) -> None:
        self.opened += 1

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.may_mark if action == "mark" else True


def hints_text(app: KeysApp) -> str:
    return app.query_one(KeyHintBar).render().plain


async def test_each_visible_action_is_shown_once() -> None:
    async with KeysApp().run_test(size=(40, 5)) as pilot:
        await wait_until(pilot, lambda: "Open" in hints_text(pilot.app))
        assert hints_text(pilot.app) == " o Open  m Mark "


async def test_a_disabled_action_is_not_shown() -> None:
    async with KeysApp().run_test(size=(40, 5)) as pilot:
        await wait_until(pilot, lambda: "Mark" in hints_text(pilot.app))
        pilot.app.may_mark = False
        pilot.app.refresh_bindings()
        await wait_until(pilot, lambda: hints_text(pilot.app) == " o Open ")


async def test_a_click_on_a_key_presses_it() -> None:
    async with KeysApp().run_test(size=(40, 5)) as pilot:
        await wait_until(pilot, lambda: "Open" in hints_text(pilot.app))
        await pilot.click(KeyHintBar, offset=(3, 0))
        await pilot.click(KeyHintBar, offset=(30, 0))
        await wait_until(pilot, lambda: pilot.app.opened == 1)


class FocusedWidget(Static, can_focus=True):
    BINDINGS = [Binding("enter", "leave", "To the list")]  # noqa: RUF012 (declared so by Textual)

    def action_leave(self) -> None: ...


class SameActionApp(App[None]):
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [Binding("escape", "leave", "Leave")]  # noqa: RUF012 (declared so by Textual)

    def compose(self) -> ComposeResult:
        yield FocusedWidget()
        yield KeyHintBar()

    def action_leave(self) -> None: ...


async def test_two_widgets_with_the_same_action_are_both_shown() -> None:
    async with SameActionApp().run_test(size=(40, 5)) as pilot:
        bar = pilot.app.query_one(KeyHintBar)
        await wait_until(pilot, lambda: bar.render().plain == " ⏎ To the list  esc Leave ")


class WidgetWithManyKeys(Static, can_focus=True):
    BINDINGS = [Binding(key, f"do('{key}')", f"Do {key}") for key in "abcd"]  # noqa: RUF012 (declared so by Textual)

    def action_do(self, key: str) -> None: ...


class ManyKeysApp(App[None]):
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [Binding("q", "leave", "Quit")]  # noqa: RUF012 (declared so by Textual)

    def compose(self) -> ComposeResult:
        yield WidgetWithManyKeys()
        yield KeyHintBar()

    def action_leave(self) -> None: ...


async def test_the_first_hints_and_those_of_the_app_stay_if_not_all_fit() -> None:
    async with ManyKeysApp().run_test(size=(30, 5)) as pilot:
        bar = pilot.app.query_one(KeyHintBar)
        await wait_until(pilot, lambda: bar.render().plain == " a Do a  b Do b  q Quit ")
