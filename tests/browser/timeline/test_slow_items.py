"""Tests items that take long to render: they are shown without styles until another process has rendered them."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from browser_driver import add_session, answer_entry, make_browser, prompt_entry, screen_text, time_ago, wait_until
from textual.pilot import Pilot

from store.store import Store
from tui.render.timeline_card import ItemRendering
from tui.render.timeline_items import build_items
from tui.render.viewport import Viewport
from tui.render_process import RenderProcess
from tui.screens.conversation import ConversationPane
from tui.widgets.timeline.card_layout import CardLayout, ItemPosition

SLOW = ("- **bold** `code` [name](https://example.org)\n" + "- a\n" * 20) * 70
"""Takes longer than one screen may take, and less than the other process may take."""

ENDLESS = "![" * 30_000


def open_card(store: Store, answer: str) -> CardLayout:
    from store.conversations.timeline import Timelines

    at = time_ago(minutes=5)
    session = add_session(store, "slow", at, prompt_entry("A question", at), answer_entry(answer, at))
    timelines = Timelines(store)
    outline = timelines.load_outline(session.key)
    cards = CardLayout(session, outline, width=80)
    for turn in timelines.load_turns(session.key, [turn.n for turn in outline.turns]):
        cards.add_turn(turn)
    return cards


def find_answer(cards: CardLayout) -> ItemPosition:
    turn = len(cards) - 1
    return next(ItemPosition(turn, n) for n, item in enumerate(cards.items(turn)) if item.kind == "text")


@pytest.fixture
def render_process():  # type: ignore[no-untyped-def]
    process = RenderProcess()
    yield process
    process.close()


def test_a_slow_item_is_shown_without_styles_until_its_lines_come(store: Store, render_process: RenderProcess) -> None:
    cards = open_card(store, SLOW)
    answer = find_answer(cards)
    assert any("**bold**" in line.plain for line in cards.lines(answer))
    [(position, rendering)] = cards.take_slow_items()
    assert position == answer
    assert not cards.take_slow_items()

    lines = render_process.render(rendering)
    assert lines is not None
    cards.receive_lines(position, rendering, lines)
    shown = cards.lines(answer)
    assert any("• bold code name (https://example.org)" in line.plain for line in shown)
    assert cards.height(answer) == len(shown)
    assert not cards.take_slow_items()


def test_a_fast_item_needs_no_process(store: Store) -> None:
    cards = open_card(store, "Some **bold** words.")
    assert any("Some bold words." in line.plain for line in cards.lines(find_answer(cards)))
    assert not cards.take_slow_items()


def test_lines_for_another_width_are_dropped(store: Store, render_process: RenderProcess) -> None:
    cards = open_card(store, SLOW)
    cards.lines(find_answer(cards))
    [(position, rendering)] = cards.take_slow_items()
    cards.resize(40)
    cards.lines(position)
    lines = render_process.render(rendering)
    assert lines is not None
    cards.receive_lines(position, rendering, lines)
    assert all(line.cell_length <= 40 for line in cards.lines(position))
    assert [rendering.viewport.width for _, rendering in cards.take_slow_items()] == [40]


def make_rendering(store: Store, answer: str) -> ItemRendering:
    cards = open_card(store, answer)
    item = cards.item(find_answer(cards))
    assert item is not None
    return ItemRendering(item, Viewport(80, is_full=True), True)


def test_an_item_that_takes_too_long_in_the_process_is_shown_in_full_without_styles(
    store: Store, render_process: RenderProcess
) -> None:
    rendering = make_rendering(store, ENDLESS)
    lines = render_process.render(rendering)
    assert lines is not None
    assert "".join(line.plain for line in lines) == ENDLESS


def test_a_process_that_was_killed_is_started_again(store: Store, render_process: RenderProcess) -> None:
    rendering = make_rendering(store, SLOW)
    assert render_process.render(rendering) is not None
    assert render_process.pid is not None
    os.kill(render_process.pid, signal.SIGKILL)
    assert render_process.render(rendering) is None
    assert render_process.render(rendering) is not None


def test_after_the_end_no_process_is_started(store: Store) -> None:
    process = RenderProcess()
    process.close()
    assert process.render(make_rendering(store, SLOW)) is None
    assert process.pid is None


def test_the_process_ends_with_its_stdin() -> None:
    process = RenderProcess._start()
    assert process is not None
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        assert process.wait(timeout=30) == 0
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    finally:
        process.stdout.close()


async def test_the_browser_shows_a_slow_text_with_styles_in_the_end(store: Store) -> None:
    at = time_ago(minutes=5)
    add_session(store, "slow", at, prompt_entry("A question", at), answer_entry(SLOW, at))
    app = make_browser(store)
    async with app.run_test(size=(140, 45)) as pilot:
        await wait_until(pilot, lambda: "• bold code name" in screen_text(pilot))
        process = _render_process_of(pilot)
        assert process.pid is not None
    assert process.pid is None


def _render_process_of(pilot: Pilot[object]) -> RenderProcess:
    return pilot.app.screen.query_one(ConversationPane).render_process


def test_all_kinds_of_items_can_be_sent_to_the_process(store: Store, render_process: RenderProcess) -> None:
    from store import demo
    from store.conversations.timeline import Timelines

    demo.fill_store(store)
    timelines = Timelines(store)
    kinds = set()
    for session in store.sessions.newest():
        outline = timelines.load_outline(session.key)
        for turn in timelines.load_turns(session.key, [turn.n for turn in outline.turns][:3]):
            for item in build_items(session.id, turn):
                if item.kind not in kinds | {"attachment"}:  # a picture has its own screen
                    kinds.add(item.kind)
                    rendering = ItemRendering(item, Viewport(80), True)
                    assert render_process.render(rendering) == rendering.render()
                    assert rendering.render_without_styles()
    assert {"prompt", "text", "thinking", "call"} <= kinds
