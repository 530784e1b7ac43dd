"""Tests what happens in the browser to sessions that are pinned, archived or moved to the trash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser_driver import (
    add_session,
    make_browser,
    prompt_entry,
    screen_text,
    selected_id,
    session_list,
    time_ago,
    wait_for_text,
    wait_until,
)
from textual.pilot import Pilot

from store.store import Store
from tui.app import Backscroll

UPLOAD, CONFIG, OLD = "claude:e0741090", "codex:0199aa", "library:old"
SIZE = (100, 40)


async def ready(pilot: Pilot[Any]) -> None:
    await wait_until(pilot, lambda: session_list(pilot).selected)


def line_of(pilot: Pilot[Any], text: str) -> int:
    return next(n for n, line in enumerate(screen_text(pilot).splitlines()) if text in line)


# ── pinned ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_pinned_session_moves_to_the_top_and_back(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=SIZE) as pilot:
        await ready(pilot)
        await wait_for_text(pilot, "Pinned  1", "Today  1")
        await pilot.press("end", "p")
        await wait_for_text(pilot, "Pinned  2", "★ [b]brackets")
        await wait_until(
            pilot, lambda: line_of(pilot, "Pinned") < line_of(pilot, "★ [b]brackets") < line_of(pilot, "Today")
        )
        await wait_until(pilot, lambda: "29 Sep" not in screen_text(pilot))  # its day has no heading any more
        await wait_until(pilot, lambda: selected_id(pilot) == OLD)
        await pilot.press("p")
        await wait_for_text(pilot, "Pinned  1", "Mon 29 Sep 2025")


async def test_the_pinned_group_stays_in_another_order_and_with_other_headings(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=SIZE) as pilot:
        await ready(pilot)
        await pilot.press("o", "i")
        await wait_until(pilot, lambda: session_list(pilot).listing.options.order == "title")
        await wait_for_text(pilot, "Pinned  1")
        await pilot.press("o", "x")
        await wait_for_text(pilot, "Pinned  1", "Others  4")
        assert line_of(pilot, "Fix the flaky") < line_of(pilot, "Others")


# ── archived ──────────────────────────────────────────────────────────────────────────────────────


async def test_an_archived_session_leaves_the_list_and_a_search_finds_it(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=SIZE, notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("down", "a")
        await wait_for_text(pilot, "5 sessions · 1 archived", "Archived “Rename the config keys")
        await wait_until(pilot, lambda: "  Rename the config" not in screen_text(pilot))
        await pilot.press("slash", *"rename")
        await wait_for_text(pilot, "1 found", "▫ archived")
        await pilot.press(*["backspace"] * 6, *"is:archived")
        await wait_for_text(pilot, "1 found", "Rename the config", "▫ archived")
        await pilot.press("enter", "a")
        await wait_for_text(pilot, "0 found")
        await pilot.press("escape")
        await wait_for_text(pilot, "6 sessions ·", "Rename the config")
    assert not filled_store.sessions.get(CONFIG).archived


async def test_selected_sessions_are_archived_together_and_no_longer_selected(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=SIZE) as pilot:
        await ready(pilot)
        await pilot.press("space", "space", "a")
        await wait_for_text(pilot, "4 sessions · 2 archived")
        assert not session_list(pilot).marked_keys
        await pilot.press("u")
        await wait_for_text(pilot, "6 sessions ·")


async def test_a_list_with_archived_sessions_only_says_so(store: Store) -> None:
    session = add_session(store, "only", time_ago(), prompt_entry("hello", time_ago()))
    store.sessions.archive([session])
    async with make_browser(store).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "1 session here is archived.", "is:archived", "0 sessions · 1 archived")
        await pilot.press("slash", *"is:archived")
        await wait_for_text(pilot, "1 found", "hello")
        await pilot.press("enter", "a")
        await wait_for_text(pilot, "No archived sessions.", "Esc to show all sessions")


async def test_the_picker_leaves_archived_sessions_out(filled_store: Store) -> None:
    filled_store.sessions.archive([filled_store.sessions.get(CONFIG)])
    async with Backscroll(filled_store, pick=True).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "5 sessions · 1 archived", "Pinned  1")
        assert "Rename the config" not in screen_text(pilot)


# ── the trash ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def trashed(filled_store: Store) -> Store:
    sessions = [filled_store.sessions.get(name) for name in (CONFIG, OLD)]
    filled_store.notes.add_note(sessions[0], "rename it back")
    filled_store.sessions.delete(sessions)
    return filled_store


async def show_trash(pilot: Pilot[Any]) -> None:
    await ready(pilot)
    await pilot.press("ctrl+p")
    await wait_for_text(pilot, "Search for commands")
    await pilot.press(*"show the trash")
    await wait_for_text(pilot, "List deleted sessions")
    await pilot.press("enter")
    await wait_for_text(pilot, "2 found", "in the trash", "Restore", "Delete")


async def test_the_palette_shows_the_trash_and_d_restores(trashed: Store) -> None:
    async with make_browser(trashed).run_test(size=SIZE, notifications=True) as pilot:
        await show_trash(pilot)
        assert selected_id(pilot) == CONFIG
        await pilot.press("d")
        await wait_for_text(pilot, "Restored “Rename the config keys", "1 found")
        assert not trashed.sessions.get(CONFIG).deleted
        await pilot.press("u")
        await wait_for_text(pilot, "2 found")
        await pilot.press("home", "space", "space", "d")
        await wait_for_text(pilot, "The trash is empty.")
        await pilot.press("escape")
        await wait_for_text(pilot, "6 sessions")


async def test_the_keys_of_the_trash_do_nothing_elsewhere(trashed: Store) -> None:
    async with make_browser(trashed).run_test(size=SIZE) as pilot:
        await ready(pilot)
        await pilot.press("delete")
        await pilot.pause()
        assert "for good" not in screen_text(pilot)
        assert "Restore" not in screen_text(pilot)
        await show_trash(pilot)
        await pilot.press("p", "a")
        await pilot.pause()
    assert not any((session.pinned, session.archived) != (0, 0) for session in trashed.sessions.trash())


async def test_delete_asks_first_and_says_what_is_lost(trashed: Store) -> None:
    async with make_browser(trashed).run_test(size=SIZE, notifications=True) as pilot:
        await show_trash(pilot)
        await pilot.press("delete")
        await wait_for_text(
            pilot,
            "Delete 1 session for good?",
            "“Rename the config keys",
            "1 turn and 1 note",
            "This cannot be undone.",
        )
        await pilot.press("n")
        await wait_for_text(pilot, "2 found")
        assert len(trashed.sessions.trash()) == 2
        await pilot.press("delete")
        await wait_for_text(pilot, "for good?")
        await pilot.press("y")
        await wait_for_text(pilot, "Deleted 1 session for good.", "1 found")
    assert [session.id for session in trashed.sessions.trash()] == [OLD]
    tombstones = trashed.rows("select source, native_id from tombstones")
    assert tombstones == [("codex", trashed.rows("select native_id from tombstones")[0][0])]


async def test_selected_sessions_are_deleted_together(trashed: Store) -> None:
    async with make_browser(trashed).run_test(size=SIZE, notifications=True) as pilot:
        await show_trash(pilot)
        await pilot.press("space", "space", "delete")
        await wait_for_text(pilot, "Delete 2 sessions for good?", "“Rename the config keys", "brackets")
        await pilot.press("y")
        await wait_for_text(pilot, "The trash is empty.")
    assert trashed.sessions.trash() == []
    assert len(trashed.sessions.newest()) == 4


async def test_the_notice_of_the_trash_says_how_to_see_it(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(140, 40), notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("d")
        await wait_for_text(
            pilot, "Moved “Fix the flaky upload test” to the trash.", "is:trashed shows it.", "5 sessions"
        )
        await pilot.press("space", "space", "d")
        await wait_for_text(pilot, "Moved 2 sessions to the trash. Press u to undo;", "shows them.")


# ── the selection ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("keys", "count"),
    [(["slash", *"morning", "enter"], "1 found"), (["slash", *"agent:kiso", "enter"], "1 found")],
    ids=["words", "filter"],
)
async def test_no_edit_applies_to_selected_sessions_that_a_search_hides(
    filled_store: Store, keys: list[str], count: str
) -> None:
    async with make_browser(filled_store).run_test(size=SIZE, notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("space", "space")
        await wait_for_text(pilot, "2 selected")
        await pilot.press(*keys)
        await wait_for_text(pilot, count, "Cleared the selection of 2 sessions.")
        seen = selected_id(pilot)
        await pilot.press("a")
        await wait_until(pilot, lambda: filled_store.sessions.get(seen).archived)
        assert "selected" not in screen_text(pilot)
    assert not any(filled_store.sessions.get(name).archived for name in (UPLOAD, CONFIG))


async def test_a_search_keeps_the_selected_sessions_that_it_finds(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=SIZE, notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("space", "space", "slash", *"rename", "enter")
        await wait_for_text(pilot, "1 found · 1 selected", "Cleared the selection of 1 session.")
        await pilot.press("a")
        await wait_until(pilot, lambda: filled_store.sessions.get(CONFIG).archived)
    assert not filled_store.sessions.get(UPLOAD).archived


async def test_a_selected_session_that_is_found_in_tool_output_stays_selected(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=SIZE, notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("space", "slash", *"ValueError", "enter")
        await wait_for_text(pilot, "1 found in tool output · 1 selected")
        assert "Cleared the selection" not in screen_text(pilot)


async def test_another_scope_drops_the_selected_sessions_that_it_hides(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=SIZE, notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("space", "space", "s")
        await wait_for_text(pilot, "0 sessions · in ", "Cleared the selection of 2 sessions.")
        await pilot.press("s")
        await wait_for_text(pilot, "6 sessions · everywhere")
        assert "◆" not in screen_text(pilot)


async def test_the_top_bar_counts_the_selected_sessions_and_esc_clears_the_selection_first(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("slash", *"is:pinned", "enter")
        await wait_for_text(pilot, "1 found · everywhere")
        assert "Clear selection" not in screen_text(pilot)
        await pilot.press("space")
        await wait_for_text(pilot, "1 found · 1 selected · everywhere", "esc Clear selection")
        await pilot.press("escape")
        await wait_for_text(pilot, "1 found · everywhere", "esc All sessions")
        assert not session_list(pilot).marked_keys
        await pilot.press("escape")
        await wait_for_text(pilot, "6 sessions · everywhere")


# ── the cursor ────────────────────────────────────────────────────────────────────────────────────


async def test_the_trash_is_counted(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=SIZE) as pilot:
        await ready(pilot)
        await pilot.press("down", "d")
        await wait_for_text(pilot, "5 sessions · 1 in the trash · everywhere")
        await pilot.press("u")
        await wait_for_text(pilot, "6 sessions · everywhere")


@pytest.mark.parametrize(("key", "filter_words"), [("a", "is:archived"), ("d", "is:trashed")])
async def test_a_session_that_comes_back_has_the_cursor(filled_store: Store, key: str, filter_words: str) -> None:
    async with make_browser(filled_store).run_test(size=SIZE) as pilot:
        await ready(pilot)
        await pilot.press("down")
        await wait_until(pilot, lambda: selected_id(pilot) == CONFIG)
        await pilot.press(key)
        await wait_for_text(pilot, "5 sessions")
        assert selected_id(pilot) != CONFIG
        await pilot.press("u")
        await wait_for_text(pilot, "6 sessions")
        await wait_until(pilot, lambda: selected_id(pilot) == CONFIG)
        await pilot.press(key)
        await wait_for_text(pilot, "5 sessions")
        await pilot.press("slash", *filter_words, "enter")
        await wait_for_text(pilot, "1 found")
        await wait_until(pilot, lambda: selected_id(pilot) == CONFIG)
        await pilot.press(key)
        await wait_for_text(pilot, "0 found")
        await pilot.press("escape")
        await wait_for_text(pilot, "6 sessions")
        await wait_until(pilot, lambda: selected_id(pilot) == CONFIG)


async def test_the_cursor_comes_back_from_another_scope(
    filled_store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    at = time_ago(hours=3)
    add_session(filled_store, "here", at, prompt_entry("Here", at), cwd=str(tmp_path))
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    async with make_browser(filled_store).run_test(size=SIZE) as pilot:
        await ready(pilot)
        await pilot.press("down")
        await wait_until(pilot, lambda: selected_id(pilot) == CONFIG)
        await pilot.press("s")
        await wait_until(pilot, lambda: selected_id(pilot) == "here")
        await pilot.press("s")
        await wait_for_text(pilot, "7 sessions")
        await wait_until(pilot, lambda: selected_id(pilot) == CONFIG)
