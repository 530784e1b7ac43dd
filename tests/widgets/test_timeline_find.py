"""Tests finding, selecting and copying in the timeline."""

from __future__ import annotations

import pytest
from browser_driver import add_session, answer_entry, prompt_entry, screen_text, time_ago, wait_for_text, wait_until
from timeline_app import TimelineApp, add_long_session, cursor_position, messages_of_type, timeline, wait_for_cursor

from store.model.entry import ToolCall
from store.model.session import Session
from store.store import Store
from tui.messages import Copy
from tui.widgets.find_bar import FindBar
from tui.widgets.timeline.timeline_pane import TimelinePane

SIZE = (100, 30)


@pytest.fixture
def long(store: Store) -> Session:
    return add_long_session(store)


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


async def test_words_are_found_in_turns_that_are_not_loaded(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        await pilot.press("slash", *"answer **2")
        await wait_for_text(pilot, "1 of 11")
        await wait_for_cursor(pilot, 2, "text")
        await pilot.press("enter", "n")
        await wait_for_cursor(pilot, 20, "text")
        await wait_for_text(pilot, "2 of 11")
        await pilot.press("N", "N")
        await wait_for_cursor(pilot, 29, "text")
        await wait_for_text(pilot, "11 of 11")
        await pilot.press("escape")
        await wait_until(pilot, lambda: not pilot.app.query_one(FindBar).display)
        assert timeline(pilot).has_focus
        assert not timeline(pilot).has_hits


async def test_hits_are_counted_from_where_the_search_began(store: Store, long: Session) -> None:
    async with TimelineApp(store, long, at="claude:long#76").run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 20, "prompt")
        await pilot.press("slash", *"thought 4")
        await wait_for_cursor(pilot, 40, "thinking")
        await pilot.press("backspace", "2")
        await wait_for_cursor(pilot, 20, "thinking")


async def test_a_hit_in_a_folded_item_unfolds_it(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        await pilot.press("slash", *"output 44", "enter")
        await wait_for_cursor(pilot, 44, "call")
        await wait_for_text(pilot, "│ output 44")


async def test_a_search_without_hits_does_not_move_the_cursor(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE, notifications=True) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        await pilot.press("slash", *"zebra")
        await wait_for_text(pilot, "no matches")
        await pilot.press("escape", "n")
        await wait_for_text(pilot, "No matches. Press /")
        assert cursor_position(pilot) == (60, "event")


async def test_a_hit_in_a_long_text_becomes_visible(store: Store) -> None:
    text = "line\n\n" * 100 + "the needle\n\n" + "line\n\n" * 100
    session = add_session(store, "deep", time_ago(), prompt_entry("Go", time_ago()), answer_entry(text, time_ago()))
    async with TimelineApp(store, session, at="deep#0").run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 1, "prompt")
        await pilot.press("slash", *"needle", "enter")
        await wait_for_text(pilot, "the needle")


# ── selecting and copying ─────────────────────────────────────────────────────────────────────────


async def test_the_selected_item_is_posted(store: Store, long: Session) -> None:
    async with TimelineApp(store, long, at="claude:long#0").run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 1, "prompt")
        await wait_until(pilot, lambda: messages_of_type(pilot, TimelinePane.Selected))
        await pilot.press("down", "down")
        await wait_until(pilot, lambda: messages_of_type(pilot, TimelinePane.Selected)[-1].part == 1)
        message = messages_of_type(pilot, TimelinePane.Selected)[-1]
        assert isinstance(message.entry.parts[message.part], ToolCall)
        await pilot.press("i")
        await wait_until(pilot, lambda: messages_of_type(pilot, TimelinePane.InspectRequested))
        (call,) = store.chains.tool_calls(long.key, 1)
        assert messages_of_type(pilot, TimelinePane.InspectRequested)[0].call_key == call.key


async def test_copying_takes_the_stored_text(store: Store) -> None:
    evil = "say \x1b[2J [b]hi[/b]\n```sh\nls \x1b\n```"
    session = add_session(
        store,
        "copied",
        time_ago(),
        prompt_entry(f"prompt {evil}", time_ago()),
        answer_entry(f"answer {evil}", time_ago()),
    )
    async with TimelineApp(store, session).run_test(size=SIZE, notifications=True) as pilot:
        await wait_for_cursor(pilot, 1, "text")
        assert "\x1b" not in screen_text(pilot)
        await pilot.press("y", "Y", "c", "i")
        await wait_until(pilot, lambda: len(messages_of_type(pilot, Copy)) == 3)
        texts = [message.text for message in messages_of_type(pilot, Copy)]
        assert texts == [f"answer {evil}", f"prompt {evil}\n\nanswer {evil}", "ls \x1b\n"]
        await wait_for_text(pilot, "Not a tool call")


async def test_copying_a_call_takes_arguments_and_result(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE, notifications=True) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        await pilot.press("X", "y", "c")
        await wait_until(pilot, lambda: messages_of_type(pilot, Copy))
        assert messages_of_type(pilot, Copy)[0].text == '{"command":"make step60"}\n\noutput 60'
        await wait_for_text(pilot, "No code block in this item.")


async def test_the_heading_and_a_bar_show_what_the_summary_covers(store: Store, long: Session) -> None:
    store.summaries.set(long, "In short.", up_to_turn=30)
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "summary covers ━", "30 of 60", "Answer 60.")
        assert "▕" not in screen_text(pilot)
        await pilot.press("home")
        await wait_for_text(pilot, "Answer 1.", "▕")


async def test_focus_elsewhere_dims_the_cursor(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        view = timeline(pilot)
        line = view.cards.line_count - 1
        focused = view.render_line(line - view.scroll_offset.y)
        await pilot.press("tab")
        await wait_until(pilot, lambda: view.render_line(line - view.scroll_offset.y) != focused)
