"""The timeline under a person's hands: every key, the mouse, finding, growing, and a page that holds still."""

from __future__ import annotations

import re

import pytest
from browser_driver import add, answer, before, fill, prompt, screen_text, until, until_shown
from textual import events
from textual.scrollbar import ScrollDown, ScrollUp
from timeline_app import Reader, a_long_one, a_text, cursor, messages, row_of, timeline, until_at, words

from store.conversations.timeline import Outlines
from store.model.entry import Attachment, NewEntry, Opaque, Text, Thinking, ToolCall, ToolResult
from store.model.session import Session
from store.model.timeline import Outline
from store.store import Store
from tui.messages import Copy
from tui.widgets.timeline.card_layout import Spot
from tui.widgets.timeline.timeline_pane import TimelinePane

SIZE = (100, 30)
HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b]")


@pytest.fixture
def long(store: Store) -> Session:
    return a_long_one(store)


# ── opening ───────────────────────────────────────────────────────────────────────────────────────


async def test_it_opens_at_the_end(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_shown(pilot, "A long one", "60 turns", "Answer 60.", "✗ aborted: by hand")
        await until_at(pilot, 60, "event")
        assert timeline(pilot).scroll_offset.y == timeline(pilot).max_scroll_y


async def test_it_opens_at_an_entry_and_marks_the_words(store: Store, long: Session) -> None:
    async with Reader(store, long, at="claude:long#122", marks=words("output 31")).run_test(size=SIZE) as pilot:
        await until_at(pilot, 31, "call")
        await until_shown(pilot, "│ output 31")
        await until(pilot, lambda: timeline(pilot).has_hits)
        await pilot.press("up", "n")
        await until_at(pilot, 31, "call")
        await pilot.press("escape")
        assert timeline(pilot).cards.marks is None


@pytest.mark.parametrize("at", ["claude:long#9999", "nonsense", "claude:long#x"])
async def test_an_entry_that_is_not_there_opens_the_end(store: Store, long: Session, at: str) -> None:
    async with Reader(store, long, at=at).run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")


async def test_a_session_without_anything_is_just_its_heading(store: Store) -> None:
    async with Reader(store, store.sessions.create("nothing")).run_test(size=SIZE) as pilot:
        await until_shown(pilot, "nothing")
        await until(pilot, lambda: messages(pilot, TimelinePane.Selected))
        assert messages(pilot, TimelinePane.Selected)[-1].entry is None
        every = "down up J K x X e E n N home end pagedown pageup left right enter H v w y Y c i slash escape".split()
        await pilot.press(*every)
        timeline(pilot).show(pilot.app.session, Outline(), at=None, marks=None)  # type: ignore[attr-defined]
        await pilot.press(*every)


async def test_turns_that_have_not_come_are_told_from_their_outline(store: Store, long: Session) -> None:
    app = Reader(store, long)
    app.held = True
    async with app.run_test(size=SIZE) as pilot:
        await until_shown(pilot, "60  you", "Question 60?")
        assert cursor(pilot) == (60, "absent")
        await pilot.press("y", "Y", "c", "i", "left", "right", "enter", "J", "K", "x", "E")
        assert messages(pilot, Copy) == []


async def test_only_what_is_near_is_asked_for_and_what_is_far_is_forgotten(
    store: Store, long: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.widgets.timeline.card_layout.TURNS_KEPT", 12)
    monkeypatch.setattr("tui.widgets.timeline.card_layout.LINES_KEPT", 60)
    app = Reader(store, long)
    async with app.run_test(size=SIZE) as pilot:
        await until_shown(pilot, "Answer 60.")
        assert min(n for turns in app.asked for n in turns) > 40
        for key in ("home", "end", "home"):
            await pilot.press(key)
            await until_shown(pilot, "Answer 1." if key == "home" else "Answer 60.")
            assert len(timeline(pilot).cards._bodies) <= 20
        await until_at(pilot, 1, "prompt")


async def test_a_stale_answer_is_dropped(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_shown(pilot, "Answer 60.")
        view = timeline(pilot)
        edition = view.cards.edition
        view.supply(view.Wanted(view.generation - 1, [5]), Outlines(store).turns(long.key, [5]))
        assert view.cards.edition == edition


# ── moving ────────────────────────────────────────────────────────────────────────────────────────


async def test_the_cursor_goes_from_block_to_block(store: Store, long: Session) -> None:
    async with Reader(store, long, at="claude:long#0").run_test(size=SIZE) as pilot:
        await until_at(pilot, 1, "prompt")
        for key, place in [
            ("down", (1, "thinking")),
            ("j", (1, "call")),
            ("down", (1, "text")),
            ("down", (2, "prompt")),
            ("up", (1, "text")),
            ("k", (1, "call")),
        ]:
            await pilot.press(key)
            await until_at(pilot, *place)


async def test_home_end_and_pages(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        for key, place in [("home", (1, "prompt")), ("end", (60, "event")), ("g", (1, "prompt")), ("G", (60, "event"))]:
            await pilot.press(key)
            await until_at(pilot, *place)
        await pilot.press("pageup")
        top = timeline(pilot).scroll_offset.y
        assert top < timeline(pilot).max_scroll_y
        assert cursor(pilot)[0] < 60
        await pilot.press("pagedown")
        assert timeline(pilot).scroll_offset.y > top
        await pilot.press("pagedown", "pagedown")
        await until_at(pilot, 60, "event")
        await pilot.press("home", "pageup")
        await until_at(pilot, 1, "prompt")


async def test_a_block_higher_than_the_page_is_read_line_by_line(store: Store, long: Session) -> None:
    async with Reader(store, long, at="claude:long#23").run_test(size=SIZE) as pilot:
        await until_at(pilot, 6, "text")
        await pilot.press("down")
        before_top = timeline(pilot).scroll_offset.y
        assert cursor(pilot) == (6, "text")
        await pilot.press("down")
        assert timeline(pilot).scroll_offset.y == before_top + 3
        await pilot.press(*["down"] * 60)
        assert cursor(pilot)[0] > 6
        while cursor(pilot) != (6, "text"):
            await pilot.press("up")
        before_top = timeline(pilot).scroll_offset.y
        await pilot.press("up")
        assert cursor(pilot) == (6, "text")
        assert timeline(pilot).scroll_offset.y == before_top - 3


async def test_jumps_from_turn_to_turn(store: Store, long: Session) -> None:
    async with Reader(store, long, at="claude:long#0").run_test(size=SIZE) as pilot:
        await until_at(pilot, 1, "prompt")
        await pilot.press("J", "J")
        await until_at(pilot, 3, "prompt")
        await pilot.press("down", "K")
        await until_at(pilot, 3, "prompt")
        await pilot.press("K", "K", "K", "K")
        await until_at(pilot, 1, "prompt")


async def test_jumps_to_calls_and_failures_wherever_they_are(store: Store, long: Session) -> None:
    async with Reader(store, long, at="claude:long#0").run_test(size=SIZE, notifications=True) as pilot:
        await until_at(pilot, 1, "prompt")
        for key, place in [
            ("x", (1, "call")),
            ("x", (2, "call")),
            ("X", (1, "call")),
            ("e", (10, "call")),
            ("e", (20, "call")),
            ("E", (10, "call")),
        ]:
            await pilot.press(key)
            await until_at(pilot, *place)
        await pilot.press("E")  # before the first, from the end again
        await until_at(pilot, 60, "event")
        await pilot.press("E")
        await until_at(pilot, 60, "call")
        await pilot.press("e", "e")  # past the last, from the beginning again
        await until_at(pilot, 10, "call")
        await pilot.press("end", "x")
        await until_at(pilot, 1, "call")


async def test_a_key_after_a_jump_is_for_where_it_leads(store: Store, long: Session) -> None:
    app = Reader(store, long)
    async with app.run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        app.held = True
        await pilot.press("home", "e", "i")
        assert messages(pilot, TimelinePane.Inspect) == []
        await until(pilot, lambda: app.waiting)
        app.let_go()
        await until(pilot, lambda: messages(pilot, TimelinePane.Inspect))
        await until_at(pilot, 10, "call")


async def test_a_jump_to_what_is_nowhere_says_so(store: Store) -> None:
    session = add(store, "plain", before(), prompt("only words", before()))
    async with Reader(store, session).run_test(size=SIZE, notifications=True) as pilot:
        await until_at(pilot, 1, "prompt")
        await pilot.press("e")
        await until_shown(pilot, "No failure in this conversation.")


# ── folding ───────────────────────────────────────────────────────────────────────────────────────


async def test_blocks_fold_and_unfold(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        await pilot.press("X", "right")
        await until_shown(pilot, "▾ Bash  make step60", "command: make step60", "│ output 60")
        await pilot.press("left")
        assert "command: make" not in screen_text(pilot)
        await pilot.press("up", "enter")
        await until_shown(pilot, "▾ thinking, 2 lines", "And more.")
        await pilot.press("enter")
        await until_shown(pilot, "▸ thinking, 2 lines")


async def test_a_turn_folds_to_one_line_and_back(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        await pilot.press("left")
        await until_at(pilot, 60, "folded")
        await until_shown(pilot, "▸ 60  you", "Question 60?", "1⚙ 2✗")
        assert "Answer 60." not in screen_text(pilot)
        await pilot.press("up")
        await until_at(pilot, 59, "text")
        await pilot.press("down", "right")
        await until_at(pilot, 60, "prompt")
        await until_shown(pilot, "Answer 60.")


async def test_all_turns_fold_at_once_and_jumps_unfold_what_they_reach(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        await pilot.press("H")
        await until_at(pilot, 60, "folded")
        assert timeline(pilot).line_count == 60
        await pilot.press("home")
        await until_at(pilot, 1, "folded")
        await pilot.press("e")
        await until_at(pilot, 10, "call")
        assert timeline(pilot).line_count > 60
        await pilot.press("end")
        await until_at(pilot, 60, "folded")
        await pilot.press("H")
        await until_at(pilot, 60, "prompt")
        await until_shown(pilot, "Answer 60.")


async def test_the_gutter_tells_tokens_or_time(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_shown(pilot, "6.1k █")
        await pilot.press("v")
        await until(pilot, lambda: "6.1k" not in screen_text(pilot))
        await pilot.press("v")
        await until_shown(pilot, "6.1k █")


async def test_a_long_text_is_shown_whole_when_asked_for(store: Store) -> None:
    session = add(store, "huge", before(), prompt("Go on", before()), answer("word " * 20_000, before()))
    async with Reader(store, session).run_test(size=SIZE) as pilot:
        await until_shown(pilot, "more characters · w shows all")
        lines = timeline(pilot).line_count
        await pilot.press("w")
        await until(pilot, lambda: timeline(pilot).line_count > 5 * lines)
        await pilot.press("w")
        await until(pilot, lambda: timeline(pilot).line_count == lines)


# ── the mouse ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_click_selects_and_a_click_on_the_arrow_folds(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_shown(pilot, "Answer 60.")
        await pilot.click(offset=(30, row_of(pilot, "make step60")))
        await until_at(pilot, 60, "call")
        assert "command: make" not in screen_text(pilot)
        await pilot.click(offset=(2, row_of(pilot, "make step60")))
        await until_shown(pilot, "command: make step60")
        await pilot.click(offset=(30, row_of(pilot, "▸ thinking")), times=2)
        await until_shown(pilot, "And more.")
        await pilot.click(offset=(30, row_of(pilot, "60  you")), times=2)
        await until_at(pilot, 60, "folded")
        await pilot.click(offset=(2, row_of(pilot, "▸ 60  you")))
        await until_at(pilot, 60, "prompt")


async def test_scrolling_leaves_the_cursor_where_it_is(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        view = timeline(pilot)
        for _ in range(40):
            view.scroll_relative(y=-3, animate=False)
            await pilot.pause()
        assert view.scroll_offset.y < view.max_scroll_y
        assert cursor(pilot) == (60, "event")
        await until(pilot, lambda: "Question" in screen_text(pilot))


async def test_pressing_beside_the_handle_of_the_scrollbar_goes_a_page(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        view = timeline(pilot)
        await until(pilot, lambda: not view.cards.missing(view._near()))
        below = view.max_scroll_y - view.scroll_offset.y
        view.post_message(ScrollUp())
        await until(pilot, lambda: view.max_scroll_y - view.scroll_offset.y == below + view.page.height - 2)
        view.post_message(ScrollDown())
        await until(pilot, lambda: view.max_scroll_y - view.scroll_offset.y == below)


async def test_the_wheel_scrolls(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        view = timeline(pilot)
        await until(pilot, lambda: not view.cards.missing(view._near()))
        before_top = view.scroll_offset.y
        await pilot._post_mouse_events([events.MouseScrollUp], widget=view)
        await until(pilot, lambda: view.scroll_offset.y < before_top)


# ── holding still ─────────────────────────────────────────────────────────────────────────────────


async def test_what_is_read_stays_in_place_when_more_is_laid_out_above(store: Store, long: Session) -> None:
    """Scrolling up line by line shows every line once, whatever the turns above turn out to be high."""
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_shown(pilot, "Answer 60.")
        view = timeline(pilot)
        await until(pilot, lambda: not view.cards.missing(view._near()))
        before_text = screen_text(pilot).splitlines()
        for _ in range(60):
            view.scroll_relative(y=-1, animate=False)
            await until(pilot, lambda: not view.cards.missing(view._near()))
            after_text = screen_text(pilot).splitlines()
            top = row_of(pilot, "A long one") + 3
            moved = [line.rstrip(" ▇▆▅▄▃▂▁█▕") for line in before_text[top : top + 15]]
            assert [line.rstrip(" ▇▆▅▄▃▂▁█▕") for line in after_text[top + 1 : top + 16]] == moved
            before_text = after_text


async def test_folding_keeps_the_cursor_where_it_is_on_the_screen(store: Store, long: Session) -> None:
    async with Reader(store, long, at="claude:long#120").run_test(size=SIZE) as pilot:
        await until_at(pilot, 31, "prompt")
        await pilot.press("x")
        await until_at(pilot, 31, "call")
        row = row_of(pilot, "make step31")
        await pilot.press("enter")
        await until_shown(pilot, "command: make step31")
        assert row_of(pilot, "make step31") == row
        await pilot.resize_terminal(70, 30)
        await pilot.pause(0.1)
        assert row_of(pilot, "make step31") == row


async def test_a_conversation_that_grows_is_followed_by_who_is_at_its_end(store: Store, long: Session) -> None:
    app = Reader(store, long)
    async with app.run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        store.chains.append(long.key, [prompt("One more?", before()), a_text("Yes, one more.")])
        app.open(follow=True)
        await until_shown(pilot, "One more?", "Yes, one more.")
        await until_at(pilot, 61, "text")
        store.chains.append(long.key, [a_text("And another.")])
        app.open(follow=True)
        await until_shown(pilot, "And another.")


async def test_a_conversation_that_grows_does_not_move_who_reads_it(store: Store, long: Session) -> None:
    app = Reader(store, long, at="claude:long#120")
    async with app.run_test(size=SIZE) as pilot:
        await until_at(pilot, 31, "prompt")
        await until_shown(pilot, "Answer 31.")
        row = row_of(pilot, "Question 31?")
        store.chains.append(long.key, [prompt("One more?", before())])
        app.open(follow=True)
        await until(pilot, lambda: len(timeline(pilot).cards) == 62)
        await pilot.pause(0.1)
        assert row_of(pilot, "Question 31?") == row
        assert cursor(pilot) == (31, "prompt")


async def test_a_jump_that_is_under_way_arrives_though_the_conversation_grows(store: Store, long: Session) -> None:
    app = Reader(store, long)
    async with app.run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        app.held = True
        await pilot.press("home", "e", "i")
        await until(pilot, lambda: app.waiting)
        store.chains.append(long.key, [prompt("One more?", before())])
        app.open(follow=True)
        await until(pilot, lambda: len(timeline(pilot).cards) == 62)
        app.let_go()
        await until(pilot, lambda: messages(pilot, TimelinePane.Inspect))
        await until_at(pilot, 10, "call")


async def test_a_conversation_that_was_told_anew_and_is_shorter(store: Store, long: Session) -> None:
    async with Reader(store, long).run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        outline = Outlines(store).outline(long.key)
        pilot.app.query_one(TimelinePane).show(long, Outline(outline.turns[:20]), follow=True)
        await until_at(pilot, 19, "text")
        await until_shown(pilot, "Answer 19.")
        await pilot.press("home", "end")
        await until_at(pilot, 19, "text")


async def test_another_session_is_shown_anew_even_if_asked_to_follow(store: Store, long: Session) -> None:
    fill(store)
    app = Reader(store, long)
    async with app.run_test(size=SIZE) as pilot:
        await until_at(pilot, 60, "event")
        app.session = store.sessions.get("claude:e0741090")
        app.open(follow=True)
        await until_shown(pilot, "Fix the flaky upload test", "summary covers", "1 of 1", "• it now reopens it")


# ── whatever stands in it ─────────────────────────────────────────────────────────────────────────

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
    session = add(
        store,
        "hostile",
        before(),
        prompt(text, before(), HOSTILE),
        NewEntry(role="assistant", parts=parts, author=HOSTILE, created_at=before()),
        NewEntry(role="tool", parts=(ToolResult("1", text, is_error=True),), created_at=before()),
        NewEntry(kind="event", text=text, created_at=before()),
        NewEntry(kind="compaction", parts=(Text(text),), created_at=before()),
        source=HOSTILE,
        cwd=HOSTILE,
        agent_title=HOSTILE,
    )
    async with Reader(store, session).run_test(size=SIZE) as pilot:
        await until_at(pilot, 1, "compaction")
        view = timeline(pilot)
        for block in range(len(view.cards.blocks(1))):
            view.cards.turn_over(Spot(1, block), True)
        await pilot.press("home")
        seen = 0
        while cursor(pilot) != (1, "compaction"):
            await pilot.press("pagedown")
            for strip in pilot.app.screen._compositor.render_strips():
                assert not HARMFUL.search(strip.text)
                assert not any(
                    segment.style and (segment.style.link or segment.style.meta.get("@click")) for segment in strip
                )
                seen += "UFdORUQ" in strip.text
        assert seen > 10
