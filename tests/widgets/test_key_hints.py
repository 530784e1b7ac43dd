"""The line of keys: what can be done here, told as it changes, and done by a click."""

from __future__ import annotations

from browser_driver import wait_until
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.widgets import Static

from tui.widgets.key_hints import KeyHintBar


class Keys(App[None]):
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


def told(app: Keys) -> str:
    return app.query_one(KeyHintBar).render().plain


async def test_keys_are_told_once_for_each_action_and_only_those_to_be_shown() -> None:
    async with Keys().run_test(size=(40, 5)) as pilot:
        await wait_until(pilot, lambda: "Open" in told(pilot.app))
        assert told(pilot.app) == " o Open  m Mark "


async def test_what_cannot_be_done_any_more_is_not_told() -> None:
    async with Keys().run_test(size=(40, 5)) as pilot:
        await wait_until(pilot, lambda: "Mark" in told(pilot.app))
        pilot.app.may_mark = False
        pilot.app.refresh_bindings()
        await wait_until(pilot, lambda: told(pilot.app) == " o Open ")


async def test_a_click_on_a_key_presses_it() -> None:
    async with Keys().run_test(size=(40, 5)) as pilot:
        await wait_until(pilot, lambda: "Open" in told(pilot.app))
        await pilot.click(KeyHintBar, offset=(3, 0))
        await pilot.click(KeyHintBar, offset=(30, 0))
        await wait_until(pilot, lambda: pilot.app.opened == 1)


class Named(Static, can_focus=True):
    BINDINGS = [Binding("enter", "leave", "To the list")]  # noqa: RUF012 (declared so by Textual)

    def action_leave(self) -> None: ...


class Naming(App[None]):
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [Binding("escape", "leave", "Leave")]  # noqa: RUF012 (declared so by Textual)

    def compose(self) -> ComposeResult:
        yield Named()
        yield KeyHintBar()

    def action_leave(self) -> None: ...


async def test_what_two_call_by_one_name_is_told_of_both() -> None:
    async with Naming().run_test(size=(40, 5)) as pilot:
        line = pilot.app.query_one(KeyHintBar)
        await wait_until(pilot, lambda: line.render().plain == " ⏎ To the list  esc Leave ")


class Many(App[None]):
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [Binding(key, f"do('{key}')", f"Do {key}") for key in "abcde"]  # noqa: RUF012 (declared so by Textual)

    def compose(self) -> ComposeResult:
        yield KeyHintBar()

    def action_do(self, key: str) -> None: ...


async def test_where_not_all_have_room_the_last_stay() -> None:
    async with Many().run_test(size=(30, 5)) as pilot:
        line = pilot.app.query_one(KeyHintBar)
        await wait_until(pilot, lambda: line.render().plain == " a Do a  d Do d  e Do e ")
