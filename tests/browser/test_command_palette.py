"""Tests the command palette: it offers every action of the screen, and runs it."""

from __future__ import annotations

from typing import Any

from browser_driver import make_browser, wait_for_text, wait_until
from fake_clipboard import FakeClipboard
from textual.actions import parse
from textual.command import CommandList, CommandPalette
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input

from store.store import Store
from tui.palette import MAX_QUERY_CHARACTERS, is_movement, list_actions
from tui.screens.inspector import InspectorScreen
from tui.widgets.timeline.timeline_view import TimelineView


async def open_palette(pilot: Pilot[Any]) -> CommandList:
    await pilot.press("ctrl+p")
    await wait_until(pilot, lambda: CommandPalette.is_open(pilot.app))
    return pilot.app.screen.query_one(CommandList)


async def close(pilot: Pilot[Any]) -> None:
    await pilot.press("escape")
    await wait_until(pilot, lambda: not CommandPalette.is_open(pilot.app))


async def offers_every_action(pilot: Pilot[Any]) -> None:
    """Check that each action is offered with its name and keys. A bracket is a key, not markup."""
    actions = list_actions(pilot.app.screen)
    for action in actions:
        name = parse(action.action)[1]
        assert callable(getattr(action.namespace, f"action_{name}", None)), f"{action.id} has no method"
    wanted = {f"{action.name}  ({action.keys})" for action in actions}
    assert len(wanted) > 5
    commands = await open_palette(pilot)
    await wait_until(pilot, lambda: wanted <= {str(option.prompt).split("\n")[0] for option in commands.options})
    await close(pilot)


async def test_each_action_is_listed_once_and_in_order(filled_store: Store) -> None:
    """Our actions come first, in the order of the keys, with movements at their end; then those of Textual."""
    async with make_browser(filled_store).run_test(size=(150, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions", "it now reopens it")
        actions = sorted(list_actions(pilot.app.screen), key=is_movement)
        wanted = [f"{action.name}  ({action.keys})" for action in actions]
        commands = await open_palette(pilot)
        await wait_until(pilot, lambda: pilot.app.screen.has_class("-ready"))
        assert [str(option.prompt).split("\n")[0] for option in commands.options] == [
            *wanted,
            "Ask a member for a session",
            "Compactions",
            "Figures of the team",
            "Requests of members",
            "Show archived sessions",
            "Show the trash",
            "Theme",
        ]


async def choose(pilot: Pilot[Any], name: str) -> None:
    await open_palette(pilot)
    await pilot.press(*["space" if letter == " " else letter for letter in name.lower()])
    await wait_for_text(pilot, f"{name}  (")
    await pilot.press("enter")
    await wait_until(pilot, lambda: not CommandPalette.is_open(pilot.app))


async def test_every_action_of_every_pane_is_offered(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(150, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions", "it now reopens it")
        for pane in "123":
            await pilot.press(pane)
            await offers_every_action(pilot)


async def test_every_action_of_the_inspector_is_offered(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(150, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions", "it now reopens it")
        await pilot.press("2", "X", "i")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, InspectorScreen))
        await wait_for_text(pilot, "1 of 1")
        await offers_every_action(pilot)


async def test_a_chosen_action_runs(filled_store: Store, clipboard: FakeClipboard) -> None:
    async with make_browser(filled_store).run_test(size=(150, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions", "it now reopens it")
        await choose(pilot, "Copy id")
        await wait_until(pilot, lambda: clipboard.text == "claude:e0741090")
        await choose(pilot, "Conversation")
        await wait_until(pilot, lambda: isinstance(pilot.app.focused, TimelineView))
        await pilot.press("E")
        await choose(pilot, "Inspect")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, InspectorScreen))
        await wait_for_text(pilot, "1 of 1")


async def test_a_word_that_names_a_view_and_an_edit_offers_the_view_first(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(150, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        commands = await open_palette(pilot)
        await pilot.press(*"trash")
        names = ["Show the trash", "Move to trash  (d)"]
        await wait_until(pilot, lambda: [str(item.prompt).split("\n")[0] for item in commands.options][:2] == names)


async def test_of_a_pasted_file_only_the_beginning_is_compared(store: Store) -> None:
    async with make_browser(store).run_test(size=(100, 30)) as pilot:
        await open_palette(pilot)
        pilot.app.post_message(Paste("word " * 1_000_000))
        field = pilot.app.screen.query_one(Input)
        await wait_until(pilot, lambda: field.value)
        assert len(field.value) == MAX_QUERY_CHARACTERS
