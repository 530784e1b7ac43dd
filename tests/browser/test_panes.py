"""Tests the three panes: which are visible at which size, how the focus moves, and what each of them shows."""

from __future__ import annotations

import json
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from browser_driver import (
    NOW,
    add_session,
    fill_store,
    make_browser,
    resize_terminal,
    screen_text,
    session_list,
    time_ago,
    wait_for_text,
    wait_until,
)
from textual import events
from textual.pilot import Pilot

from store.conversations.timeline import Timelines
from store.model.entry import NewEntry, NewRecord, Part, Text, ToolCall, ToolResult
from store.model.timeline import TimelineOutline
from store.search.query import Query
from store.store import Store
from tui.app import Backscroll
from tui.dialogs.tool_call_picker import ToolCallPickerDialog
from tui.screens.browser.screen import BrowserScreen
from tui.screens.conversation import ConversationPane
from tui.screens.inspector import InspectorScreen
from tui.widgets.json.json_view import JsonView
from tui.widgets.session_list_view import SessionListView
from tui.widgets.timeline.timeline_view import TimelineView

ONE, TWO, THREE = (80, 24), (120, 30), (150, 45)
SIZES = {"one": ONE, "two": TWO, "three": THREE}
SHOP = "claude:shop"


def entry(number: int, role: str, *parts: Part) -> NewEntry:
    """Return an entry with a record of its own, as an agent writes it."""
    record = NewRecord(json.dumps({"line": number, "type": role, "nested": {"deep": [number]}}).encode())
    return NewEntry(role=role, parts=parts, record=record, created_at=time_ago(minutes=3))


@pytest.fixture
def world(store: Store) -> Store:
    """Add the usual sessions, and as the newest a conversation of twelve turns. Its third turn has the calls."""
    fill_store(store)
    store.sessions.pin(store.sessions.newest(), on=False)
    entries: list[NewEntry] = []
    for turn in range(1, 13):
        entries.append(entry(10 * turn, "user", Text(f"Question {turn}?")))
        if turn == 3:
            entries += [
                entry(31, "assistant", ToolCall("1", "Bash", {"command": "make shop"})),
                entry(32, "tool", ToolResult("1", "built", duration_ms=900.0)),
                entry(33, "assistant", Text("The banner is purple."), ToolCall("2", "Grep", {"pattern": "banner"})),
                entry(34, "tool", ToolResult("2", "theme.css: no such file", is_error=True)),
            ]
        entries.append(entry(10 * turn + 9, "assistant", Text(f"Answer {turn}. " + "It goes on. " * 30)))
    add_session(
        store, SHOP, time_ago(minutes=3), *entries, source="claude", cwd="/home/ada/shop", agent_title="The shop"
    )
    return store


def focused(pilot: Pilot[Any]) -> int | None:
    panes = (SessionListView, TimelineView, JsonView)
    return next((n for n, pane in enumerate(panes) if isinstance(pilot.app.focused, pane)), None)


def on_screen(pilot: Pilot[Any]) -> list[int]:
    panes = (SessionListView, TimelineView, JsonView)
    return [n for n, pane in enumerate(panes) if pilot.app.screen.query_one(pane).is_on_screen]


def timeline(pilot: Pilot[Any]) -> TimelineView:
    return pilot.app.screen.query_one(TimelineView)


def entry_seq(pilot: Pilot[Any]) -> int | None:
    block = timeline(pilot).current_item
    return block.entry.seq if block else None


def called(pilot: Pilot[Any]) -> str:
    block = timeline(pilot).current_item
    return block.call.name if block and block.call else ""


def is_highlighted(pilot: Pilot[Any], word: str) -> bool:
    """Return whether the word is highlighted as a hit in the conversation pane."""
    hit = pilot.app.theme_variables["warning-muted"]
    region = timeline(pilot).region
    strips = pilot.app.screen._compositor.render_strips()[region.y : region.bottom]
    segments = [segment for strip in strips for segment in strip.crop(region.x, region.right)]
    grounds = [s.style.bgcolor.name for s in segments if s.text == word and s.style and s.style.bgcolor]
    return hit.lower() in grounds


async def until_in(pilot: Pilot[Any], pane: int, seen: list[int]) -> None:
    await wait_until(pilot, lambda: focused(pilot) == pane)
    await wait_until(pilot, lambda: on_screen(pilot) == seen)


# ── visible panes and the focus ───────────────────────────────────────────────────────────────────


SEEN = {"one": ([0], [1], [2]), "two": ([0, 1], [0, 1], [1, 2]), "three": ([0, 1, 2],) * 3}


@pytest.mark.parametrize("size", SIZES)
async def test_keys_move_between_panes_and_the_size_decides_which_are_visible(world: Store, size: str) -> None:
    seen = SEEN[size]
    async with make_browser(world).run_test(size=SIZES[size]) as pilot:
        await wait_for_text(pilot, "7 sessions", "The shop")
        await until_in(pilot, 0, seen[0])
        for key, pane in [("2", 1), ("3", 2), ("1", 0), ("tab", 1), ("tab", 2), ("tab", 0), ("shift+tab", 2)]:
            await pilot.press(key)
            await until_in(pilot, pane, seen[pane])
        await pilot.press("escape")
        await until_in(pilot, 1, seen[1])
        await pilot.press("backspace")
        await until_in(pilot, 0, seen[0])
        await pilot.press("escape")
        assert pilot.app.is_running
        assert focused(pilot) == 0


async def test_a_breadcrumb_names_the_only_visible_pane(world: Store) -> None:
    async with make_browser(world).run_test(size=ONE) as pilot:
        await wait_for_text(pilot, "7 sessions", "The shop")
        await pilot.press("enter")
        await wait_for_text(pilot, "sessions › The shop › turn 12", "It goes on.")
        assert "7 sessions" not in screen_text(pilot)
        await pilot.press("K", "K")
        await wait_for_text(pilot, "› turn 11")
        await pilot.press("tab")
        await wait_for_text(pilot, "sessions › The shop › turn 11 › record", "line: 110")
        await pilot.press("escape")
        await wait_for_text(pilot, "› turn 11", "Question 11?")
        assert "record" not in screen_text(pilot)
        await pilot.press("escape")
        await wait_for_text(pilot, "7 sessions", "Rename the config keys")


@pytest.mark.parametrize("size", ["two", "three"])
async def test_z_shows_one_pane_and_then_all_again(world: Store, size: str) -> None:
    seen = SEEN[size]
    async with make_browser(world).run_test(size=SIZES[size]) as pilot:
        await wait_for_text(pilot, "7 sessions", "Answer 12.")
        await pilot.press("z")
        await until_in(pilot, 0, [0])
        await pilot.press("enter")
        await until_in(pilot, 1, [1])
        await wait_for_text(pilot, "sessions › The shop")
        await pilot.press("tab")
        await until_in(pilot, 2, [2])
        await pilot.press("z")
        await until_in(pilot, 2, seen[2])
        await pilot.press("z")
        await until_in(pilot, 2, [2])
        await pilot.press("escape")
        await until_in(pilot, 2, seen[2])
        await pilot.press("escape")
        await until_in(pilot, 1, seen[1])


async def test_a_resize_keeps_the_focus_and_the_position(world: Store) -> None:
    async with make_browser(world).run_test(size=THREE) as pilot:
        await wait_for_text(pilot, "7 sessions", "Answer 12.")
        await pilot.press("enter", "K", "K", "K")
        await wait_until(pilot, lambda: timeline(pilot).cursor.turn == 10)
        there = entry_seq(pilot)
        for size, seen in [(ONE, [1]), (TWO, [0, 1]), (ONE, [1]), (THREE, [0, 1, 2])]:
            await resize_terminal(pilot, *size)
            await until_in(pilot, 1, seen)
            await wait_for_text(pilot, "Question 10?")
            assert entry_seq(pilot) == there
        await pilot.press("3", "down")
        for size, seen in [(TWO, [1, 2]), (ONE, [2]), (THREE, [0, 1, 2])]:
            await resize_terminal(pilot, *size)
            await until_in(pilot, 2, seen)
            await wait_for_text(pilot, "line: 100")
            assert pilot.app.screen.query_one(JsonView).path == ".type"


# ── from the list into the conversation ───────────────────────────────────────────────────────────


async def test_the_conversation_opens_next_to_the_list_when_the_cursor_rests(world: Store) -> None:
    async with make_browser(world).run_test(size=TWO) as pilot:
        await wait_for_text(pilot, "7 sessions", "Answer 12.")
        assert focused(pilot) == 0
        await pilot.press("down")
        await wait_for_text(pilot, "it now reopens it")
        await pilot.press("down")
        await wait_for_text(pilot, "Done; 9 files changed.")
        assert focused(pilot) == 0
        await pilot.press("home")
        await wait_for_text(pilot, "Answer 12.")


async def test_an_open_conversation_moves_to_an_entry_while_the_store_changes(world: Store) -> None:
    async with make_browser(world).run_test(size=(140, 45)) as pilot:
        await wait_for_text(pilot, "7 sessions", "Answer 12.")
        assert entry_seq(pilot) != 0
        reading = pilot.app.screen.query_one(ConversationPane)
        assert reading.session is not None
        reading.open(reading.session, at_entry=f"{reading.session.id}#0")
        reading.handle_store_change()
        await wait_until(pilot, lambda: entry_seq(pilot) == 0)


async def test_a_hidden_conversation_is_not_read_until_it_is_shown(world: Store) -> None:
    async with make_browser(world).run_test(size=ONE) as pilot:
        await wait_for_text(pilot, "7 sessions", "The shop")
        await pilot.press("down")
        await wait_until(pilot, lambda: session_list(pilot).cursor == 1)
        await pilot.pause(0.3)
        screen = pilot.app.screen
        assert isinstance(screen, BrowserScreen)
        assert screen.conversation.session is None
        await pilot.press("2")
        await wait_for_text(pilot, "sessions › Fix the flaky upload test", "it now reopens it")
        await pilot.press("escape", "up", "enter")
        await wait_for_text(pilot, "sessions › The shop", "Answer 12.")


@pytest.mark.parametrize("size", SIZES)
async def test_a_hit_opens_at_its_entry_with_the_word_highlighted(world: Store, size: str) -> None:
    async with make_browser(world).run_test(size=SIZES[size]) as pilot:
        await wait_for_text(pilot, "7 sessions", "The shop")
        await pilot.press("slash", *"purple", "enter")
        await wait_for_text(pilot, "1 found")
        await wait_until(pilot, lambda: focused(pilot) == 0)
        await pilot.press("enter")
        await wait_until(pilot, lambda: focused(pilot) == 1 and is_highlighted(pilot, "purple"))
        block = timeline(pilot).current_item
        assert block is not None
        assert (block.entry.turn, block.text) == (3, "The banner is purple.")


async def test_a_quick_enter_opens_the_result_of_the_whole_query(world: Store) -> None:
    async with make_browser(world).run_test(size=SIZES["three"]) as pilot:
        await wait_for_text(pilot, "7 sessions", "The shop")
        await pilot.press("slash", *"purple", "enter", "enter")
        await wait_until(pilot, lambda: focused(pilot) == 1 and is_highlighted(pilot, "purple"))


async def test_keys_wait_for_the_conversation_they_are_meant_for(world: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """They once went to the conversation that was still shown, which also has a failed call."""
    may_come, outline = Event(), Timelines.load_outline
    may_come.set()

    def awaited(outlines: Timelines, session: int) -> TimelineOutline:
        may_come.wait()
        return outline(outlines, session)

    monkeypatch.setattr(Timelines, "load_outline", awaited)
    async with make_browser(world).run_test(size=TWO) as pilot:
        await wait_for_text(pilot, "7 sessions", "Answer 12.")
        may_come.clear()
        await pilot.press("down")
        for key in ("enter", "e", "i"):
            pilot.app.post_message(events.Key(key, None))
            await wait_until(pilot, lambda: focused(pilot) == 1)
        may_come.set()
        await wait_for_text(pilot, "1 of 1", "see the log")


async def test_the_same_conversation_opened_for_other_words_highlights_those(world: Store) -> None:
    async with make_browser(world).run_test(size=SIZES["three"]) as pilot:
        await wait_for_text(pilot, "7 sessions", "The shop")
        for word in ("pur", "purple", "banner"):
            pilot.app.screen.query_one(ConversationPane).open(world.sessions.get(SHOP), query=Query.parse(word + "*"))
            await wait_until(pilot, lambda word=word: is_highlighted(pilot, word))  # type: ignore[misc]


# ── changes from elsewhere ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", SIZES)
async def test_new_entries_of_the_open_conversation_appear(world: Store, size: str) -> None:
    async with make_browser(world).run_test(size=SIZES[size]) as pilot:
        await wait_for_text(pilot, "7 sessions", "The shop")
        await pilot.press("enter")
        await wait_for_text(pilot, "Answer 12.")
        with Store.open(world.path) as other:
            session = other.sessions.get(SHOP)
            other.chains.append(
                session.key, [entry(130, "user", Text("One more thing")), entry(139, "assistant", Text("Gladly."))]
            )
        await wait_for_text(pilot, "Gladly.", "13 turns")
        if size == "one":
            await wait_for_text(pilot, "sessions › The shop › turn")
            await pilot.press("escape")
        await wait_for_text(pilot, "13 turns")


async def test_the_view_stays_in_place_when_entries_are_appended(world: Store) -> None:
    async with make_browser(world).run_test(size=THREE) as pilot:
        await wait_for_text(pilot, "7 sessions", "The shop")
        await pilot.press("enter", "home")
        await wait_for_text(pilot, "Question 1?")
        there = entry_seq(pilot)
        with Store.open(world.path) as other:
            other.chains.append(other.sessions.get(SHOP).key, [entry(130, "user", Text("One more thing"))])
        await wait_for_text(pilot, "13 turns", "Question 1?")
        assert entry_seq(pilot) == there


# ── the record ────────────────────────────────────────────────────────────────────────────────────


async def test_the_record_is_that_of_the_current_item(world: Store) -> None:
    async with make_browser(world).run_test(size=THREE) as pilot:
        await wait_for_text(pilot, "7 sessions", "The shop", "line: 129")
        await pilot.press("enter", "up")
        await wait_for_text(pilot, "line: 120", 'type: "user"')
        await pilot.press("home", "J", "J", "x")
        await wait_for_text(pilot, "line: 31")
        await pilot.press("3", "down")
        await wait_for_text(pilot, ".type")
        await pilot.press("1", "down")
        await wait_for_text(pilot, "it now reopens it", "added with")


# ── tool calls ────────────────────────────────────────────────────────────────────────────────────


async def test_an_empty_session_does_not_show_the_record_of_the_session_before(world: Store) -> None:
    empty = add_session(world, "codex:empty", time_ago(minutes=2), source="codex")
    async with make_browser(world).run_test(size=THREE) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, BrowserScreen)
        await wait_until(pilot, lambda: not screen.is_opening)
        screen.conversation.open(world.sessions.get(SHOP))
        await wait_for_text(pilot, "line: 129")
        screen.conversation.open(empty)
        await wait_for_text(pilot, "No entry is selected.")
        assert "line: 129" not in screen_text(pilot)
        screen.conversation.open(world.sessions.get(SHOP))
        await wait_for_text(pilot, "line: 129")


async def test_i_inspects_the_call_and_enter_returns_to_its_entry(world: Store) -> None:
    async with make_browser(world).run_test(size=TWO) as pilot:
        await wait_for_text(pilot, "7 sessions", "The shop")
        await pilot.press("enter")
        await wait_until(pilot, lambda: entry_seq(pilot) is not None)
        await pilot.press("E")
        await wait_for_text(pilot, "theme.css: no such file")
        await pilot.press("i")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, InspectorScreen))
        await wait_for_text(pilot, "Grep", "2 of 2", "theme.css: no such file")
        await pilot.press("K")
        await wait_for_text(pilot, "Bash", "1 of 2", "built")
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))
        await wait_until(pilot, lambda: called(pilot) == "Bash")
        assert focused(pilot) == 1
        await pilot.press("i")
        await wait_for_text(pilot, "1 of 2")
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen) and focused(pilot) == 1)


async def test_a_lists_all_calls_and_enter_opens_one(world: Store) -> None:
    async with make_browser(world).run_test(size=TWO) as pilot:
        await wait_for_text(pilot, "7 sessions", "The shop")
        await pilot.press("enter")
        await wait_for_text(pilot, "Answer 12.")
        await pilot.press("a")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, ToolCallPickerDialog))
        await wait_for_text(pilot, "All calls of this session", "make shop", "banner")
        await pilot.press(*"make", "enter")
        await wait_for_text(pilot, "Bash", "1 of 2", "built")
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))


async def test_a_session_without_tool_calls_shows_a_message(world: Store) -> None:
    async with make_browser(world).run_test(size=TWO, notifications=True) as pilot:
        await wait_for_text(pilot, "7 sessions", "The shop")
        await pilot.press("end", "enter")
        await wait_for_text(pilot, "[b]brackets[/b] and [/] stay as they are", "library ·")
        await pilot.press("a")
        await wait_for_text(pilot, "No tool calls in this session.")
        assert isinstance(pilot.app.screen, BrowserScreen)


async def test_the_age_in_the_heading_is_updated(world: Store) -> None:
    at = NOW
    app = Backscroll(world, lambda: at)
    async with app.run_test(size=TWO) as pilot:
        await wait_for_text(pilot, "Answer 12", "12 turns · 2 calls · 1 failed · ◔ waiting for you · 3m")
        at += timedelta(hours=2)
        screen = app.screen
        assert isinstance(screen, BrowserScreen)
        screen.refresh_ages()
        await wait_for_text(pilot, "12 turns · 2 calls · 1 failed · ◌ idle · 2h")


# ── the mouse ─────────────────────────────────────────────────────────────────────────────────────


async def test_searching_from_another_pane_goes_to_the_list(world: Store) -> None:
    async with make_browser(world).run_test(size=TWO) as pilot:
        await wait_for_text(pilot, "Answer 12")
        await pilot.press("2")
        await pilot.click("QueryInput")
        await pilot.press(*"config")
        await wait_for_text(pilot, "1 found")
        await pilot.press("escape")
        await wait_for_text(pilot, "7 sessions")
        assert focused(pilot) == 0


async def test_a_click_into_another_pane_moves_the_focus(world: Store) -> None:
    async with make_browser(world).run_test(size=THREE) as pilot:
        await wait_for_text(pilot, "7 sessions", "Answer 12.", "line: 129")
        await pilot.click(TimelineView, offset=(20, 10))
        await until_in(pilot, 1, [0, 1, 2])
        await wait_until(
            pilot, lambda: "line: 129" not in screen_text(pilot)
        )  # the record of what was clicked is there
        await pilot.click(JsonView, offset=(5, 1))
        await until_in(pilot, 2, [0, 1, 2])
        assert pilot.app.screen.query_one(JsonView).path == ".type"
        await pilot.press("escape")
        await until_in(pilot, 1, [0, 1, 2])
        await pilot.click(SessionListView, offset=(10, 3))
        await until_in(pilot, 0, [0, 1, 2])
        await wait_for_text(pilot, "it now reopens it")
