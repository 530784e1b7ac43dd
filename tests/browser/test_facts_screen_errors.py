"""Facts that others change meanwhile, that are too long, hostile, of another program or made of what was said."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from browser_driver import browser, clock, until_shown
from facts_sample import UPLOAD, first, with_facts, write, written
from kiso_database import HEAD, KisoStore
from screen_driver import NARROW, WIDE, shown
from textual.events import Paste
from textual.widgets import Input
from write_back_roundtrip import World

from store.store import Store
from tui.dialogs.preview import ShowingScreen
from tui.dialogs.text import AskScreen, WriteScreen
from tui.screens.facts import FactsScreen, make_fact


@pytest.fixture
def world(store: Store) -> Store:
    return with_facts(store)


# ── two windows ───────────────────────────────────────────────────────────────────────────────────


async def test_a_fact_that_another_window_changed_is_told_and_both_are_shown(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("e")
        await one.until(lambda: isinstance(one.pilot.app.screen, WriteScreen))
        with Store.open(world.path) as other:
            other.facts.edit(first(world).id, "Theirs.")
        await write(one, "Mine.")
        await one.shows("was changed meanwhile. It says now: Theirs.", "Mine.")
        assert first(world).text == "Theirs."
        await one.press("ctrl+s")
        await one.shows("Reworded")
    assert first(world).text == "Mine."


async def test_a_fact_that_another_window_retired_is_told_and_what_was_typed_stays(world: Store) -> None:
    number = first(world).id
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("e")
        await one.until(lambda: isinstance(one.pilot.app.screen, WriteScreen))
        with Store.open(world.path) as other:
            other.facts.retire(number)
        await write(one, "Mine.")
        await one.shows(f"Fact {number} is retired; undo that first")
        assert written(one) == "Mine."
    assert world.facts.get(number).text == "The project uses FastAPI."


async def test_what_was_changed_meanwhile_is_not_retired_unseen(world: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FactsScreen, "notice_changes", lambda screen: None)
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        with Store.open(world.path) as other:
            other.facts.edit(first(world).id, "Theirs.")
        await one.press("x")
        await one.shows("was changed meanwhile. It says now: Theirs.")
        await one.shows("fact 1 · global")
    assert first(world).text == "Theirs."


async def test_merging_what_another_window_changed_is_told_first(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("space", "space", "m")
        await one.until(lambda: isinstance(one.pilot.app.screen, WriteScreen))
        with Store.open(world.path) as other:
            other.facts.edit(first(world).id, "Theirs.")
        await write(one, "Both.")
        await one.shows("It says now: Theirs.")
        await one.press("ctrl+s")
        await one.shows("Merged")
    assert first(world).text == "Both."


async def test_what_another_window_learns_appears(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("3 of 200 lines")
        with Store.open(world.path) as other:
            other.facts.learn("From elsewhere.")
        await one.shows("4 of 200 lines", "From elsewhere.")


# ── bad input ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_fact_of_a_megabyte_is_told_too_long_and_kept_in_the_field(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("e")
        await one.until(lambda: isinstance(one.pilot.app.screen, WriteScreen))
        screen = one.pilot.app.screen
        assert isinstance(screen, WriteScreen)
        screen.area.post_message(Paste("x" * 2**20))
        await one.until(lambda: len(written(one)) > 2**20)
        await one.press("ctrl+s")
        await one.shows("A fact may have 1,000,000 characters, and this has more.")
        assert len(written(one)) > 2**20
        await write(one, "word " * 199_999)
        await one.shows("Reworded", "word word")


async def test_control_characters_are_told_and_taken_out_by_a_key(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("e", "f6")
        await write(one, "red \x1b[31m and \x00 nul")
        await one.shows("It holds 2 control characters (␛ ␀); F6 takes them out.")
        assert written(one) == "red \x1b[31m and \x00 nul"
        await one.press("f6")
        await one.until(lambda: written(one) == "red [31m and  nul")
        await one.press("ctrl+s")
        await one.shows("Reworded")
    assert first(world).text == "red [31m and  nul"


async def test_a_category_with_control_characters_is_told_too(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("c")
        await one.until(lambda: isinstance(one.pilot.app.screen, AskScreen))
        one.pilot.app.screen.query_one(Input).value = "a\x07b"
        await one.press("enter")
        await one.shows("It holds 1 control character (␇)")
        await one.press("f6", "enter")
        await one.shows("Categorised")
    assert first(world).category == "ab"


async def test_hostile_facts_reach_no_cell(world: Store) -> None:
    hostile = "\x1b]52;c;aGk=\x07[@click=app.quit]x[/] \u202eabc " + "日本" * 90
    world.facts.learn(hostile, category="\x1b[2J", scope="app:\x9b31m")
    for size in (WIDE, NARROW):
        async with shown(world, FactsScreen(world, clock), size) as one:
            await one.shows("Sells tea.")
            await one.press("end")
            await one.shows("[@click=app.quit]x[/]")
            assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(one.text)


# ── of other programs ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def kiso(store: Store, tmp_path: Path) -> World:
    owner = KisoStore(tmp_path / "kiso.db", HEAD)
    owner.session("dev", description="Deploys")
    owner.message("go", processed=0)
    owner.add("facts", id=1, content="Uses Go", source="curator", session="dev")
    return World(store, owner.path, "dev")


def theirs(kiso: World) -> list[str]:
    with closing(sqlite3.connect(kiso.path)) as connection:
        return [text for (text,) in connection.execute("select content from facts")]


async def test_a_fact_of_another_program_says_so_and_is_written_back(kiso: World) -> None:
    async with shown(kiso.store, FactsScreen(kiso.store, clock)) as one:
        await one.shows("Uses Go", "Kiso: Deploys", "read from Kiso", "0 of 200 lines")
        await one.press("e")
        await write(one, "Uses Rust")
        await one.shows("Kiso, not written back", "Kiso still says “Uses Go”")
        await one.press("w")
        await one.shows("Write facts back to Kiso", "− Uses Go", "+ Uses Rust", str(kiso.path))
        assert theirs(kiso) == ["Uses Go"]
        await one.press("escape", "w")
        await one.shows("+ Uses Rust")
        await one.press("y")
        await one.shows("Written back", "Kiso: Deploys")
        assert theirs(kiso) == ["Uses Rust"]
        await one.press("u")
        await one.shows("Undone: written back", "not written back")
        assert theirs(kiso) == ["Uses Go"]


async def test_a_fact_that_changed_there_is_not_written_over(kiso: World) -> None:
    kiso.store.facts.edit(kiso.fact("Uses Go"), "Uses Rust")
    async with shown(kiso.store, FactsScreen(kiso.store, clock)) as one:
        await one.shows("not written back")
        await one.press("w")
        await one.shows("+ Uses Rust")
        with closing(sqlite3.connect(kiso.path)) as owner:
            owner.execute("update facts set content = 'Uses Zig'")
            owner.commit()
        await one.press("y")
        await one.shows("changed there since it was read; sync first.")
        await one.press("y")
        assert isinstance(one.pilot.app.screen, ShowingScreen)
    assert theirs(kiso) == ["Uses Zig"]


async def test_a_fact_of_our_own_has_nowhere_to_be_written_back_to(world: Store) -> None:
    async with shown(world, FactsScreen(world, clock)) as one:
        await one.shows("FastAPI")
        await one.press("w")
        assert one.pilot.app.screen is one.screen


# ── from the timeline ─────────────────────────────────────────────────────────────────────────────


async def test_a_text_of_the_timeline_becomes_a_fact_that_knows_its_turn(world: Store) -> None:
    session = world.sessions.get(UPLOAD)
    app = browser(world)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await until_shown(pilot, "6 sessions")
        make_fact(app.screen, world, session, 3, "\n\n  The retry closes\n  the file.  \n\nMore of it.")
        await until_shown(pilot, "Make this a fact", "The retry closes the file.")
        screen = app.screen
        assert isinstance(screen, WriteScreen)
        assert screen.typed() == "The retry closes the file."
        await pilot.press("ctrl+s")
        await until_shown(pilot, "Learnt")
        make_fact(app.screen, world, session, 3, "The retry closes the file.")
        await until_shown(pilot, "Make this a fact", "The retry closes the file.")
        await pilot.press("ctrl+s")
        await until_shown(pilot, "That is known already.")
    fact = world.facts.current()[-1]
    assert (fact.text, fact.entry) == ("The retry closes the file.", f"{UPLOAD}#3")


async def test_a_fact_of_a_conversation_that_was_purged_meanwhile_is_refused_and_kept(world: Store) -> None:
    session = world.sessions.get(UPLOAD)
    app = browser(world)
    async with app.run_test(size=WIDE) as pilot:
        await until_shown(pilot, "6 sessions")
        make_fact(app.screen, world, session, 3, "The retry closes the file.")
        await until_shown(pilot, "Make this a fact", "The retry closes the file.")
        world.sessions.purge([session])
        await pilot.press("ctrl+s")
        await until_shown(pilot, "The retry closes the file.", "not in the store any more")
