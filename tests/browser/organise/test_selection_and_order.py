"""Tests that the list follows what is opened elsewhere, and that its order and headings are remembered."""

from __future__ import annotations

from typing import Any

import pytest
from browser_driver import add_session, make_browser, selected_id, session_list, time_ago, wait_for_text, wait_until
from textual.pilot import Pilot

from store.paths import replace_private_file, state_file
from store.search.list_rows import SessionListOptions
from store.store import Store
from tui.app import Backscroll
from tui.screens.browser.screen import BrowserScreen
from tui.screens.conversation import ConversationPane

UPLOAD, CONFIG, OLD = "claude:e0741090", "codex:0199aa", "library:old"
SUB_AGENT = "telegram:648079060:delegate:sysinfo"
SIZE = (150, 40)


async def open_origin(pilot: Pilot[Any]) -> None:
    """Open the origin of the only fact."""
    await wait_until(pilot, lambda: session_list(pilot).selected)
    await pilot.press("f")
    await wait_for_text(pilot, "The origin is known.")
    await pilot.press("g")


def learn_in(store: Store, session_id: str) -> None:
    store.facts.learn("The origin is known.", session=store.sessions.get(session_id), entry_seq=0)


def read_session(pilot: Pilot[Any]) -> str:
    session = pilot.app.screen.query_one(ConversationPane).session
    return session.id if session else ""


async def is_read(pilot: Pilot[Any], session_id: str) -> None:
    """Wait until a session is read, and longer than the list waits before it opens the session under its cursor."""
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen) and read_session(pilot) == session_id)
    screen = pilot.app.screen
    assert isinstance(screen, BrowserScreen)
    await wait_until(pilot, lambda: not screen.is_opening)
    await pilot.pause()
    assert read_session(pilot) == session_id


@pytest.mark.parametrize("name", [CONFIG, OLD, SUB_AGENT])
async def test_the_cursor_of_the_list_moves_to_the_origin_of_a_fact(filled_store: Store, name: str) -> None:
    learn_in(filled_store, name)
    async with make_browser(filled_store).run_test(size=SIZE) as pilot:
        await open_origin(pilot)
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen) and selected_id(pilot) == name)
        await is_read(pilot, name)


async def test_the_cursor_moves_to_an_empty_session_that_was_folded(filled_store: Store) -> None:
    add_session(filled_store, "hollow", time_ago(days=1))
    learn = filled_store.facts.learn
    learn("The origin is known.", session=filled_store.sessions.get("hollow"))
    async with make_browser(filled_store).run_test(size=SIZE) as pilot:
        await open_origin(pilot)
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen) and selected_id(pilot) == "hollow")


@pytest.mark.parametrize(
    ("keys", "change", "reason"),
    [
        (["slash", *"rename", "enter"], None, "The search hides this session in the list."),
        ([], "archive", "The list hides this session: it is archived."),
        ([], "delete", "The list hides this session: it is in the trash."),
    ],
)
async def test_a_session_that_the_list_hides_is_opened_with_a_notice_and_stays_open(
    filled_store: Store, keys: list[str], change: str | None, reason: str
) -> None:
    learn_in(filled_store, OLD)
    if change:
        getattr(filled_store.sessions, change)([filled_store.sessions.get(OLD)])
    async with make_browser(filled_store).run_test(size=SIZE, notifications=True) as pilot:
        await wait_until(pilot, lambda: session_list(pilot).selected)
        if keys:
            await pilot.press(*keys)
            await wait_for_text(pilot, "1 found")
        await open_origin(pilot)
        await wait_for_text(pilot, reason)
        await is_read(pilot, OLD)
        await pilot.press("1", *(["enter"] if keys else ["down"]))
        await is_read(pilot, CONFIG)


async def test_the_order_and_the_headings_are_remembered(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: session_list(pilot).selected)
        await pilot.press("o")
        await wait_for_text(pilot, "Headings")
        await pilot.press("i")
        await wait_until(pilot, lambda: session_list(pilot).listing.options.order == "title")
        await pilot.press("o")
        await wait_for_text(pilot, "Headings")
        await pilot.press("a")
        await wait_until(pilot, lambda: session_list(pilot).listing.options.group == "agent")
    chosen = SessionListOptions(order="title", group="agent")
    for app in (make_browser(filled_store), Backscroll(filled_store, pick=True)):
        async with app.run_test(size=SIZE) as pilot:
            await wait_until(pilot, lambda: session_list(pilot).listing.keys)
            assert session_list(pilot).listing.options == chosen
            await wait_for_text(pilot, "pingu  1")


@pytest.mark.parametrize("state", [b'{"order": "sideways", "group": 7}', b"[]", b'{"order": ["title"]}'])
async def test_an_unknown_order_in_the_state_file_is_ignored(filled_store: Store, state: bytes) -> None:
    replace_private_file(state_file(), state)
    async with make_browser(filled_store).run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: session_list(pilot).listing.keys)
        assert session_list(pilot).listing.options == SessionListOptions()
