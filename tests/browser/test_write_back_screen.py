"""Tests the write-back dialog: the preview, conflicts, secrets and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser_driver import fill_store, make_browser, screen_text, wait_for_text
from foreign_databases import (
    PINGU_MEMORIES_SCHEMA,
    PINGU_SCHEMA,
    add_pingu_session,
    execute_sql,
    make_database,
    pingu_native_response,
)
from kiso_database import DOCUMENT_SCHEMA, KisoStore
from textual.pilot import Pilot
from write_back_roundtrip import WriteBackCase, apply_changes, dump_tables

from store.store import Store
from tui.app import Backscroll
from tui.dialogs.write_back import WriteBackDialog

ANSWER = pingu_native_response({"type": "message", "content": "hi"})
NARROW = (80, 24)


@pytest.fixture
def world(store: Store, tmp_path: Path) -> WriteBackCase:
    path = make_database(tmp_path / "pingu.db", PINGU_SCHEMA + PINGU_MEMORIES_SCHEMA, wal=True)
    add_pingu_session(
        path, "s", ("hello", ANSWER), title="Theirs", summary="Old words.\nKept words.", summary_up_to="1"
    )
    return WriteBackCase(store, path)


async def opened(pilot: Pilot[Any], store: Store, name: str = "s") -> None:
    await pilot.app.push_screen(WriteBackDialog.for_session(store, store.sessions.find(name)))


def app_of(store: Store) -> Backscroll:
    return make_browser(store)


@pytest.mark.parametrize("size", [(140, 45), NARROW])
async def test_the_previewed_changes_are_written(world: WriteBackCase, size: tuple[int, int]) -> None:
    world.set_title("Mine\x1b]0;x\x07 [b]").set_summary("New words.\nKept words.", 1)
    before, plan = dump_tables(world.path), world.preview().plan
    async with app_of(world.store).run_test(size=size) as pilot:
        await opened(pilot, world.store)
        await wait_for_text(pilot, "− Theirs", "+ Mine␛]0;x␇ [b]", "− Old words.", "+ New words.", "  Kept words.")
        assert dump_tables(world.path) == before
        await pilot.press("enter")
        await wait_for_text(pilot, "✓ Wrote")
        assert dump_tables(world.path) == apply_changes(before, plan.changes)
        assert "↵ Write back" not in screen_text(pilot)
        await pilot.press("enter", "escape")
    assert world.newest_edit() is not None
    world.store.journal.undo()
    assert dump_tables(world.path) == before


async def test_escape_writes_nothing(world: WriteBackCase) -> None:
    world.set_title()
    before = dump_tables(world.path)
    async with app_of(world.store).run_test() as pilot:
        await opened(pilot, world.store)
        await wait_for_text(pilot, "+ Mine")
        await pilot.press("escape")
        await wait_for_text(pilot, "backscroll")
        assert not isinstance(pilot.app.screen, WriteBackDialog)
    assert dump_tables(world.path) == before
    assert world.session.own_title == "Mine"


async def test_nothing_to_write_shows_a_message(world: WriteBackCase) -> None:
    async with app_of(world.store).run_test() as pilot:
        await opened(pilot, world.store)
        await wait_for_text(pilot, "There is nothing to write back")
        assert "↵ Write back" not in screen_text(pilot)


async def test_a_source_without_write_back_shows_a_message(store: Store) -> None:
    fill_store(store)
    async with app_of(store).run_test() as pilot:
        await opened(pilot, store, "library:old")
        await wait_for_text(pilot, "was not synced from an agent")
        assert "↵ Write back" not in screen_text(pilot)


async def test_a_change_in_the_agents_store_is_a_conflict(world: WriteBackCase) -> None:
    world.set_title()
    execute_sql(world.path, "update sessions set title = 'Theirs, newer'")
    async with app_of(world.store).run_test(size=(140, 45)) as pilot:
        await opened(pilot, world.store)
        await wait_for_text(pilot, "was changed in the agent's store", "Nothing can be written")
        await pilot.press("enter")
        assert dump_tables(world.path)["sessions"][0]["title"] == "Theirs, newer"


async def test_an_edit_after_the_preview_is_shown_before_it_is_written(world: WriteBackCase) -> None:
    world.set_title("First")
    before = dump_tables(world.path)
    async with app_of(world.store).run_test(size=(140, 45)) as pilot:
        await opened(pilot, world.store)
        await wait_for_text(pilot, "+ First")
        world.set_title("Second")
        await pilot.press("enter")
        await wait_for_text(pilot, "edited here since the preview", "+ Second")
        assert dump_tables(world.path) == before
        await pilot.press("enter")
        await wait_for_text(pilot, "✓ Wrote")
    assert dump_tables(world.path)["sessions"][0]["title"] == "Second"


async def test_an_edit_that_the_agent_cannot_store_is_named(store: Store, tmp_path: Path) -> None:
    owner = KisoStore(tmp_path / "kiso.db", DOCUMENT_SCHEMA)
    owner.add_session("dev")
    owner.add_message("hello")
    world = WriteBackCase(store, owner.path, "dev").set_title("No room for it").set_summary("Short.", 1)
    (sentence, *_) = world.preview().plan.unsupported
    async with app_of(store).run_test(size=(160, 45)) as pilot:
        await opened(pilot, store, "dev")
        await wait_for_text(pilot, f"! {sentence[:60]}", "+ Short.")


async def test_a_secret_is_masked_and_a_locked_vault_asks_for_the_passphrase(store: Store, tmp_path: Path) -> None:
    owner = KisoStore(tmp_path / "kiso.db", DOCUMENT_SCHEMA)
    owner.add_session("dev")
    owner.add_message("hello")
    owner.insert_row("secrets", session="dev", key="token", value="plain-old-value")
    world = WriteBackCase(store, owner.path, "dev")
    store.write_back.seal(world.session, "token")
    store.secrets.set(world.session, "token", "plain-new-value")
    store.secrets.use_passphrase("open sesame")
    store.secrets.drop_key()
    async with app_of(store).run_test(size=(140, 45)) as pilot:
        await opened(pilot, store, "dev")
        await wait_for_text(pilot, "Unlock the secrets")
        await pilot.press(*"open sesame", "enter")
        await wait_for_text(pilot, "− ••••", "+ ••••")
        assert "plain-" not in screen_text(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "✓ Wrote")
    assert dump_tables(owner.path)["secrets"][0]["value"] == "plain-new-value"


async def test_a_purged_session_shows_an_error(world: WriteBackCase) -> None:
    session = world.session
    world.store.sessions.purge([session])
    async with app_of(world.store).run_test() as pilot:
        await pilot.app.push_screen(WriteBackDialog.for_session(world.store, session))
        await wait_for_text(pilot, "no longer in the store")
