"""Tests `backscroll PATH`: a temporary store takes no edits, because they would be lost at the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser_driver import make_browser, session_list, wait_for_text, wait_until
from command_line import CommandLine, FakeBrowser
from pty_terminal import Terminal
from textual.pilot import Pilot

from store.errors import Refused
from store.store import Store

REFUSAL = "These sessions are temporary and read-only. Run `backscroll sync old.jsonl` to keep and edit them."
ROLLOUT = min((Path(__file__).parents[2] / "data" / "codex").rglob("rollout-*.jsonl"))


@pytest.fixture
def temporary_store(filled_store: Store) -> Store:
    session = filled_store.sessions.get("claude:e0741090")
    filled_store.facts.learn("The retry reopens the file.", session=session, entry_seq=0)
    filled_store.refusal = REFUSAL
    return filled_store


async def check_refused(pilot: Pilot[Any], *keys: str) -> None:
    """Press the keys, and check that the last one opens nothing and is answered with the refusal."""
    *before, last = keys
    await pilot.press(*before)
    await pilot.pause()
    stack = list(pilot.app.screen_stack)
    pilot.app.clear_notifications()
    await pilot.press(last)
    await wait_until(pilot, lambda: REFUSAL in [str(one.message) for one in pilot.app._notifications])
    assert pilot.app.screen_stack == stack


@pytest.mark.parametrize("key", ["t", "T", "m", "p", "a", "d", "w", "u"])
async def test_no_session_is_edited(temporary_store: Store, key: str) -> None:
    async with make_browser(temporary_store).run_test(notifications=True) as pilot:
        await wait_for_text(pilot, "temporary, read-only", "6 sessions", "Fix the flaky")
        await check_refused(pilot, key)
        await pilot.press("down")
        await wait_until(pilot, lambda: session_list(pilot).cursor == 1)


@pytest.mark.parametrize(
    ("screen", "shown", "key"),
    [
        ("f", "retry reopens", "a"),
        ("f", "retry reopens", "e"),
        ("f", "retry reopens", "C"),
        ("f", "retry reopens", "x"),
        ("dollar_sign", "No secrets in this session", "a"),
        ("P", "Published", "a"),
        ("S", REFUSAL[:30], "ctrl+s"),
    ],
)
async def test_nothing_is_edited_on_other_screens(temporary_store: Store, screen: str, shown: str, key: str) -> None:
    async with make_browser(temporary_store).run_test(size=(140, 45), notifications=True) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        await pilot.press(screen)
        await wait_for_text(pilot, shown)
        await check_refused(pilot, key)


async def test_a_conversation_is_not_forked(temporary_store: Store) -> None:
    async with make_browser(temporary_store).run_test(notifications=True) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        await pilot.press("enter")
        await wait_for_text(pilot, "tells how often")
        await check_refused(pilot, "F")


def test_the_store_refuses_every_edit(temporary_store: Store) -> None:
    session = temporary_store.sessions.get("claude:e0741090")
    edits: list[Callable[[], object]] = [
        lambda: temporary_store.sessions.set_title(session, "x"),
        lambda: temporary_store.notes.tag([session], ["x"]),
        lambda: temporary_store.facts.learn("x"),
        lambda: temporary_store.secrets.set(session, "K", "x"),
        lambda: temporary_store.journal.undo(),
    ]
    for edit in edits:
        with pytest.raises(Refused, match="temporary and read-only"):
            edit()


def test_the_refusal_names_the_command_that_keeps_the_sessions(store: Store, tmp_path: Path) -> None:
    browser = FakeBrowser()
    copy = tmp_path / "an old one.jsonl"
    copy.write_bytes(ROLLOUT.read_bytes())
    assert CommandLine(store.path)(str(copy), browse=browser).status == 0
    assert f"`backscroll sync '{copy}'`" in browser.refusal
    assert CommandLine(store.path)("browse", browse=browser).status == 0
    assert browser.refusal == ""


def test_a_file_in_a_terminal() -> None:
    code = "import sys, tui.main; sys.exit(tui.main.main())"
    with Terminal(code, str(ROLLOUT)) as terminal:
        terminal.wait_for_text("temporary, read-only", "1 session")
        terminal.press("p")
        terminal.wait_for_text("backscroll sync")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0
