"""Tests the timeline: every key, the mouse, folding, growing sessions, and a stable scroll position."""

from __future__ import annotations

import re
from threading import Event

import pytest
from browser_driver import (
    add_session,
    answer_entry,
    fill_store,
    prompt_entry,
    resize_terminal,
    screen_text,
    time_ago,
    wait_for_text,
    wait_until,
)
from textual import events
from textual.pilot import Pilot
from textual.scrollbar import ScrollDown, ScrollUp
from timeline_app import (
    TimelineApp,
    add_long_session,
    cursor_position,
    messages_of_type,
    screen_row_of,
    text_entry,
    text_pattern,
    timeline,
    wait_for_cursor,
)

from store.conversations.timeline import Timelines
from store.model.entry import Attachment, NewEntry, Opaque, Text, Thinking, ToolCall, ToolResult
from store.model.session import Session
from store.model.timeline import TimelineOutline
from store.store import Store
from tui.messages import Copy
from tui.widgets.timeline.card_layout import ItemPosition
from tui.widgets.timeline.timeline_pane import TimelinePane

SIZE = (100, 30)
HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b]")


@pytest.fixture
def long(store: Store) -> Session:
    return add_long_session(store)


# ── opening ───────────────────────────────────────────────────────────────────────────────────────


async def test_it_opens_at_the_end(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "A long one", "60 turns", "Answer 60.", "✗ aborted: by hand")
        await wait_for_cursor(pilot, 60, "event")
        assert timeline(pilot).scroll_offset.y == timeline(pilot).max_scroll_y


def missing_turns(pilot: Pilot[object]) -> list[int]:
    """Return the turns near the view that are not loaded."""
    view = timeline(pilot)
    return view.cards.missing_turns(view._turns_near_view())


async def test_turns_that_are_needed_when_the_renderers_are_loaded_are_requested(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turns are shorter than estimated, so more of them are needed after the first ones are rendered."""
    may_load = Event()
    monkeypatch.setattr("tui.render.markdown.preload_parsers", lambda: may_load.wait())
    at = time_ago()
    turns = [[prompt_entry(f"Question {n}?", at), answer_entry(f"Answer {n}.", at)] for n in range(1, 101)]
    session = add_session(store, "claude:short", at, *(entry for turn in turns for entry in turn))
    app = TimelineApp(store, session)
    async with app.run_test(size=(100, 60)) as pilot:
        await wait_until(pilot, lambda: app.query_one(TimelinePane).has_waiting_turns)
        may_load.set()
        await wait_for_text(pilot, "Answer 100.")
        for _ in range(5):
            await pilot.press("pageup")
            await wait_until(pilot, lambda: not missing_turns(pilot))


async def test_it_opens_at_an_entry_and_highlights_the_words(store: Store, long: Session) -> None:
    async with TimelineApp(store, long, at="claude:long#122", highlight=text_pattern("output 31")).run_test(
        size=SIZE
    ) as pilot:
        await wait_for_cursor(pilot, 31, "call")
        await wait_for_text(pilot, "│ output 31")
        await wait_until(pilot, lambda: timeline(pilot).has_hits)
        await pilot.press("up", "n")
        await wait_for_cursor(pilot, 31, "call")
        await pilot.press("escape")
        assert timeline(pilot).cards.highlight is None


@pytest.mark.parametrize("at", ["claude:long#9999", "nonsense", "claude:long#x"])
async def test_an_unknown_entry_opens_the_end(store: Store, long: Session, at: str) -> None:
    async with TimelineApp(store, long, at=at).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")


async def test_an_empty_session_shows_only_its_heading(store: Store) -> None:
    async with TimelineApp(store, store.sessions.create("nothing")).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "empty, library")
        await wait_until(pilot, lambda: messages_of_type(pilot, TimelinePane.Selected))
        assert messages_of_type(pilot, TimelinePane.Selected)[-1].entry is None
        all_keys = (
            "down up J K x X e E n N home end pagedown pageup left right enter H v w y Y c i slash escape".split()
        )
        await pilot.press(*all_keys)
        timeline(pilot).show(pilot.app.session, TimelineOutline(), entry_seq=None, highlight=None)  # type: ignore[attr-defined]
        await pilot.press(*all_keys)


async def test_unloaded_turns_are_shown_from_their_outline(store: Store, long: Session) -> None:
    app = TimelineApp(store, long)
    app.is_paused = True
    async with app.run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "60  you", "Question 60?")
        assert cursor_position(pilot) == (60, "absent")
        await pilot.press("y", "Y", "c", "i", "left", "right", "enter", "J", "K", "x", "E")
        assert messages_of_type(pilot, Copy) == []


async def test_only_turns_near_the_view_are_requested_and_cached(
    store: Store, long: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.widgets.timeline.card_layout.MAX_CACHED_TURNS", 12)
    monkeypatch.setattr("tui.widgets.timeline.card_layout.MAX_CACHED_LINES", 60)
    app = TimelineApp(store, long)
    async with app.run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "Answer 60.")
        assert min(n for turns in app.requested_turns for n in turns) > 40
        for key in ("home", "end", "home"):
            await pilot.press(key)
            await wait_for_text(pilot, "Answer 1." if key == "home" else "Answer 60.")
            assert len(timeline(pilot).cards._loaded_turns) <= 20
        await wait_for_cursor(pilot, 1, "prompt")


async def test_a_stale_answer_is_dropped(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "Answer 60.")
        view = timeline(pilot)
        revision = view.cards.revision
        view.receive_turns(view.TurnsRequested(view.generation - 1, [5]), Timelines(store).load_turns(long.key, [5]))
        assert view.cards.revision == revision


# ── moving ────────────────────────────────────────────────────────────────────────────────────────


async def test_the_cursor_moves_from_item_to_item(store: Store, long: Session) -> None:
    async with TimelineApp(store, long, at="claude:long#0").run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 1, "prompt")
        for key, position in [
            ("down", (1, "thinking")),
            ("j", (1, "call")),
            ("down", (1, "text")),
            ("down", (2, "prompt")),
            ("up", (1, "text")),
            ("k", (1, "call")),
        ]:
            await pilot.press(key)
            await wait_for_cursor(pilot, *position)


async def test_home_end_and_pages(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        for key, position in [
            ("home", (1, "prompt")),
            ("end", (60, "event")),
            ("g", (1, "prompt")),
            ("G", (60, "event")),
        ]:
            await pilot.press(key)
            await wait_for_cursor(pilot, *position)
        await pilot.press("pageup")
        top = timeline(pilot).scroll_offset.y
        assert top < timeline(pilot).max_scroll_y
        assert cursor_position(pilot)[0] < 60
        await pilot.press("pagedown")
        assert timeline(pilot).scroll_offset.y > top
        await pilot.press("pagedown", "pagedown")
        await wait_for_cursor(pilot, 60, "event")
        await pilot.press("home", "pageup")
        await wait_for_cursor(pilot, 1, "prompt")


async def test_an_item_higher_than_the_screen_scrolls_by_lines(store: Store, long: Session) -> None:
    async with TimelineApp(store, long, at="claude:long#23").run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 6, "text")
        await pilot.press("down")
        before_top = timeline(pilot).scroll_offset.y
        assert cursor_position(pilot) == (6, "text")
        await pilot.press("down")
        assert timeline(pilot).scroll_offset.y == before_top + 3
        await pilot.press(*["down"] * 60)
        assert cursor_position(pilot)[0] > 6
        while cursor_position(pilot) != (6, "text"):
            await pilot.press("up")
        before_top = timeline(pilot).scroll_offset.y
        await pilot.press("up")
        assert cursor_position(pilot) == (6, "text")
        assert timeline(pilot).scroll_offset.y == before_top - 3


async def test_jumps_from_turn_to_turn(store: Store, long: Session) -> None:
    async with TimelineApp(store, long, at="claude:long#0").run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 1, "prompt")
        await pilot.press("J", "J")
        await wait_for_cursor(pilot, 3, "prompt")
        await pilot.press("down", "K")
        await wait_for_cursor(pilot, 3, "prompt")
        await pilot.press("K", "K", "K", "K")
        await wait_for_cursor(pilot, 1, "prompt")


async def test_jumps_to_calls_and_failures_in_any_turn(store: Store, long: Session) -> None:
    async with TimelineApp(store, long, at="claude:long#0").run_test(size=SIZE, notifications=True) as pilot:
        await wait_for_cursor(pilot, 1, "prompt")
        for key, position in [
            ("x", (1, "call")),
            ("x", (2, "call")),
            ("X", (1, "call")),
            ("e", (10, "call")),
            ("e", (20, "call")),
            ("E", (10, "call")),
        ]:
            await pilot.press(key)
            await wait_for_cursor(pilot, *position)
        await pilot.press("E")  # wraps around to the end
        await wait_for_cursor(pilot, 60, "event")
        await pilot.press("E")
        await wait_for_cursor(pilot, 60, "call")
        await pilot.press("e", "e")  # wraps around to the start
        await wait_for_cursor(pilot, 10, "call")
        await pilot.press("end", "x")
        await wait_for_cursor(pilot, 1, "call")


async def test_a_key_after_a_jump_applies_to_its_destination(store: Store, long: Session) -> None:
    app = TimelineApp(store, long)
    async with app.run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        app.is_paused = True
        await pilot.press("home", "e", "i")
        assert messages_of_type(pilot, TimelinePane.InspectRequested) == []
        await wait_until(pilot, lambda: app.pending_requests)
        app.unpause()
        await wait_until(pilot, lambda: messages_of_type(pilot, TimelinePane.InspectRequested))
        await wait_for_cursor(pilot, 10, "call")


async def test_a_jump_without_a_destination_shows_a_notice(store: Store) -> None:
    session = add_session(store, "plain", time_ago(), prompt_entry("only words", time_ago()))
    async with TimelineApp(store, session).run_test(size=SIZE, notifications=True) as pilot:
        await wait_for_cursor(pilot, 1, "prompt")
        await pilot.press("e")
        await wait_for_text(pilot, "No errors in this session.")


async def test_a_jump_to_the_item_under_the_cursor_shows_a_notice(store: Store) -> None:
    at = time_ago()
    failure = ToolResult("c1", "no such file", is_error=True)
    call = NewEntry(role="assistant", parts=(ToolCall("c1", "Bash", {"command": "cat x"}),), created_at=at)
    result = NewEntry(role="tool", parts=(failure,), created_at=at)
    session = add_session(store, "failed", at, prompt_entry("Go", at), call, result)
    async with TimelineApp(store, session).run_test(size=SIZE, notifications=True) as pilot:
        await wait_for_text(pilot, "no such file")
        await pilot.press("home", "e")
        await wait_for_cursor(pilot, 1, "call")
        await pilot.press("e")
        await wait_for_text(pilot, "No other errors in this session.")


# ── folding ───────────────────────────────────────────────────────────────────────────────────────


async def test_items_fold_and_unfold(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        await pilot.press("X", "right")
        await wait_for_text(pilot, "▾ Bash  make step60", "command: make step60", "│ output 60")
        await pilot.press("left")
        assert "command: make" not in screen_text(pilot)
        await pilot.press("up", "enter")
        await wait_for_text(pilot, "▾ thinking, 2 lines", "And more.")
        await pilot.press("enter")
        await wait_for_text(pilot, "▸ thinking, 2 lines")


async def test_a_turn_folds_to_one_line_and_back(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        await pilot.press("left")
        await wait_for_cursor(pilot, 60, "folded")
        await wait_for_text(pilot, "▸ 60  you", "Question 60?", "1 call · 2 failed")
        assert "Answer 60." not in screen_text(pilot)
        await pilot.press("up")
        await wait_for_cursor(pilot, 59, "text")
        await pilot.press("down", "right")
        await wait_for_cursor(pilot, 60, "prompt")
        await wait_for_text(pilot, "Answer 60.")


async def test_all_turns_fold_and_jumps_unfold_their_destination(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        await pilot.press("H")
        await wait_for_cursor(pilot, 60, "folded")
        assert timeline(pilot).line_count == 60
        await pilot.press("home")
        await wait_for_cursor(pilot, 1, "folded")
        await pilot.press("e")
        await wait_for_cursor(pilot, 10, "call")
        assert timeline(pilot).line_count > 60
        await pilot.press("end")
        await wait_for_cursor(pilot, 60, "folded")
        await pilot.press("H")
        await wait_for_cursor(pilot, 60, "prompt")
        await wait_for_text(pilot, "Answer 60.")


async def test_the_gutter_shows_tokens_or_time(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "6.1k tok █")
        await pilot.press("v")
        await wait_until(pilot, lambda: "6.1k" not in screen_text(pilot))
        await pilot.press("v")
        await wait_for_text(pilot, "6.1k tok █")


async def test_a_key_shows_a_long_text_in_full(store: Store) -> None:
    session = add_session(
        store, "huge", time_ago(), prompt_entry("Go on", time_ago()), answer_entry("word " * 20_000, time_ago())
    )
    async with TimelineApp(store, session).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "more characters · w to show all")
        lines = timeline(pilot).line_count
        await pilot.press("w")
        await wait_until(pilot, lambda: timeline(pilot).line_count > 5 * lines)
        await pilot.press("w")
        await wait_until(pilot, lambda: timeline(pilot).line_count == lines)


# ── the mouse ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_click_selects_and_a_click_on_the_arrow_folds(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "Answer 60.")
        await pilot.click(offset=(30, screen_row_of(pilot, "make step60")))
        await wait_for_cursor(pilot, 60, "call")
        assert "command: make" not in screen_text(pilot)
        await pilot.click(offset=(2, screen_row_of(pilot, "make step60")))
        await wait_for_text(pilot, "command: make step60")
        await pilot.click(offset=(30, screen_row_of(pilot, "▸ thinking")), times=2)
        await wait_for_text(pilot, "And more.")
        await pilot.click(offset=(30, screen_row_of(pilot, "60  you")), times=2)
        await wait_for_cursor(pilot, 60, "folded")
        await pilot.click(offset=(2, screen_row_of(pilot, "▸ 60  you")))
        await wait_for_cursor(pilot, 60, "prompt")


async def test_scrolling_does_not_move_the_cursor(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        view = timeline(pilot)
        for _ in range(40):
            view.scroll_relative(y=-3, animate=False)
            await pilot.pause()
        assert view.scroll_offset.y < view.max_scroll_y
        assert cursor_position(pilot) == (60, "event")
        await wait_until(pilot, lambda: "Question" in screen_text(pilot))


async def test_a_click_next_to_the_scrollbar_handle_scrolls_a_page(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        view = timeline(pilot)
        await wait_until(pilot, lambda: not view.cards.missing_turns(view._turns_near_view()))
        below = view.max_scroll_y - view.scroll_offset.y
        view.post_message(ScrollUp())
        await wait_until(pilot, lambda: view.max_scroll_y - view.scroll_offset.y == below + view.page.height - 2)
        view.post_message(ScrollDown())
        await wait_until(pilot, lambda: view.max_scroll_y - view.scroll_offset.y == below)


async def test_the_wheel_scrolls(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        view = timeline(pilot)
        await wait_until(pilot, lambda: not view.cards.missing_turns(view._turns_near_view()))
        before_top = view.scroll_offset.y
        await pilot._post_mouse_events([events.MouseScrollUp], widget=view)
        await wait_until(pilot, lambda: view.scroll_offset.y < before_top)


# ── keeping the position ──────────────────────────────────────────────────────────────────────────


async def test_lines_stay_in_place_when_turns_above_are_rendered(store: Store, long: Session) -> None:
    """Scrolling up line by line shows every line once, even if the heights above were estimated wrongly."""
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "Answer 60.")
        view = timeline(pilot)
        await wait_until(pilot, lambda: not view.cards.missing_turns(view._turns_near_view()))
        before_text = screen_text(pilot).splitlines()
        for _ in range(60):
            view.scroll_relative(y=-1, animate=False)
            await wait_until(pilot, lambda: not view.cards.missing_turns(view._turns_near_view()))
            after_text = screen_text(pilot).splitlines()
            top = screen_row_of(pilot, "A long one") + 3
            moved = [line.rstrip(" ▇▆▅▄▃▂▁█▕") for line in before_text[top : top + 15]]
            assert [line.rstrip(" ▇▆▅▄▃▂▁█▕") for line in after_text[top + 1 : top + 16]] == moved
            before_text = after_text


async def test_folding_keeps_the_cursor_in_place(store: Store, long: Session) -> None:
    async with TimelineApp(store, long, at="claude:long#120").run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 31, "prompt")
        await pilot.press("x")
        await wait_for_cursor(pilot, 31, "call")
        view = timeline(pilot)
        row = screen_row_of(pilot, "make step31") - view.region.y
        await pilot.press("enter")
        await wait_for_text(pilot, "command: make step31")
        assert screen_row_of(pilot, "make step31") - view.region.y == row
        await resize_terminal(pilot, 70, 30)  # the heading is one line higher then
        await wait_until(pilot, lambda: screen_row_of(pilot, "make step31") - view.region.y == row)


async def test_a_cursor_at_the_end_follows_a_growing_session(store: Store, long: Session) -> None:
    app = TimelineApp(store, long)
    async with app.run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        store.chains.append(long.key, [prompt_entry("One more?", time_ago()), text_entry("Yes, one more.")])
        app.open_session(follow=True)
        await wait_for_text(pilot, "One more?", "Yes, one more.")
        await wait_for_cursor(pilot, 61, "text")
        store.chains.append(long.key, [text_entry("And another.")])
        app.open_session(follow=True)
        await wait_for_text(pilot, "And another.")


async def test_a_growing_session_does_not_move_a_cursor_elsewhere(store: Store, long: Session) -> None:
    app = TimelineApp(store, long, at="claude:long#120")
    async with app.run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 31, "prompt")
        await wait_for_text(pilot, "Answer 31.")
        row = screen_row_of(pilot, "Question 31?")
        store.chains.append(long.key, [prompt_entry("One more?", time_ago())])
        app.open_session(follow=True)
        await wait_until(pilot, lambda: len(timeline(pilot).cards) == 62)
        await pilot.pause(0.1)
        assert screen_row_of(pilot, "Question 31?") == row
        assert cursor_position(pilot) == (31, "prompt")


async def test_a_pending_jump_completes_while_the_session_grows(store: Store, long: Session) -> None:
    app = TimelineApp(store, long)
    async with app.run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        app.is_paused = True
        await pilot.press("home", "e", "i")
        await wait_until(pilot, lambda: app.pending_requests)
        store.chains.append(long.key, [prompt_entry("One more?", time_ago())])
        app.open_session(follow=True)
        await wait_until(pilot, lambda: len(timeline(pilot).cards) == 62)
        app.unpause()
        await wait_until(pilot, lambda: messages_of_type(pilot, TimelinePane.InspectRequested))
        await wait_for_cursor(pilot, 10, "call")


async def test_a_session_that_became_shorter(store: Store, long: Session) -> None:
    async with TimelineApp(store, long).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        outline = Timelines(store).load_outline(long.key)
        pilot.app.query_one(TimelinePane).show(long, TimelineOutline(outline.turns[:20]), follow=True)
        await wait_for_cursor(pilot, 19, "text")
        await wait_for_text(pilot, "Answer 19.")
        await pilot.press("home", "end")
        await wait_for_cursor(pilot, 19, "text")


async def test_follow_is_ignored_for_another_session(store: Store, long: Session) -> None:
    fill_store(store)
    app = TimelineApp(store, long)
    async with app.run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 60, "event")
        app.session = store.sessions.get("claude:e0741090")
        app.open_session(follow=True)
        await wait_for_text(pilot, "Fix the flaky upload test", "summary covers", "1 of 1", "• it now reopens it")


# ── hostile text ──────────────────────────────────────────────────────────────────────────────────

HOSTILE = (
    "\x1b]52;c;UFdORUQ=\x07 \x9b2J \x1b[2J [b]bold[/b] [@click=app.quit]go[/] [/] \u202e abc \u2066 \x00 \r over \x08"
    " 👩\u200d👩\u200d👧 日本語\ttab [link=file:///etc/passwd]x[/link] [a](http://evil.example) "
)


async def test_nothing_hostile_reaches_the_screen(store: Store) -> None:
    text = HOSTILE * 3 + "\n" + "x" * 100_000
    parts = (
        Thinking(text),
        Text(text),
        ToolCall("1", HOSTILE, {HOSTILE: text}),
        Attachment(HOSTILE, HOSTILE, 1),
        Opaque(HOSTILE, 1),
    )
    session = add_session(
        store,
        "hostile",
        time_ago(),
        prompt_entry(text, time_ago(), HOSTILE),
        NewEntry(role="assistant", parts=parts, author=HOSTILE, created_at=time_ago()),
        NewEntry(role="tool", parts=(ToolResult("1", text, is_error=True),), created_at=time_ago()),
        NewEntry(kind="event", text=text, created_at=time_ago()),
        NewEntry(kind="compaction", parts=(Text(text),), created_at=time_ago()),
        source=HOSTILE,
        cwd=HOSTILE,
        agent_title=HOSTILE,
    )
    async with TimelineApp(store, session).run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 1, "compaction")
        view = timeline(pilot)
        for item in range(len(view.cards.items(1))):
            view.cards.set_open(ItemPosition(1, item), True)
        await pilot.press("home")
        seen = 0
        while cursor_position(pilot) != (1, "compaction"):
            await pilot.press("pagedown")
            for strip in pilot.app.screen._compositor.render_strips():
                assert not HARMFUL.search(strip.text)
                assert not any(
                    segment.style and (segment.style.link or segment.style.meta.get("@click")) for segment in strip
                )
                seen += "UFdORUQ" in strip.text
        assert seen > 10


async def test_the_next_and_the_previous_turn_begin_on_the_same_row(store: Store, long: Session) -> None:
    async with TimelineApp(store, long, at="claude:long#80").run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 21, "prompt")
        rows = set()
        for key in ("J", "J", "K", "K", "K", "J"):
            await pilot.press(key)
            await pilot.pause()
            await wait_until(pilot, lambda: cursor_position(pilot)[1] == "prompt")
            rows.add(screen_row_of(pilot, f" {cursor_position(pilot)[0]}  you "))
        assert len(rows) == 1


async def test_the_last_short_turn_begins_on_the_same_row_too(store: Store, long: Session) -> None:
    async with TimelineApp(store, long, at="claude:long#0").run_test(size=SIZE) as pilot:
        await wait_for_cursor(pilot, 1, "prompt")
        await pilot.press("J")
        await wait_for_cursor(pilot, 2, "prompt")
        row = screen_row_of(pilot, " 2  you ")
        await pilot.press("end")
        await wait_for_cursor(pilot, 60, "event")
        view = timeline(pilot)
        for key, turn in (("K", 60), ("K", 59), ("J", 60)):
            await pilot.press(key)
            await wait_for_cursor(pilot, turn, "prompt")
            await wait_until(pilot, lambda turn=turn: screen_row_of(pilot, f" {turn}  you ") == row)
        top = view.scroll_offset.y
        await pilot.press("down")
        await wait_until(pilot, lambda: cursor_position(pilot)[1] != "prompt")
        assert view.scroll_offset.y == top
        await pilot.press("end")
        await wait_until(pilot, lambda: view.scroll_offset.y == view.cards.line_count - view.page.height)
