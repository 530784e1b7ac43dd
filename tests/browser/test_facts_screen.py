"""Tests the facts screen: reading facts and their origin, editing them, and undo."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_driver import fixed_clock
from facts_sample import UPLOAD_SESSION, add_sample_facts, dialog_text, fact_texts, first_fact, write_in_dialog
from screen_driver import NARROW, WIDE, open_screen

from store.store import Store
from tui.dialogs.preview import PreviewDialog
from tui.dialogs.text import MultilineDialog, SingleLineDialog
from tui.screens.facts import FactsScreen
from tui.widgets.tables.fact_table import FactHistory, FactTable


@pytest.fixture
def world(store: Store) -> Store:
    return add_sample_facts(store)


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_facts_are_listed_with_their_origin_and_the_count_with_its_limit(
    world: Store, size: tuple[int, int]
) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock), size) as one:
        await one.wait_for_text("3 of 200 lines", "stack", ", turn 1", "by hand", "app shop")
        await one.wait_for_text("“The project uses Flask.” →", "learned from Fix the flaky upload test, turn 1")


async def test_more_lines_than_the_limit_show_a_warning(world: Store, home: Path) -> None:
    (home / ".config/backscroll").mkdir(parents=True)
    (home / ".config/backscroll/config.toml").write_text("[facts]\nmax_lines = 2\n")
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("3 of 2 lines", "C to consolidate")


async def test_an_invalid_limit_is_reported_once(world: Store, home: Path) -> None:
    (home / ".config/backscroll").mkdir(parents=True)
    (home / ".config/backscroll/config.toml").write_text("[facts]\nmax_lines = true\n")
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("3 of 200 lines", "max_lines", "whole")


async def test_a_filter_applies_while_typing_and_the_cursor_stays(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("Tabs are spaces.")
        await one.press("slash", *"TABS")
        await one.wait_for_text("all scopes: 1 of 4")
        assert "FastAPI" not in one.text
        await one.press("x")
        await one.wait_for_text("No facts match.")
        await one.press("backspace", "enter", "escape")
        await one.wait_for_text("FastAPI")
        assert one.screen.query_one(FactTable).has_focus
        assert not one.results
        await one.press("escape")
        await one.wait_until(lambda: one.results == [None])


async def test_scopes_are_cycled_global_first(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("all scopes", "Sells tea.")
        await one.press("s")
        await one.wait_for_text("Facts · 3 of 200 lines · global")
        assert "Sells tea." not in one.text
        await one.press("s")
        await one.wait_for_text("1 of 200 lines · app shop", "Sells tea.")
        assert "FastAPI" not in one.text
        await one.press("s")
        await one.wait_for_text("all scopes")


async def test_retired_facts_are_shown_on_request_and_can_be_restored(world: Store) -> None:
    world.facts.retire(first_fact(world).id)
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("2 of 200 lines")
        assert "FastAPI" not in one.text
        await one.press("R")
        await one.wait_for_text("with retired", "The project uses FastAPI.")
        await one.press("home", "e")
        assert one.pilot.app.screen is one.screen
        await one.press("x")
        await one.wait_for_text("3 of 200 lines", "Restored the fact")


async def test_the_screen_opens_at_a_fact(world: Store) -> None:
    (_, second, *_) = world.facts.current()
    async with open_screen(world, FactsScreen(world, fixed_clock, fact_id=second.id)) as one:
        await one.wait_for_text(f"fact {second.id} · global")


async def test_an_empty_list_shows_how_to_add_a_fact(store: Store) -> None:
    async with open_screen(store, FactsScreen(store, fixed_clock)) as one:
        await one.wait_for_text("No facts here yet.")
        await one.press("x", "m", "e", "c", "w", "g", "enter", "a")
        await write_in_dialog(one, "The first.")
        await one.wait_for_text("1 of 200 lines", "The first.")
        assert one.screen.query_one(FactTable).has_focus


# ── origins ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_key_opens_the_turn_of_a_fact(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("g to open")
        await one.press("g")
        await one.wait_until(lambda: one.results == [f"{UPLOAD_SESSION}#3"])


async def test_enter_in_the_history_opens_the_turn(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("g to open")
        await one.press("tab")
        assert one.screen.query_one(FactHistory).has_focus
        await one.press("enter")
        await one.wait_for_text("This fact has no session.")
        await one.press("end", "enter")
        await one.wait_until(lambda: one.results == [f"{UPLOAD_SESSION}#3"])


async def test_a_fact_without_a_session_shows_a_notice(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("down", "g")
        await one.wait_for_text("This fact has no session.")
        assert not one.results


# ── editing ───────────────────────────────────────────────────────────────────────────────────────


async def test_each_added_line_is_a_fact(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("a")
        await write_in_dialog(one, "One more.\nAnd another.")
        await one.wait_for_text("5 of 200 lines", "And another.", "Added to the facts", "▌  One more.")
        await one.press("a")
        await write_in_dialog(one, "One more.")
        await one.wait_for_text("This fact already exists.")
        await write_in_dialog(one, "  ")
        await one.wait_for_text("The text is empty")
        await one.press("escape", "u")
        await one.wait_for_text("3 of 200 lines", "Undone: new fact")


async def test_a_fact_is_added_in_the_scope_that_is_shown(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.press("s", "s")
        await one.wait_for_text("· app shop")
        await one.press("a")
        await one.wait_for_text("Scope: app shop.")
        await write_in_dialog(one, "Sells coffee.")
        await one.wait_for_text("2 of 200 lines · app shop", "Sells coffee.")
    assert world.facts.blob("app:shop") == "Sells tea.\nSells coffee."


@pytest.mark.parametrize("key", ["e", "enter"])
async def test_editing_a_fact(world: Store, key: str) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press(key)
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, MultilineDialog))
        assert dialog_text(one) == "The project uses FastAPI."
        await write_in_dialog(one, "The project uses\nLitestar.")
        await one.wait_for_text("The project uses Litestar.", "Edited the fact")
    assert first_fact(world).text == "The project uses Litestar."


async def test_leaving_the_dialog_changes_nothing(world: Store) -> None:
    before = fact_texts(world)
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        for key in ("a", "e", "c"):
            await one.press(key)
            await one.wait_until(lambda: one.pilot.app.screen is not one.screen)
            await one.press("escape")
            await one.wait_until(lambda: one.pilot.app.screen is one.screen)
    assert fact_texts(world) == before


async def test_unsaved_text_is_discarded_only_after_a_question(world: Store) -> None:
    before = fact_texts(world)
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("a")
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, MultilineDialog))
        await one.press("z", "escape")
        await one.wait_for_text("Unsaved changes", "Discard")
        await one.press("escape")
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, MultilineDialog))
        assert dialog_text(one) == "z"
        await one.press("escape")
        await one.wait_for_text("Unsaved changes")
        await one.press("d")
        await one.wait_until(lambda: one.pilot.app.screen is one.screen)
        assert fact_texts(world) == before
        await one.press("a")
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, MultilineDialog))
        await one.press("z", "escape")
        await one.wait_for_text("Unsaved changes")
        await one.press("s")
        await one.wait_for_text("Added to the facts")
    assert set(fact_texts(world)) == {*before, "z"}


async def test_selected_facts_are_retired_and_restored_by_one_undo(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("space", "space", "x")
        await one.wait_for_text("Retired 2 facts")
        await one.wait_for_text("1 of 200 lines")
        assert fact_texts(world) == ["Tabs are spaces.", "Sells tea."]
        await one.press("u")
        await one.wait_for_text("3 of 200 lines", "FastAPI")


async def test_selected_facts_get_a_category(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("down", "space", "space", "c")
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, SingleLineDialog))
        await one.press(*"habits", "enter")
        await one.wait_for_text("habits", "Changed the category")
    assert [fact.category for fact in world.facts.current()] == ["stack", "habits", "habits"]


async def test_selected_facts_are_merged(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("m")
        await one.wait_for_text("Select two or more facts with Space")
        await one.press("space", "space", "m")
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, MultilineDialog))
        assert dialog_text(one) == "The project uses FastAPI.\nTwo people work on it."
        await write_in_dialog(one, "Two people use FastAPI.")
        await one.wait_for_text("2 of 200 lines", "Two people use FastAPI.", "Merged")


async def test_facts_of_different_scopes_are_not_merged_and_the_text_stays(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("space", "end", "space", "m")
        await write_in_dialog(one, "Both.")
        await one.wait_for_text("Facts of different scopes cannot be merged")
        assert dialog_text(one) == "Both."


async def test_a_click_moves_the_cursor_and_a_double_click_edits(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("Tabs are spaces.")
        await one.pilot.click(FactTable, offset=(8, 2))
        await one.wait_for_text("fact 3 · global")
        await one.pilot.click(FactTable, offset=(8, 2), times=2)
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, MultilineDialog))
        assert dialog_text(one) == "Tabs are spaces."


# ── consolidating ─────────────────────────────────────────────────────────────────────────────────


async def test_consolidating_shows_the_difference_and_is_one_edit(world: Store) -> None:
    edits = len(world.journal.list_edits())
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("C")
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, MultilineDialog))
        assert dialog_text(one) == world.facts.blob()
        await write_in_dialog(one, "The project uses Litestar.\nTabs are spaces.")
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, PreviewDialog))
        await one.wait_for_text(
            "1 edited, 0 added, 1 retired", "− Two people work on it.", "+ The project uses Litestar."
        )
        assert len(world.journal.list_edits()) == edits
        await one.press("escape")
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, MultilineDialog))
        assert dialog_text(one) == "The project uses Litestar.\nTabs are spaces."
        await one.press("ctrl+s")
        await one.wait_for_text("1 edited")
        await one.press("y")
        await one.wait_for_text("2 of 200 lines", "Consolidated")
        assert len(world.journal.list_edits()) == edits + 1
        await one.press("u")
        await one.wait_for_text("3 of 200 lines")


async def test_consolidating_to_nothing_is_refused(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("C")
        await write_in_dialog(one, " \n")
        await one.wait_for_text("The text is empty")
        await write_in_dialog(one, world.facts.blob())
        await one.wait_for_text("Nothing changes.")
        await one.press("y")
        assert isinstance(one.pilot.app.screen, PreviewDialog)


async def test_facts_that_changed_while_they_were_consolidated_are_shown(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("C")
        await write_in_dialog(one, "The project uses Litestar.\nTabs are spaces.")
        await one.wait_for_text("1 edited")
        with Store.open(world.path) as other:
            other.facts.learn("From another window.")
        await one.press("y")
        await one.wait_for_text("changed elsewhere", "Changed elsewhere:", "+ From another window.", "2 retired")
        assert "From another window." in fact_texts(world)
        await one.press("y")
        await one.wait_until(lambda: one.pilot.app.screen is one.screen)
    assert world.facts.blob() == "The project uses Litestar.\nTabs are spaces."


async def test_an_error_is_visible_below_a_long_difference_on_a_small_screen(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock), NARROW) as one:
        await one.wait_for_text("FastAPI")
        await one.press("C")
        await write_in_dialog(one, "\n".join(f"Fact number {number}." for number in range(50)))
        await one.wait_for_text("47 added")
        with Store.open(world.path) as other:
            other.facts.learn("From another window.")
        await one.press("y")
        await one.wait_for_text("+ From another window.", "The preview is updated.")
