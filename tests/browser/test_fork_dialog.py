"""Tests the fork dialog, the fork in the list, and the resume card of a native fork."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser_driver import (
    add_session,
    answer_entry,
    make_browser,
    prompt_entry,
    screen_text,
    session_list,
    time_ago,
    wait_for_text,
    wait_until,
)
from foreign_databases import sync_paths
from pytest_textual_snapshot import SVGImageExtension
from sample_conversations import prompts
from screen_driver import NARROW, WIDE, open_screen
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import TextArea

from store.model.entry import NewEntry
from store.model.session import Session
from store.store import Store
from tui.dialogs.fork import ForkDialog, read_fork_point
from tui.screens.browser.screen import BrowserScreen
from tui.screens.resume import ResumeScreen

SVGImageExtension.file_extension = "svg"

TRANSCRIPTS = Path(__file__).parents[1] / "data/claude"
CLAUDE = "claude:c1000000-0000-4000-8000-000000000001"
HOSTILE = "[b]Paint[/b] \x1b]52;c;aGk=\x07\x1b[31mit \u202e red"


@pytest.fixture
def parent(store: Store) -> Session:
    at = time_ago(minutes=1)
    said = [
        prompt_entry("Paint it red", at),
        answer_entry("It is red.", at),
        prompt_entry("And the door?", at),
        answer_entry("Too.", at),
    ]
    return add_session(store, "paint", at, *said, agent_title="Paint the shop")


@asynccontextmanager
async def asked(store: Store, *keys: str, size: tuple[int, int] = (100, 30)) -> AsyncIterator[Pilot[Any]]:
    """Open the dialog on the last turn of the newest session, or where the keys go."""
    async with make_browser(store).run_test(size=size, notifications=True) as pilot:
        await wait_until(pilot, lambda: session_list(pilot).selected)
        await pilot.press("enter")
        await wait_until(pilot, lambda: pilot.app.screen.query("TimelineView"))
        reading = pilot.app.screen_stack[0].conversation  # type: ignore[attr-defined]
        await wait_until(pilot, lambda: reading.timeline_pane.timeline_view.current_item)
        await pilot.press(*keys, "F")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, ForkDialog))
        yield pilot


async def test_a_fork_is_created_and_the_list_goes_to_it(store: Store, parent: Session) -> None:
    async with asked(store) as pilot:
        await wait_for_text(
            pilot, "Fork at turn 2", "under “Paint the shop”. The original does not change.", "contains turns 1 to 2."
        )
        assert pilot.app.screen.query_one(TextArea).text == "And the door?"
        assert "f5" not in screen_text(pilot)
        await pilot.press("ctrl+s")
        await wait_for_text(pilot, "Forked the session. Press u to undo.")
        (child,) = store.sessions.children("paint")
        await wait_until(pilot, lambda: session_list(pilot).selected_key == child.key)
        assert prompts(store, child) == ["Paint it red", "And the door?"]
        await pilot.press("u")
        await wait_until(pilot, lambda: [one.id for one in store.sessions.trash()] == [child.id])


async def test_a_changed_prompt_ends_the_fork(store: Store, parent: Session) -> None:
    async with asked(store, "K", "K") as pilot:
        await wait_for_text(pilot, "Fork at turn 1", "The fork contains turn 1.")
        await pilot.press(*" or blue")
        await wait_for_text(pilot, "The fork contains no earlier turns and ends with this prompt, unanswered.")
        await pilot.press("ctrl+s")
        await wait_for_text(pilot, "Forked the session. Press u to undo.")
    (child,) = store.sessions.children("paint")
    assert prompts(store, child) == ["Paint it red or blue"]


async def test_escape_creates_no_fork(store: Store, parent: Session) -> None:
    async with asked(store) as pilot:
        await pilot.press("x", "escape")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))
    assert store.sessions.children("paint") == []


async def test_an_error_is_shown_next_to_the_field_and_the_text_stays(store: Store, parent: Session) -> None:
    async with asked(store) as pilot:
        pilot.app.screen.query_one(TextArea).text = "  "
        await pilot.press("ctrl+s")
        await wait_for_text(pilot, "The prompt is empty.")
        pilot.app.screen.query_one(TextArea).text = "Say \x1b[31mso"
        await pilot.press("ctrl+s")
        await wait_for_text(pilot, "The text contains 1 control character")
        store.sessions.delete([parent])
        await pilot.press("f6", "ctrl+s")
        await wait_for_text(pilot, "is in the trash")
        assert pilot.app.screen.query_one(TextArea).text == "Say [31mso"
    assert store.sessions.children("paint") == []


async def test_an_unchanged_prompt_may_contain_control_characters(store: Store) -> None:
    at = time_ago(minutes=1)
    add_session(store, "hostile", at, prompt_entry(HOSTILE, at), answer_entry("Red.", at), agent_title=HOSTILE)
    async with asked(store) as pilot:
        await wait_for_text(pilot, "Fork at turn 1", "[b]Paint[/b]")
        assert not {"\x1b", "\x07", "\u202e"} & set(screen_text(pilot))
        await pilot.press("ctrl+s")
        await wait_until(pilot, lambda: store.sessions.children("hostile"))
    assert prompts(store, store.sessions.children("hostile")[0]) == [HOSTILE]


async def test_a_fork_before_the_first_prompt_has_no_prompt_to_change(store: Store) -> None:
    session = add_session(store, "a", time_ago(), NewEntry(kind="event", text="began"), prompt_entry("one", time_ago()))
    async with open_screen(store, ForkDialog(store, read_fork_point(store, session, 0))) as fork:
        await fork.wait_for_text("Fork before the first prompt", "The fork starts over with the same instructions.")
        assert "Last prompt" not in fork.text
        await fork.press("ctrl+s")
        await fork.wait_until(lambda: store.sessions.children("a"))


async def test_a_native_fork_is_written_and_offered_to_resume(store: Store, home: Path) -> None:
    root = Path(shutil.copytree(TRANSCRIPTS, home / ".claude"))
    sync_paths(store, root)
    session = store.sessions.get(CLAUDE)
    store.sessions.delete([one for one in store.sessions.newest(50) if one.key != session.key])
    known = set(root.rglob("*.jsonl"))
    async with asked(store) as pilot:
        await wait_for_text(pilot, "Press F5 to create it in Claude Code", "f5 In its agent")
        await pilot.press(*"!!", "f5")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, ResumeScreen))
        (path,) = set(root.rglob("*.jsonl")) - known
        await wait_for_text(pilot, "Resume in Claude Code", f"claude --resume {path.stem}")
        await pilot.press("escape")
        child = store.sessions.get(f"claude:{path.stem}")
        await wait_until(pilot, lambda: session_list(pilot).selected_key == child.key)
    assert prompts(store, child)[-1] == prompts(store, session)[-1] + "!!"


# ── snapshots ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("program", ["", "Claude Code"], ids=["here", "native"])
def test_the_dialog(
    snap_compare: Callable[..., bool],
    store: Store,
    parent: Session,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    program: str,
) -> None:
    """The dialog is above an empty screen, so that the picture shows nothing else."""
    monkeypatch.setattr(TextArea, "cursor_blink", False)

    async def open_it(pilot: Pilot[Any]) -> None:
        await pilot.app.push_screen(ForkDialog(store, replace(read_fork_point(store, parent, 2), program=program)))
        if program:
            await pilot.press(*" Blue?")
        await wait_for_text(pilot, "The fork contains turn", "Cancel")

    assert snap_compare(App(), terminal_size=size, run_before=open_it)
