"""A person who corrects what their agents remember: reads it, sees where it came from, mends it, and takes it back."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_driver import clock
from facts_sample import UPLOAD, facts, first, with_facts, write, written
from screen_driver import NARROW, WIDE, shown

from store.store import Store
from tui.dialogs.preview import ShowingScreen
from tui.dialogs.text import AskScreen, WriteScreen
from tui.screens.facts import FactsScreen
from tui.widgets.tables.fact_table import FactHistory, FactsTable


@pytest.fixture
def world(store: Store) -> Store:
    return with_facts(store)


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_facts_stand_with_their_origin_and_the_count_beside_the_limit(
    world: Store, size: tuple[int, int]
) -> None:
    async with shown(world, FactsScreen(world, clock), size) as one:
        await one.shows("3 of 200 lines", "stack", ", turn 1", "by hand", "app shop")
        await one.shows("“The project uses Flask.” →", "learnt from Fix the flaky upload test, turn 1")


async def test_more_lines_than_the_limit_are_told(world: Store, home: Path) -> None:
    (home / ".config/backscroll").mkdir(parents=True)
    (home / ".config/backscroll/config.toml").write_text("[facts]\nmax_lines = 2\n")
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("3 of 2 lines", "C makes them fewer")


async def test_a_limit_that_is_none_is_told_once(world: Store, home: Path) -> None:
    (home / ".config/backscroll").mkdir(parents=True)
    (home / ".config/backscroll/config.toml").write_text("[facts]\nmax_lines = true\n")
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("3 of 200 lines", "max_lines", "whole")


async def test_a_filter_narrows_as_one_types_and_the_cursor_stays(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("Tabs are spaces.")
        await one.press("slash", *"TABS")
        await one.shows("every scope: 1 of 4")
        assert "FastAPI" not in one.text
        await one.press("x")
        await one.shows("No fact has these words.")
        await one.press("backspace", "enter", "escape")
        await one.shows("FastAPI")
        assert one.screen.query_one(FactsTable).has_focus
        assert not one.answers
        await one.press("escape")
        await one.until(lambda: one.answers == [None])


async def test_scopes_are_cycled_global_first(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("every scope", "Sells tea.")
        await one.press("s")
        await one.shows("Facts · 3 of 200 lines · global")
        assert "Sells tea." not in one.text
        await one.press("s")
        await one.shows("1 of 200 lines · app shop", "Sells tea.")
        assert "FastAPI" not in one.text
        await one.press("s")
        await one.shows("every scope")


async def test_retired_ones_are_shown_on_demand_and_brought_back(world: Store) -> None:
    world.facts.retire(first(world).id)
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("2 of 200 lines")
        assert "FastAPI" not in one.text
        await one.press("R")
        await one.shows("retired too", "The project uses FastAPI.")
        await one.press("home", "e")
        assert one.pilot.app.screen is one.screen
        await one.press("x")
        await one.shows("3 of 200 lines", "Brought back")


async def test_a_fact_may_be_opened_at(world: Store) -> None:
    (_, second, *_) = world.facts.current()
    async with shown(world, FactsScreen(world, clock, focus=second.id)) as one:
        await one.shows(f"fact {second.id} · global")


async def test_no_facts_say_how_to_make_one(store: Store) -> None:
    async with shown(store, FactsScreen(store, clock)) as one:
        await one.shows("No facts here yet.")
        await one.press("x", "m", "e", "c", "w", "g", "enter", "a")
        await write(one, "The first.")
        await one.shows("1 of 200 lines", "The first.")
        assert one.screen.query_one(FactsTable).has_focus


# ── where it came from ────────────────────────────────────────────────────────────────────────────


async def test_from_a_fact_to_the_very_turn(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("g goes there")
        await one.press("g")
        await one.until(lambda: one.answers == [f"{UPLOAD}#3"])


async def test_from_its_history_to_the_very_turn(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("g goes there")
        await one.press("tab")
        assert one.screen.query_one(FactHistory).has_focus
        await one.press("enter")
        await one.shows("No conversation taught this.")
        await one.press("end", "enter")
        await one.until(lambda: one.answers == [f"{UPLOAD}#3"])


async def test_a_fact_without_a_conversation_goes_nowhere(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("down", "g")
        await one.shows("No conversation taught this.")
        assert not one.answers


# ── correcting ────────────────────────────────────────────────────────────────────────────────────


async def test_adding_a_fact_a_line(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("a")
        await write(one, "One more.\nAnd another.")
        await one.shows("5 of 200 lines", "And another.", "Learnt")
        await one.press("a")
        await write(one, "One more.")
        await one.shows("That is known already.")
        await write(one, "  ")
        await one.shows("the text is empty")
        await one.press("escape", "u")
        await one.shows("3 of 200 lines", "Undone: fact learnt")


async def test_adding_in_the_scope_that_is_shown(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.press("s", "s")
        await one.shows("· app shop")
        await one.press("a")
        await one.shows("Who may know it: app shop.")
        await write(one, "Sells coffee.")
        await one.shows("2 of 200 lines · app shop", "Sells coffee.")
    assert world.facts.blob("app:shop") == "Sells tea.\nSells coffee."


@pytest.mark.parametrize("key", ["e", "enter"])
async def test_rewording_a_fact(world: Store, key: str) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press(key)
        await one.until(lambda: isinstance(one.pilot.app.screen, WriteScreen))
        assert written(one) == "The project uses FastAPI."
        await write(one, "The project uses\nLitestar.")
        await one.shows("The project uses Litestar.", "Reworded")
    assert first(world).text == "The project uses Litestar."


async def test_leaving_the_dialog_changes_nothing(world: Store) -> None:
    before = facts(world)
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        for key in ("a", "e", "c"):
            await one.press(key)
            await one.until(lambda: one.pilot.app.screen is not one.screen)
            await one.press("escape")
            await one.until(lambda: one.pilot.app.screen is one.screen)
    assert facts(world) == before


async def test_what_was_written_is_not_thrown_away_unasked(world: Store) -> None:
    before = facts(world)
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("a")
        await one.until(lambda: isinstance(one.pilot.app.screen, WriteScreen))
        await one.press("z", "escape")
        await one.shows("It is not saved", "Throw it away")
        await one.press("escape")
        await one.until(lambda: isinstance(one.pilot.app.screen, WriteScreen))
        assert written(one) == "z"
        await one.press("escape")
        await one.shows("It is not saved")
        await one.press("d")
        await one.until(lambda: one.pilot.app.screen is one.screen)
        assert facts(world) == before
        await one.press("a")
        await one.until(lambda: isinstance(one.pilot.app.screen, WriteScreen))
        await one.press("z", "escape")
        await one.shows("It is not saved")
        await one.press("s")
        await one.shows("Learnt")
    assert set(facts(world)) == {*before, "z"}


async def test_retiring_one_or_all_marked_and_undoing_the_lot(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("space", "space", "x")
        await one.shows("Retired 2 facts")
        await one.shows("1 of 200 lines")
        assert facts(world) == ["Tabs are spaces.", "Sells tea."]
        await one.press("u")
        await one.shows("3 of 200 lines", "FastAPI")


async def test_categorising_all_marked(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("down", "space", "space", "c")
        await one.until(lambda: isinstance(one.pilot.app.screen, AskScreen))
        await one.press(*"habits", "enter")
        await one.shows("habits", "Categorised")
    assert [fact.category for fact in world.facts.current()] == ["stack", "habits", "habits"]


async def test_merging_marked_facts(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("m")
        await one.shows("Space marks facts; m makes one of two or more.")
        await one.press("space", "space", "m")
        await one.until(lambda: isinstance(one.pilot.app.screen, WriteScreen))
        assert written(one) == "The project uses FastAPI.\nTwo people work on it."
        await write(one, "Two people use FastAPI.")
        await one.shows("2 of 200 lines", "Two people use FastAPI.", "Merged")


async def test_facts_of_different_scopes_are_not_merged_and_what_was_typed_stays(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("space", "end", "space", "m")
        await write(one, "Both.")
        await one.shows("Facts of different scopes cannot be merged")
        assert written(one) == "Both."


async def test_clicks_choose_and_edit(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("Tabs are spaces.")
        await one.pilot.click(FactsTable, offset=(8, 2))
        await one.shows("fact 3 · global")
        await one.pilot.click(FactsTable, offset=(8, 2), times=2)
        await one.until(lambda: isinstance(one.pilot.app.screen, WriteScreen))
        assert written(one) == "Tabs are spaces."


# ── consolidating ─────────────────────────────────────────────────────────────────────────────────


async def test_consolidating_shows_the_difference_and_is_one_edit(world: Store) -> None:
    edits = len(world.journal.newest())
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("C")
        await one.until(lambda: isinstance(one.pilot.app.screen, WriteScreen))
        assert written(one) == world.facts.blob()
        await write(one, "The project uses Litestar.\nTabs are spaces.")
        await one.until(lambda: isinstance(one.pilot.app.screen, ShowingScreen))
        await one.shows("1 reworded, 0 added, 1 retired", "− Two people work on it.", "+ The project uses Litestar.")
        assert len(world.journal.newest()) == edits
        await one.press("escape")
        await one.until(lambda: isinstance(one.pilot.app.screen, WriteScreen))
        assert written(one) == "The project uses Litestar.\nTabs are spaces."
        await one.press("ctrl+s")
        await one.shows("1 reworded")
        await one.press("y")
        await one.shows("2 of 200 lines", "Consolidated")
        assert len(world.journal.newest()) == edits + 1
        await one.press("u")
        await one.shows("3 of 200 lines")


async def test_consolidating_to_nothing_is_refused(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("C")
        await write(one, " \n")
        await one.shows("That would retire every fact")
        await write(one, world.facts.blob())
        await one.shows("Nothing changes.")
        await one.press("y")
        assert isinstance(one.pilot.app.screen, ShowingScreen)


async def test_facts_that_changed_while_they_were_consolidated_are_shown(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("C")
        await write(one, "The project uses Litestar.\nTabs are spaces.")
        await one.shows("1 reworded")
        with Store.open(world.path) as other:
            other.facts.learn("From another window.")
        await one.press("y")
        await one.shows("changed meanwhile", "What was changed meanwhile:", "+ From another window.", "2 retired")
        assert "From another window." in facts(world)
        await one.press("y")
        await one.until(lambda: one.pilot.app.screen is one.screen)
    assert world.facts.blob() == "The project uses Litestar.\nTabs are spaces."


async def test_why_not_is_seen_below_a_difference_that_fills_a_small_screen(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock), NARROW) as one:
        await one.shows("FastAPI")
        await one.press("C")
        await write(one, "\n".join(f"Fact number {number}." for number in range(50)))
        await one.shows("47 added")
        with Store.open(world.path) as other:
            other.facts.learn("From another window.")
        await one.press("y")
        await one.shows("+ From another window.", "This is what it would do now.")
