"""Tests what the browser shows of cost in a conversation and in the list of sessions."""

from __future__ import annotations

from typing import Any

from browser_driver import make_browser, screen_text, selected_id, wait_for_text, wait_until
from textual.pilot import Pilot

from store.model.entry import NewEntry, Text, ToolCall, ToolResult
from store.model.usage import Usage
from store.store import Store
from tui.render.statistics.explanation import describe_resending
from tui.screens.browser.screen import BrowserScreen

SIZE = (140, 45)
HEADING = "$1.78 API value, 293k tokens with sub-agents"


async def open_conversation(pilot: Pilot[Any]) -> None:
    await wait_for_text(pilot, "4 sessions", "Fix the test")
    await wait_until(pilot, lambda: selected_id(pilot) == "claude:alpha")
    await pilot.press("enter")
    await wait_for_text(pilot, HEADING, "And the docs")


async def test_the_heading_has_the_total_with_its_sub_agents(used_store: Store) -> None:
    async with make_browser(used_store).run_test(size=SIZE) as pilot:
        await open_conversation(pilot)


async def test_a_session_whose_model_has_no_price_is_said_to_be_unpriced(used_store: Store) -> None:
    async with make_browser(used_store).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "4 sessions")
        await pilot.press("slash", *"agent:codex", "enter", "enter")
        await wait_for_text(pilot, "51k tokens, unpriced")


async def test_the_gutter_shows_the_cost_of_each_turn_and_that_is_remembered(used_store: Store) -> None:
    async with make_browser(used_store).run_test(size=SIZE) as pilot:
        await open_conversation(pilot)
        await pilot.press("v", "v")
        await wait_for_text(pilot, "$1.44 █", "$0.29 ▂")
        await pilot.press("v")
        await wait_until(pilot, lambda: "$1.44 █" not in screen_text(pilot))
        await pilot.press("v", "v")
        await wait_for_text(pilot, "$1.44 █")
    async with make_browser(used_store).run_test(size=SIZE) as pilot:
        await open_conversation(pilot)
        await wait_for_text(pilot, "$1.44 █")


async def test_brackets_go_to_the_most_expensive_turns(used_store: Store) -> None:
    async with make_browser(used_store).run_test(size=SIZE, notifications=True) as pilot:
        await open_conversation(pilot)
        await pilot.press("right_square_bracket")
        await wait_for_text(pilot, "Turn 1: $1.44 (83%)", "▌ Fix the test")
        await pilot.press("right_square_bracket")
        await wait_for_text(pilot, "Turn 2: $0.29 (17%)", "▌ And the docs")
        await pilot.press("left_square_bracket")
        await wait_for_text(pilot, "▌ Fix the test")


async def test_a_turn_and_a_session_are_explained(used_store: Store) -> None:
    async with make_browser(used_store).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "4 sessions", HEADING)
        await pilot.press("equals_sign")
        await wait_for_text(pilot, "Fix the test: how its cost adds up", "Sub-agents", "Look around", "$1.732100")
        await wait_for_text(
            pilot, "Context window at each of 2 responses", "Largest in turn 2: 126k tokens, 63% of 200k."
        )
        await pilot.press("escape")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))
        await open_conversation(pilot)
        await pilot.press("home")
        await wait_until(pilot, lambda: pilot.app.screen._selected_turn == 1)  # type: ignore[attr-defined]
        await pilot.press("equals_sign")
        await wait_for_text(pilot, "Turn 1: how its cost adds up", "carried context", "1 response", "120k sent")
        await wait_for_text(pilot, "context 60%", "not reported: cache write 1 h")
        await wait_for_text(pilot, "re-sent about 1 time: ~124k", "Estimate", "$1.440000")


async def test_the_explanation_names_tool_results_that_were_sent_again(used_store: Store) -> None:
    key = used_store.sessions.get("claude:alpha").key
    usage = Usage(10, 170_000, output=5, model="big-1", provider="acme")
    answer = NewEntry(role="assistant", parts=(Text("ok"),), usage=usage)
    call = NewEntry(role="assistant", parts=(ToolCall("c9", "Read", {}),))
    result = NewEntry(role="tool", parts=(ToolResult("c9", "x" * 160_000),), is_prompt=False)
    used_store.chains.append(key, [call, result, *[answer] * 32])
    async with make_browser(used_store).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "4 sessions", "Fix the test")
        await pilot.press("equals_sign")
        await wait_for_text(pilot, "Re-sent tool results", "the ~40k tokens of Read's result were re-sent", "~1.2M")


async def test_sessions_are_ordered_by_cost_and_by_tokens(used_store: Store) -> None:
    async with make_browser(used_store).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "4 sessions", HEADING)
        for key, first in (("c", "claude:alpha"), ("m", "claude:alpha"), ("l", "claude:old")):
            await pilot.press("o")
            await wait_for_text(pilot, "highest API value first")
            await pilot.press(key)
            await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))
            await pilot.press("home")
            await wait_until(pilot, lambda first=first: selected_id(pilot) == first)  # type: ignore[misc]


def test_what_a_turn_caused_later_is_an_estimate(used_store: Store) -> None:
    session = used_store.sessions.get("claude:alpha")
    first, last = used_store.usage.of_session(session).turn_costs()
    assert describe_resending(first) == (
        "The ~124k tokens that this turn added were re-sent about 1 time: ~124k tokens"
    )
    assert last.resent_times == 0
