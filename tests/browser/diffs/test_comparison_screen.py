"""Tests the screen that compares two things, and the keys that choose them."""

from __future__ import annotations

from typing import Any

import pytest
from browser_driver import add_session, answer_entry, make_browser, prompt_entry, screen_text, time_ago, wait_for_text
from edited_session import call_entries
from fake_clipboard import FakeClipboard
from textual.pilot import Pilot

from store.conversations.fork import fork_session
from store.store import Store
from tui.screens.comparison import ComparisonScreen

from browser_driver import wait_until  # isort: skip

WIDE, NARROW = (140, 45), (80, 24)
SELECT_BOTH = ("end", "space", "home", "space")
"""Selects the red car, then the blue one."""


@pytest.fixture
def world(store: Store) -> Store:
    """A store with two sessions: the same first turn, another second one, and a fork of the first session."""
    for name, colour, minutes in (("red", "red", 30), ("blue", "blue", 10)):
        at = time_ago(minutes=minutes)
        add_session(
            store,
            f"claude:{name}",
            at,
            prompt_entry("Hello", at),
            answer_entry("Hi.", at),
            prompt_entry("Which colour is the car?", at),
            *call_entries(1, "Bash", {"command": f"grep {colour} cars.txt"}),
            answer_entry(f"The car is {colour}.", at),
            source="claude",
            agent_title=f"The {name} car",
        )
    return store


async def open_session(pilot: Pilot[Any], title: str) -> None:
    await wait_for_text(pilot, title)
    await pilot.press("enter")
    await wait_for_text(pilot, "The car is")


async def wait_for_comparison(pilot: Pilot[Any], *texts: str) -> ComparisonScreen:
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, ComparisonScreen))
    await wait_for_text(pilot, *texts)
    screen = pilot.app.screen
    assert isinstance(screen, ComparisonScreen)
    return screen


# ── two sessions ──────────────────────────────────────────────────────────────────────────────────


async def test_two_selected_sessions_are_compared_side_by_side(world: Store) -> None:
    async with make_browser(world).run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "The blue car", "The red car")
        await pilot.press(*SELECT_BOTH, "D")
        await wait_for_comparison(
            pilot,
            "− The red car",
            "+ The blue car",
            "1 changed",
            "▸ 1 shared turn",
            "│turn 2",
            "− The car is red.",
        )
        row = next(line for line in screen_text(pilot).splitlines() if "The car is red." in line)
        assert "+ The car is blue." in row


async def test_the_sides_are_in_the_order_of_the_selection_and_can_be_swapped(world: Store) -> None:
    async with make_browser(world).run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "The blue car", "The red car")
        await pilot.press("home", "space", "end", "space", "D")
        await wait_for_comparison(pilot, "− The blue car · Claude Code · 2026-11-03", "+ The red car · Claude Code")
        await wait_for_text(pilot, "− The car is blue.", "s Swap sides")
        await pilot.press("s")
        await wait_for_comparison(pilot, "− The red car · Claude Code · 2026-11-03", "+ The blue car · Claude Code")
        await wait_for_text(pilot, "− The car is red.")


async def test_a_narrow_terminal_shows_a_unified_diff_and_a_key_switches(world: Store) -> None:
    async with make_browser(world).run_test(size=NARROW) as pilot:
        await wait_for_text(pilot, "The blue car", "The red car")
        await pilot.press(*SELECT_BOTH, "D")
        await wait_for_comparison(pilot, "− The car is red.", "+ The car is blue.")
        rows = [line for line in screen_text(pilot).splitlines() if "The car is" in line]
        assert len(rows) == 2
        await pilot.press("v")
        await wait_until(
            pilot, lambda: any("red." in line and "blue." in line for line in screen_text(pilot).splitlines())
        )


@pytest.mark.parametrize(
    ("size", "labels"), [(WIDE, ["Unified", "Side by side"]), (NARROW, ["Side by side", "Unified"])]
)
async def test_the_key_that_switches_is_named_by_what_it_will_show(
    world: Store, size: tuple[int, int], labels: list[str]
) -> None:
    async with make_browser(world).run_test(size=size) as pilot:
        await wait_for_text(pilot, "The blue car", "The red car")
        await pilot.press(*SELECT_BOTH, "D")
        for label in [*labels, labels[0]]:
            await wait_for_comparison(pilot, f"v {label}", "− The red car", "+ The blue car")
            await pilot.press("v")


async def test_other_numbers_of_selected_sessions_explain_the_key(world: Store) -> None:
    async with make_browser(world).run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "The blue car", "The red car")
        for keys in (["D"], ["space", "D"]):
            await pilot.press(*keys)
            await wait_until(pilot, lambda: pilot.app._notifications)
            assert [note.message for note in pilot.app._notifications][-1].startswith("Select two sessions")
            assert not isinstance(pilot.app.screen, ComparisonScreen)


@pytest.mark.parametrize("keys", [["D"], ["enter", "D"]], ids=["list", "conversation"])
async def test_a_fork_offers_its_parent(world: Store, keys: list[str]) -> None:
    fork = fork_session(world, world.sessions.get("claude:red"), 1, session_id="fork")
    world.sessions.set_title(fork, "The forked car")
    async with make_browser(world).run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "The blue car", "The red car")
        await pilot.press("slash", *"is:fork", "enter")
        await wait_for_text(pilot, "1 found", "The forked car", "Hi.")
        await pilot.press(*keys)
        await wait_for_text(pilot, "Compare with its parent")
        await pilot.press("y")
        await wait_for_comparison(pilot, "− The red car", "+ The forked car", "1 shared turn", "only in the first")


# ── two items ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_marked_call_is_compared_with_another_one(world: Store, clipboard: FakeClipboard) -> None:
    async with make_browser(world).run_test(size=WIDE) as pilot:
        await open_session(pilot, "The blue car")
        await pilot.press("x", "M")
        await wait_for_text(pilot, "▌◆⚙ Bash")
        await pilot.press("escape", "down", "enter")
        await wait_for_text(pilot, "The car is red.")
        assert "◆⚙" not in screen_text(pilot)
        await pilot.press("x", "D")
        screen = await wait_for_comparison(pilot, "grep blue cars.txt", "+ grep red cars.txt", "call: the same")
        assert screen.pane.diff_view.section == 1
        await pilot.press("y")
        await wait_until(pilot, lambda: "@@ -1 +1 @@ arguments\n-grep blue cars.txt\n+grep red" in clipboard.text)


async def test_two_turns_are_compared_and_enter_goes_to_the_second(world: Store) -> None:
    async with make_browser(world).run_test(size=WIDE) as pilot:
        await open_session(pilot, "The blue car")
        await pilot.press("home", "M")
        await wait_for_text(pilot, "▌◆")
        await pilot.press("J", "D")
        await wait_for_comparison(pilot, "− turn 1 of The blue car", "+ turn 2 of The blue car", "+ Which colour")
        await pilot.press("enter")
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, ComparisonScreen))
        await wait_for_text(pilot, "▌ Which colour is the car?")


async def test_without_a_mark_or_on_the_mark_itself_the_key_explains_itself(world: Store) -> None:
    async with make_browser(world).run_test(size=WIDE) as pilot:
        await open_session(pilot, "The blue car")
        for keys, text in (
            (["D"], "Nothing is marked."),
            (["M", "D"], "This item is the marked one."),
            (["M", "D"], "Noth"),
        ):
            await pilot.press(*keys)
            await wait_until(
                pilot, lambda text=text: any(note.message.startswith(text) for note in pilot.app._notifications)
            )
            pilot.app.clear_notifications()


# ── versions ──────────────────────────────────────────────────────────────────────────────────────


async def test_an_edit_of_the_journal_is_compared(world: Store) -> None:
    world.sessions.set_title(world.sessions.get("claude:red"), "The crimson car")
    async with make_browser(world).run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "The crimson car")
        await pilot.press("U")
        await wait_for_text(pilot, "title changed")
        await pilot.press("D")
        await wait_for_comparison(pilot, "− before edit 1", "+ after edit 1", "+ The crimson car")
        await pilot.press("q")
        await wait_for_text(pilot, "title changed")


async def test_two_versions_of_a_summary_are_compared(world: Store) -> None:
    session = world.sessions.get("claude:blue")
    world.summaries.set(session, "It was about a red car.")
    world.summaries.set(session, "It was about a blue car.")
    async with make_browser(world).run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "The blue car")
        await pilot.press("S")
        await wait_for_text(pilot, "It was about a blue car.")
        await wait_until(pilot, lambda: pilot.app.screen.versions.line_count == 2)  # type: ignore[attr-defined]
        pilot.app.screen.versions.focus()  # type: ignore[attr-defined]
        await pilot.press("down")
        await wait_for_text(pilot, "Restoring this version")
        await pilot.press("D")
        await wait_for_comparison(pilot, "− It was about a red car.", "+ It was about a blue car.")


async def test_two_versions_of_a_fact_and_two_facts_are_compared(world: Store) -> None:
    (fact,) = world.facts.learn("The car is red.").facts
    world.facts.edit(fact.id, "The car is blue.")
    world.facts.learn("The bike is green.")
    async with make_browser(world).run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "The blue car")
        await pilot.press("f")
        await wait_for_text(pilot, "The bike is green.")
        await pilot.press("D")
        await wait_for_comparison(pilot, "− The car is red.", "+ The car is blue.")
        await pilot.press("q")
        await wait_for_text(pilot, "The bike is green.")
        await pilot.press(*SELECT_BOTH, "D")
        await wait_for_comparison(pilot, "− The car is blue.", "+ The bike is green.")


# ── the screen ────────────────────────────────────────────────────────────────────────────────────


async def test_keys_step_through_the_differences(store: Store) -> None:
    for name in ("a", "b"):
        at = time_ago(minutes=9)
        turns = [
            entry for n in range(9) for entry in (prompt_entry(f"Prompt {n}", at), answer_entry(f"{name} {n % 3}", at))
        ]
        add_session(store, name, at, *turns, agent_title=f"Session {name}")
    async with make_browser(store).run_test(size=NARROW) as pilot:
        await wait_for_text(pilot, "Session a", "Session b")
        await pilot.press(*SELECT_BOTH, "D")
        screen = await wait_for_comparison(pilot, "9 changed", "│turn 1")
        await pilot.press("n", "n")
        await wait_for_text(pilot, "│turn 3")
        await pilot.press("N")
        await wait_for_text(pilot, "│turn 2")
        for _ in range(9):
            await pilot.press("n")
        assert screen.pane.diff_view.section == 8
        await wait_for_text(pilot, "│turn 9")


async def test_equal_things_say_so(world: Store) -> None:
    async with make_browser(world).run_test(size=NARROW) as pilot:
        await open_session(pilot, "The blue car")
        await pilot.app.push_screen(ComparisonScreen(world, "claude:red#t1", "claude:blue#t1"))
        await wait_for_comparison(pilot, "Both are equal.", "turn: the same on both sides")
        await pilot.press("n", "y", "v", "q")
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, ComparisonScreen))


async def test_what_cannot_be_read_is_reported(world: Store) -> None:
    async with make_browser(world).run_test(size=NARROW) as pilot:
        await open_session(pilot, "The blue car")
        await pilot.app.push_screen(ComparisonScreen(world, "claude:red#t1", "gone"))
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, ComparisonScreen))
        await wait_until(pilot, lambda: any("No such session" in note.message for note in pilot.app._notifications))


async def test_hostile_text_is_shown_harmless(store: Store) -> None:
    evil = "\x1b[2J\x9b1m\u202e\x07[bold]x[/]"
    for name in ("a", "b"):
        at = time_ago(minutes=9)
        add_session(store, name, at, prompt_entry(f"{evil} {name}", at), agent_title=f"{evil} {name}")
    async with make_browser(store).run_test(size=NARROW) as pilot:
        await wait_for_text(pilot, "2 sessions")
        await pilot.app.push_screen(ComparisonScreen(store, "a#t1", "b#t1"))
        await wait_for_comparison(pilot, "1 changed", "[bold]x[/] a")
        assert not set(screen_text(pilot)) & set("\x1b\x9b\u202e\x07")
