"""The timeline finds words in what was never read, tells others what it is at, and copies what was written."""

from __future__ import annotations

import pytest
from browser_driver import add, answer, before, prompt, screen_text, until, until_shown
from timeline_app import Reader, a_long_one, cursor, messages, timeline, until_at

from store.model.entry import ToolCall
from store.model.session import Session
from store.store import Store
from tui.messages import Copy
from tui.widgets.find_bar import FindBar
from tui.widgets.timeline.timeline_pane import TimelinePane

SIZE = (100, 30)


@pytest.fixture
def long(store: Store) -> Session:
    return a_long_one(store)


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


async def test_words_are_found_in_turns_that_were_never_read(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        await pilot.press("slash", *"answer **2")
        await until_shown(pilot, "1 of 11")
        await until_at(pilot, 2, "text")
        await pilot.press("enter", "n")
        await until_at(pilot, 20, "text")
        await until_shown(pilot, "2 of 11")
        await pilot.press("N", "N")
        await until_at(pilot, 29, "text")
        await until_shown(pilot, "11 of 11")
        await pilot.press("escape")
        await until(pilot, lambda: not pilot.app.query_one(FindBar).display)
        assert timeline(pilot).has_focus
        assert not timeline(pilot).has_hits


async def test_what_is_found_is_counted_from_where_one_began(store: Store, long: Session) -> None:
    async with Reader(store, long, at="claude:long#76").run_test(size=SIZE) as pilot:
        await until_at(pilot, 20, "prompt")
        await pilot.press("slash", *"thought 4")
        await until_at(pilot, 40, "thinking")
        await pilot.press("backspace", "2")
        await until_at(pilot, 20, "thinking")


async def test_a_hit_inside_what_is_folded_unfolds_it(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        await pilot.press("slash", *"output 44", "enter")
        await until_at(pilot, 44, "call")
        await until_shown(pilot, "│ output 44")


async def test_nothing_found_is_said_and_nothing_moves(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE, notifications=True) as pilot:
        await until_at(pilot, 60, "event")
        await pilot.press("slash", *"zebra")
        await until_shown(pilot, "nothing found")
        await pilot.press("escape", "n")
        await until_shown(pilot, "Nothing to go to")
        assert cursor(pilot) == (60, "event")


async def test_a_hit_deep_in_a_long_text_comes_into_view(store: Store) -> None:
    text = "line\n\n" * 100 + "the needle\n\n" + "line\n\n" * 100
    session = add(store, "deep", before(), prompt("Go", before()), answer(text, before()))
    async with Reader(store, session, at="deep#0").run_test(size=SIZE) as pilot:
        await until_at(pilot, 1, "prompt")
        await pilot.press("slash", *"needle", "enter")
        await until_shown(pilot, "the needle")


# ── telling others ────────────────────────────────────────────────────────────────────────────────


async def test_it_tells_what_the_cursor_rests_on(store: Store, long: Session) -> None:
    async with Reader(store, long, at="claude:long#0").run_test(size=SIZE) as pilot:
        await until_at(pilot, 1, "prompt")
        await until(pilot, lambda: messages(pilot, TimelinePane.Selected))
        await pilot.press("down", "down")
        await until(pilot, lambda: messages(pilot, TimelinePane.Selected)[-1].part == 1)
        told = messages(pilot, TimelinePane.Selected)[-1]
        assert isinstance(told.entry.parts[told.part], ToolCall)
        await pilot.press("i")
        await until(pilot, lambda: messages(pilot, TimelinePane.Inspect))
        (call,) = store.chains.tool_calls(long.key, 1)
        assert messages(pilot, TimelinePane.Inspect)[0].call_key == call.key


async def test_copying_gives_the_original(store: Store) -> None:
    evil = "say \x1b[2J [b]hi[/b]\n```sh\nls \x1b\n```"
    session = add(store, "copied", before(), prompt(f"prompt {evil}", before()), answer(f"answer {evil}", before()))
    async with Reader(store, session).run_test(size=SIZE, notifications=True) as pilot:
        await until_at(pilot, 1, "text")
        assert "\x1b" not in screen_text(pilot)
        await pilot.press("y", "Y", "c", "i")
        await until(pilot, lambda: len(messages(pilot, Copy)) == 3)
        texts = [message.text for message in messages(pilot, Copy)]
        assert texts == [f"answer {evil}", f"prompt {evil}\n\nanswer {evil}", "ls \x1b\n"]
        await until_shown(pilot, "This is no tool call")


async def test_copying_a_call_gives_arguments_and_result(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE, notifications=True) as pilot:
        await until_at(pilot, 60, "event")
        await pilot.press("X", "y", "c")
        await until(pilot, lambda: messages(pilot, Copy))
        assert messages(pilot, Copy)[0].text == '{"command":"make step60"}\n\noutput 60'
        await until_shown(pilot, "There is no code block in this.")


async def test_the_summary_is_told_in_the_heading_and_beside_what_it_covers(store: Store, long: Session) -> None:
    store.summaries.set(long, "In short.", up_to_turn=30)
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_shown(pilot, "summary covers ━", "30 of 60", "Answer 60.")
        assert "▕" not in screen_text(pilot)
        await pilot.press("home")
        await until_shown(pilot, "Answer 1.", "▕")


async def test_focus_elsewhere_dims_the_cursor(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        view = timeline(pilot)
        line = view.cards.line_count - 1
        focused = view.render_line(line - view.scroll_offset.y)
        await pilot.press("tab")
        await until(pilot, lambda: view.render_line(line - view.scroll_offset.y) != focused)
