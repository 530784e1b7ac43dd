"""Writing back from the browser: what is shown is what is done, and what cannot be done is said in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser_driver import browser, fill, screen_text, until_shown
from foreign_databases import PINGU, PINGU_MEMORIES, make, pingu_native, pingu_session, write
from kiso_database import DOCUMENT, KisoStore
from textual.pilot import Pilot
from write_back_roundtrip import World, applied, dump

from store.store import Store
from tui.app import Backscroll
from tui.screens.write_back import WriteBackScreen

ANSWER = pingu_native({"type": "message", "content": "hi"})
NARROW = (80, 24)


@pytest.fixture
def world(store: Store, tmp_path: Path) -> World:
    path = make(tmp_path / "pingu.db", PINGU + PINGU_MEMORIES, wal=True)
    pingu_session(path, "s", ("hello", ANSWER), title="Theirs", summary="Old words.\nKept words.", summary_up_to="1")
    return World(store, path)


async def opened(pilot: Pilot[Any], store: Store, name: str = "s") -> None:
    await pilot.app.push_screen(WriteBackScreen(store, store.sessions.find(name)))


def app_of(store: Store) -> Backscroll:
    return browser(store)


@pytest.mark.parametrize("size", [(140, 45), NARROW])
async def test_what_is_shown_is_what_is_done(world: World, size: tuple[int, int]) -> None:
    world.titled("Mine\x1b]0;x\x07 [b]").summed_up("New words.\nKept words.", 1)
    before, plan = dump(world.path), world.preview().plan
    async with app_of(world.store).run_test(size=size) as pilot:
        await opened(pilot, world.store)
        await until_shown(pilot, "− Theirs", "+ Mine␛]0;x␇ [b]", "− Old words.", "+ New words.", "  Kept words.")
        assert dump(world.path) == before
        await pilot.press("enter")
        await until_shown(pilot, "✓ Wrote")
        assert dump(world.path) == applied(before, plan.changes)
        assert "Write it there" not in screen_text(pilot)
        await pilot.press("enter", "escape")
    assert world.newest_edit() is not None
    world.store.journal.undo()
    assert dump(world.path) == before


async def test_escape_keeps_it_here(world: World) -> None:
    world.titled()
    before = dump(world.path)
    async with app_of(world.store).run_test() as pilot:
        await opened(pilot, world.store)
        await until_shown(pilot, "+ Mine")
        await pilot.press("escape")
        await until_shown(pilot, "backscroll")
        assert not isinstance(pilot.app.screen, WriteBackScreen)
    assert dump(world.path) == before
    assert world.session.own_title == "Mine"


async def test_nothing_to_write_is_said(world: World) -> None:
    async with app_of(world.store).run_test() as pilot:
        await opened(pilot, world.store)
        await until_shown(pilot, "There is nothing to write back")
        assert "Write it there" not in screen_text(pilot)


async def test_a_source_that_takes_no_edits_says_so(store: Store) -> None:
    fill(store)
    async with app_of(store).run_test() as pilot:
        await opened(pilot, store, "library:old")
        await until_shown(pilot, "did not come from a foreign store")
        assert "Write it there" not in screen_text(pilot)


async def test_what_was_changed_there_is_a_conflict(world: World) -> None:
    world.titled()
    write(world.path, "update sessions set title = 'Theirs, newer'")
    async with app_of(world.store).run_test(size=(140, 45)) as pilot:
        await opened(pilot, world.store)
        await until_shown(pilot, "changed there since it was read", "Nothing can be written")
        await pilot.press("enter")
        assert dump(world.path)["sessions"][0]["title"] == "Theirs, newer"


async def test_what_was_changed_here_meanwhile_is_shown_before_it_is_done(world: World) -> None:
    world.titled("First")
    before = dump(world.path)
    async with app_of(world.store).run_test(size=(140, 45)) as pilot:
        await opened(pilot, world.store)
        await until_shown(pilot, "+ First")
        world.titled("Second")
        await pilot.press("enter")
        await until_shown(pilot, "edited here meanwhile", "+ Second")
        assert dump(world.path) == before
        await pilot.press("enter")
        await until_shown(pilot, "✓ Wrote")
    assert dump(world.path)["sessions"][0]["title"] == "Second"


async def test_what_has_no_place_there_is_said(store: Store, tmp_path: Path) -> None:
    owner = KisoStore(tmp_path / "kiso.db", DOCUMENT)
    owner.session("dev")
    owner.message("hello")
    world = World(store, owner.path, "dev").titled("No room for it").summed_up("Short.", 1)
    (sentence, *_) = world.preview().plan.unplaced
    async with app_of(store).run_test(size=(160, 45)) as pilot:
        await opened(pilot, store, "dev")
        await until_shown(pilot, f"! {sentence[:60]}", "+ Short.")


async def test_a_secret_is_dots_and_a_locked_vault_asks(store: Store, tmp_path: Path) -> None:
    owner = KisoStore(tmp_path / "kiso.db", DOCUMENT)
    owner.session("dev")
    owner.message("hello")
    owner.add("secrets", session="dev", key="token", value="plain-old-value")
    world = World(store, owner.path, "dev")
    store.writing_back.seal(world.session, "token")
    store.secrets.set(world.session, "token", "plain-new-value")
    store.secrets.use_passphrase("open sesame")
    store.secrets.forget()
    async with app_of(store).run_test(size=(140, 45)) as pilot:
        await opened(pilot, store, "dev")
        await until_shown(pilot, "Passphrase")
        await pilot.press(*"open sesame", "enter")
        await until_shown(pilot, "− ••••", "+ ••••")
        assert "plain-" not in screen_text(pilot)
        await pilot.press("enter")
        await until_shown(pilot, "✓ Wrote")
    assert dump(owner.path)["secrets"][0]["value"] == "plain-new-value"


async def test_a_session_purged_meanwhile(world: World) -> None:
    session = world.session
    world.store.sessions.purge([session])
    async with app_of(world.store).run_test() as pilot:
        await pilot.app.push_screen(WriteBackScreen(world.store, session))
        await until_shown(pilot, "not in the store any more")
