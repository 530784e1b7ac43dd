"""Tests sessions without turns: they get a title, and are folded under a heading of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_driver import (
    NOW,
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

from store.search.list_rows import EMPTY_GROUP, EMPTY_SESSIONS, SessionListOptions
from store.search.session_list import build_session_list
from store.store import Store
from tui.render.styles import session_title

PROMPTED = "codex:prompted"


@pytest.fixture
def archive(store: Store) -> Store:
    """Add three empty sessions around one with a prompt."""
    at = time_ago(hours=1)
    add_session(store, "codex:newest", time_ago(minutes=1), source="codex")
    add_session(store, PROMPTED, at, prompt_entry("Rename the keys", at), source="codex", cwd="/srv/app")
    add_session(store, "claude:older", time_ago(days=83), source="claude")
    add_session(store, "library:made", "no time", source="library")
    return store


def list_ids(store: Store, **options: object) -> list[str]:
    layout = build_session_list(store, SessionListOptions(**options), now=NOW)  # type: ignore[arg-type]
    return [store.sessions.by_key(key).id if key != EMPTY_GROUP else "(empty)" for key in layout.keys]


def test_an_empty_session_is_named_by_its_agent_and_its_day(archive: Store) -> None:
    assert session_title(archive.sessions.get("claude:older")) == "empty, Claude Code, 12 Aug"
    assert session_title(archive.sessions.get("library:made")) == "empty, library"
    assert session_title(archive.sessions.get(PROMPTED)) == "Rename the keys"


@pytest.mark.parametrize("group", ["day", "agent", "none"])
def test_empty_sessions_are_folded_under_a_heading_of_their_own(archive: Store, group: str) -> None:
    assert list_ids(archive, group=group) == [PROMPTED, "(empty)"]
    layout = build_session_list(archive, SessionListOptions(group=group), now=NOW)  # type: ignore[arg-type]
    assert layout.headings[-1] == (1, EMPTY_SESSIONS, 3)
    assert layout.total == 4
    assert set(list_ids(archive, group=group, unfolded=frozenset([EMPTY_GROUP]))[2:]) == {
        "codex:newest",
        "claude:older",
        "library:made",
    }


def test_the_first_rows_leave_them_out_and_a_search_finds_them(archive: Store) -> None:
    first = build_session_list(archive, SessionListOptions(), 10, NOW)
    assert [archive.sessions.by_key(key).id for key in first.keys] == [PROMPTED]
    assert set(list_ids(archive, query="agent:codex")) == {"codex:newest", PROMPTED}


def test_a_session_that_is_named_pinned_or_has_children_is_not_folded(archive: Store) -> None:
    at = time_ago(hours=3)
    add_session(archive, "claude:older:delegate:a", at, prompt_entry("Look around", at), source="claude")
    archive.sessions.pin([archive.sessions.get("codex:newest")])
    archive.sessions.set_title(archive.sessions.get("library:made"), "Kept")
    assert set(list_ids(archive)) == {"codex:newest", PROMPTED, "claude:older", "library:made"}


def test_sessions_are_not_folded_if_all_of_them_are_empty(store: Store) -> None:
    add_session(store, "codex:newest", time_ago(minutes=1), source="codex")
    assert list_ids(store) == ["codex:newest"]
    assert len(build_session_list(store, SessionListOptions(), 10, NOW).keys) == 1


def test_a_folder_limits_them_too(archive: Store, tmp_path: Path) -> None:
    assert list_ids(archive, folder="/srv/app") == [PROMPTED]


async def test_arrows_and_enter_unfold_the_empty_sessions(archive: Store) -> None:
    async with make_browser(archive).run_test(size=(150, 45)) as pilot:
        await wait_for_text(pilot, "Rename the keys", "Empty  3", "3 sessions without a turn", "▸ → shows them")
        assert "empty, Codex" not in screen_text(pilot)
        await pilot.press("end", "space", "r", "I")
        assert session_list(pilot).is_on_group
        assert not session_list(pilot).marked_keys
        await pilot.press("right")
        await wait_for_text(pilot, "empty, Codex, 3 Nov", "empty, Claude Code, 12 Aug", "▾ ← hides them")
        await pilot.press("right")
        await wait_until(pilot, lambda: selected_id(pilot) == "library:made")
        await wait_for_text(pilot, "No entry is selected.")
        await pilot.press("left", "enter")
        await wait_for_text(pilot, "▸ → shows them")
        assert "empty, Claude Code" not in screen_text(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "empty, Claude Code, 12 Aug")
