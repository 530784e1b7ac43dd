"""Tests the facts screen with conflicts, long and hostile texts, foreign facts, and facts from a conversation."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from browser_driver import fixed_clock, make_browser, wait_for_text
from facts_sample import UPLOAD_SESSION, add_sample_facts, dialog_text, first_fact, write_in_dialog
from kiso_database import LATEST_SCHEMA, KisoStore
from screen_driver import NARROW, WIDE, open_screen
from textual.events import Paste
from textual.widgets import Input
from write_back_roundtrip import WriteBackCase

from store.store import Store
from tui.dialogs.text import MultilineDialog, SingleLineDialog
from tui.dialogs.write_back import WriteBackDialog
from tui.screens.facts import FactsScreen, open_fact_dialog


@pytest.fixture
def world(store: Store) -> Store:
    return add_sample_facts(store)


# ── conflicts ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_conflict_shows_both_texts(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("e")
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, MultilineDialog))
        with Store.open(world.path) as other:
            other.facts.edit(first_fact(world).id, "Theirs.")
        await write_in_dialog(one, "Mine.")
        await one.wait_for_text("was changed elsewhere. Current value: Theirs.", "Mine.")
        assert first_fact(world).text == "Theirs."
        await one.press("ctrl+s")
        await one.wait_for_text("Edited the fact")
    assert first_fact(world).text == "Mine."


async def test_a_fact_that_was_retired_elsewhere_is_not_edited_and_the_text_stays(world: Store) -> None:
    number = first_fact(world).id
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("e")
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, MultilineDialog))
        with Store.open(world.path) as other:
            other.facts.retire(number)
        await write_in_dialog(one, "Mine.")
        await one.wait_for_text(f"Fact {number} is retired. Restore it first")
        assert dialog_text(one) == "Mine."
    assert world.facts.get(number).text == "The project uses FastAPI."


async def test_a_fact_that_was_changed_elsewhere_is_not_retired(world: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FactsScreen, "check_for_changes", lambda screen: None)
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        with Store.open(world.path) as other:
            other.facts.edit(first_fact(world).id, "Theirs.")
        await one.press("x")
        await one.wait_for_text("was changed elsewhere. Current value: Theirs.")
        await one.wait_for_text("fact 1 · global")
    assert first_fact(world).text == "Theirs."


async def test_merging_a_fact_that_was_changed_elsewhere_shows_the_conflict_first(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("space", "space", "m")
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, MultilineDialog))
        with Store.open(world.path) as other:
            other.facts.edit(first_fact(world).id, "Theirs.")
        await write_in_dialog(one, "Both.")
        await one.wait_for_text("Current value: Theirs.")
        await one.press("ctrl+s")
        await one.wait_for_text("Merged")
    assert first_fact(world).text == "Both."


async def test_a_fact_added_elsewhere_appears(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("3 of 200 lines")
        with Store.open(world.path) as other:
            other.facts.learn("From elsewhere.")
        await one.wait_for_text("4 of 200 lines", "From elsewhere.")


# ── bad input ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_fact_of_a_megabyte_is_refused_and_stays_in_the_field(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("e")
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, MultilineDialog))
        screen = one.pilot.app.screen
        assert isinstance(screen, MultilineDialog)
        screen.area.post_message(Paste("x" * 2**20))
        await one.wait_for_text("The text would be too long to be edited here.")
        await write_in_dialog(one, "x" * (2**20 + 1))  # as it comes back from an external editor
        await one.wait_for_text("A fact may have at most 1,000,000 characters. This one has more.")
        assert len(dialog_text(one)) > 2**20
        await write_in_dialog(one, "word " * 199_999)
        await one.wait_for_text("Edited the fact", "word word")


async def test_a_key_removes_control_characters(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("e", "f6")
        await write_in_dialog(one, "red \x1b[31m and \x00 nul")
        await one.wait_for_text("The text contains 2 control characters (␛ ␀). Press F6 to remove them.")
        assert dialog_text(one) == "red \x1b[31m and \x00 nul"
        await one.press("f6")
        await one.wait_until(lambda: dialog_text(one) == "red [31m and  nul")
        await one.press("ctrl+s")
        await one.wait_for_text("Edited the fact")
    assert first_fact(world).text == "red [31m and  nul"


async def test_control_characters_in_a_category_are_refused(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("c")
        await one.wait_until(lambda: isinstance(one.pilot.app.screen, SingleLineDialog))
        one.pilot.app.screen.query_one(Input).value = "a\x07b"
        await one.press("enter")
        await one.wait_for_text("The text contains 1 control character (␇)")
        await one.press("f6", "enter")
        await one.wait_for_text("Changed the category")
    assert first_fact(world).category == "ab"


async def test_hostile_facts_do_not_reach_the_screen(world: Store) -> None:
    hostile = "\x1b]52;c;aGk=\x07[@click=app.quit]x[/] \u202eabc " + "日本" * 90
    world.facts.learn(hostile, category="\x1b[2J", scope="app:\x9b31m")
    for size in (WIDE, NARROW):
        async with open_screen(world, FactsScreen(world, fixed_clock), size) as one:
            await one.wait_for_text("Sells tea.")
            await one.press("end")
            await one.wait_for_text("[@click=app.quit]x[/]")
            assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(one.text)


# ── facts of other programs ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def kiso(store: Store, tmp_path: Path) -> WriteBackCase:
    owner = KisoStore(tmp_path / "kiso.db", LATEST_SCHEMA)
    owner.add_session("dev", description="Deploys")
    owner.add_message("go", processed=0)
    owner.insert_row("facts", id=1, content="Uses Go", source="curator", session="dev")
    return WriteBackCase(store, owner.path, "dev")


def theirs(kiso: WriteBackCase) -> list[str]:
    with closing(sqlite3.connect(kiso.path)) as connection:
        return [text for (text,) in connection.execute("select content from facts")]


async def test_a_fact_of_another_program_names_it_and_is_written_back(kiso: WriteBackCase) -> None:
    async with open_screen(kiso.store, FactsScreen(kiso.store, fixed_clock)) as one:
        await one.wait_for_text("Uses Go", "Kiso: Deploys", "read from Kiso", "0 of 200 lines")
        await one.press("e")
        await write_in_dialog(one, "Uses Rust")
        await one.wait_for_text("Kiso, not written back", "Kiso still says “Uses Go”")
        await one.press("w")
        await one.wait_for_text("Write back", "facts to Kiso", "− Uses Go", "+ Uses Rust", str(kiso.path))
        assert theirs(kiso) == ["Uses Go"]
        await one.press("escape", "w")
        await one.wait_for_text("+ Uses Rust")
        await one.press("y")
        await one.wait_for_text("✓ Wrote", "1 row changed")
        await one.press("escape")
        await one.wait_for_text("Written back", "Kiso: Deploys")
        assert theirs(kiso) == ["Uses Rust"]
        await one.press("u")
        await one.wait_for_text("Undone: writing", "not written back")
        assert theirs(kiso) == ["Uses Go"]


async def test_a_fact_that_changed_in_its_agent_is_not_overwritten(kiso: WriteBackCase) -> None:
    kiso.store.facts.edit(kiso.fact_id("Uses Go"), "Uses Rust")
    async with open_screen(kiso.store, FactsScreen(kiso.store, fixed_clock)) as one:
        await one.wait_for_text("not written back")
        await one.press("w")
        await one.wait_for_text("+ Uses Rust")
        with closing(sqlite3.connect(kiso.path)) as owner:
            owner.execute("update facts set content = 'Uses Zig'")
            owner.commit()
        await one.press("y")
        await one.wait_for_text("was changed in the agent's store. Sync, then write back again.")
        await one.press("y")
        assert isinstance(one.pilot.app.screen, WriteBackDialog)
    assert theirs(kiso) == ["Uses Zig"]


async def test_a_fact_of_this_store_cannot_be_written_back(world: Store) -> None:
    async with open_screen(world, FactsScreen(world, fixed_clock)) as one:
        await one.wait_for_text("FastAPI")
        await one.press("w")
        assert one.pilot.app.screen is one.screen


# ── from the timeline ─────────────────────────────────────────────────────────────────────────────


async def test_a_text_of_the_timeline_becomes_a_fact_with_its_turn(world: Store) -> None:
    session = world.sessions.get(UPLOAD_SESSION)
    app = make_browser(world)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await wait_for_text(pilot, "6 sessions")
        open_fact_dialog(app.screen, world, session, 3, "\n\n  The retry closes\n  the file.  \n\nMore of it.")
        await wait_for_text(pilot, "Save as a fact", "The retry closes the file.")
        screen = app.screen
        assert isinstance(screen, MultilineDialog)
        assert screen.read_text() == "The retry closes the file."
        await pilot.press("ctrl+s")
        await wait_for_text(pilot, "Added the fact")
        open_fact_dialog(app.screen, world, session, 3, "The retry closes the file.")
        await wait_for_text(pilot, "Save as a fact", "The retry closes the file.")
        await pilot.press("ctrl+s")
        await wait_for_text(pilot, "This fact already exists.")
    fact = world.facts.current()[-1]
    assert (fact.text, fact.entry) == ("The retry closes the file.", f"{UPLOAD_SESSION}#3")


async def test_a_fact_of_a_purged_session_is_refused_and_the_text_stays(world: Store) -> None:
    session = world.sessions.get(UPLOAD_SESSION)
    app = make_browser(world)
    async with app.run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "6 sessions")
        open_fact_dialog(app.screen, world, session, 3, "The retry closes the file.")
        await wait_for_text(pilot, "Save as a fact", "The retry closes the file.")
        world.sessions.purge([session])
        await pilot.press("ctrl+s")
        await wait_for_text(pilot, "The retry closes the file.", "no longer in the store")
