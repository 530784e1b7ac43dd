"""Tests the summary screen: coverage, versions, conflicts and unsaved text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from browser_driver import (
    add_session,
    fill_store,
    fixed_clock,
    make_browser,
    prompt_entry,
    screen_text,
    time_ago,
    wait_for_text,
    wait_until,
)
from pty_terminal import Terminal
from textual.pilot import Pilot
from textual.widgets import TextArea
from timeline_app import add_long_session

from store.model.session import Session
from store.store import Store
from tui.dialogs.choice import ConflictDialog, UnsavedDialog
from tui.screens.summary import SummaryScreen
from tui.widgets.tables.summary_tables import SummaryTurnTable, SummaryVersionTable

FIRST, SECOND = "The first words.\nA second line.", "The first words.\nAnother line."
WIDE, NARROW = (140, 45), (80, 24)


@pytest.fixture
def session(store: Store) -> Session:
    fill_store(store)
    session = add_long_session(store)
    store.summaries.set(session, FIRST, up_to_turn=20, origin="source")
    store.summaries.set(session, SECOND, up_to_turn=40)
    return session


async def opened(pilot: Pilot[Any], store: Store, session: Session, *shown: str) -> SummaryScreen:
    await wait_for_text(pilot, "sessions")
    screen = SummaryScreen(store, session, fixed_clock)
    await pilot.app.push_screen(screen)
    await wait_for_text(pilot, *(shown or ("◂ ends here", "by its agent")))
    return screen


async def until_saved(pilot: Pilot[Any], store: Store, session: Session, text: str) -> None:
    await wait_until(pilot, lambda: (store.summaries.current(session) or session).text == text)  # type: ignore[union-attr]
    await wait_until(pilot, lambda: "unsaved" not in screen_text(pilot))


def area(pilot: Pilot[Any]) -> TextArea:
    return pilot.app.screen.query_one(TextArea)


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_the_coverage_is_shown(store: Store, session: Session, size: tuple[int, int]) -> None:
    async with make_browser(store).run_test(size=size) as pilot:
        await opened(pilot, store, session)
        await wait_for_text(pilot, "40 of 60 · 20 turns since", "┃ 40", "by a person", "to turn 20", "Another line.")
        await pilot.press("shift+tab", "end")
        await wait_for_text(pilot, "┊ 60 Question 60?")
        assert "unsaved" not in screen_text(pilot)


async def test_text_and_coverage_are_one_edit(store: Store, session: Session) -> None:
    edits = len(store.journal.list_edits())
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await opened(pilot, store, session)
        await pilot.press(*"New: ", "shift+tab", "down", "down", "space")
        await wait_for_text(pilot, "42 of 60", "was 40", "unsaved", "◂ ended here")
        assert store.summaries.current(session).up_to_turn == 40  # type: ignore[union-attr]
        await pilot.press("ctrl+s")
        await until_saved(pilot, store, session, f"New: {SECOND}")
        await pilot.press("up", "up", "up", "enter")
        await wait_for_text(pilot, "39 of 60", "was 42")
        await pilot.press("0")
        await wait_for_text(pilot, "unknown coverage")
        await pilot.press("ctrl+s")
        await wait_until(pilot, lambda: store.summaries.current(session).up_to_turn is None)  # type: ignore[union-attr]
    assert len(store.journal.list_edits()) == edits + 2
    store.journal.undo()
    store.journal.undo()
    current = store.summaries.current(session)
    assert current is not None
    assert (current.text, current.up_to_turn) == (SECOND, 40)


async def test_unchanged_line_breaks_are_kept(store: Store, session: Session) -> None:
    store.summaries.set(session, "one\r\ntwo\nthree\x1b", up_to_turn=3)
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await opened(pilot, store, session)
        await wait_for_text(pilot, "three␛")
        await pilot.press("shift+tab", "down", "space", "ctrl+s")
        await wait_until(pilot, lambda: store.summaries.current(session).up_to_turn == 4)  # type: ignore[union-attr]
    assert store.summaries.current(session).text == "one\r\ntwo\nthree\x1b"  # type: ignore[union-attr]


# ── older versions ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_a_version_is_compared_and_restored(store: Store, session: Session, size: tuple[int, int]) -> None:
    async with make_browser(store).run_test(size=size) as pilot:
        await opened(pilot, store, session)
        await pilot.press("tab")
        await wait_for_text(pilot, "This is the current version.")
        await pilot.press("down")
        await wait_for_text(pilot, "− Another line.", "+ A second line.", "covers  to turn 40 → to turn 20")
        await pilot.press("enter")
        await wait_until(pilot, lambda: store.summaries.current(session).text == FIRST)  # type: ignore[union-attr]
        await wait_for_text(pilot, "20 of 60")
        assert area(pilot).text == FIRST
    store.journal.undo()
    assert store.summaries.current(session).text == SECOND  # type: ignore[union-attr]


async def test_a_long_version_is_compared_too(store: Store, session: Session) -> None:
    """This takes long, and is done by a thread."""
    store.summaries.set(session, "one\n" * 30_000)
    store.summaries.set(session, "two\n" * 30_000)
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await opened(pilot, store, session, "two")
        await pilot.press("tab", "down")
        await wait_for_text(pilot, "Restoring this version would change:", "− two")


async def test_unsaved_text_prevents_a_restore(store: Store, session: Session) -> None:
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await opened(pilot, store, session)
        await pilot.press("x", "tab", "down", "enter")
        await wait_for_text(pilot, "Your changes are not saved. Press Ctrl+S")
        assert store.summaries.current(session).text == SECOND  # type: ignore[union-attr]


async def test_a_newer_summary_of_the_agent_is_announced(store: Store, session: Session) -> None:
    store.summaries.set(session, "Its newest words.", up_to_turn=60, origin="source")
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await opened(pilot, store, session)
        await wait_for_text(pilot, "The agent has written a new summary", "Its newest words.")
        assert area(pilot).text == SECOND


# ── unsaved text ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("key", "kept"), [("s", f"x{SECOND}"), ("d", SECOND)])
async def test_leaving_asks_whether_to_save(store: Store, session: Session, key: str, kept: str) -> None:
    async with make_browser(store).run_test(size=WIDE) as pilot:
        screen = await opened(pilot, store, session)
        await pilot.press("x", "escape")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, UnsavedDialog))
        await pilot.press("escape")
        await wait_until(pilot, lambda: pilot.app.screen is screen)
        assert area(pilot).text == f"x{SECOND}"
        # In a list, q is not a letter: it must not lose the text either.
        await pilot.press("shift+tab", "q")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, UnsavedDialog))
        await pilot.press(key)
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, SummaryScreen | UnsavedDialog))
    assert store.summaries.current(session).text == kept  # type: ignore[union-attr]


async def test_leaving_a_saved_text_asks_nothing(store: Store, session: Session) -> None:
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await opened(pilot, store, session)
        await pilot.press("x", "backspace", "escape")
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, SummaryScreen))


@pytest.mark.parametrize("key", ["y", "t", "escape"])
async def test_a_conflict_is_resolved(store: Store, session: Session, key: str) -> None:
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await opened(pilot, store, session)
        await pilot.press(*"Mine. ")
        store.summaries.set(session, "Theirs.", up_to_turn=50)
        await pilot.press("ctrl+s")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, ConflictDialog))
        await wait_for_text(
            pilot,
            "Other version, saved while you were editing",
            "Your version, not saved",
            "Mine. The first words.",
            "Theirs.",
        )
        assert store.summaries.current(session).text == "Theirs."  # type: ignore[union-attr]
        await pilot.press(key)
        if key == "y":
            await until_saved(pilot, store, session, f"Mine. {SECOND}")
            assert "Theirs." in [version.text for version in store.summaries.history(session)]
        elif key == "t":
            await wait_until(pilot, lambda: area(pilot).text == "Theirs.")
            await wait_for_text(pilot, "50 of 60")
            await pilot.press("ctrl+z")
            assert area(pilot).text == f"Mine. {SECOND}"
        else:
            await wait_for_text(pilot, "Your changes are not saved.")
            assert area(pilot).text == f"Mine. {SECOND}"
            assert store.summaries.current(session).text == "Theirs."  # type: ignore[union-attr]


async def test_a_changed_coverage_is_a_conflict(store: Store, session: Session) -> None:
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await opened(pilot, store, session)
        await pilot.press("x")
        store.summaries.set(session, SECOND, up_to_turn=41)
        await pilot.press("ctrl+s")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, ConflictDialog))
        await wait_for_text(pilot, "to turn 41", "to turn 40")


async def test_a_purged_session_is_reported_and_the_text_stays(store: Store, session: Session) -> None:
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await opened(pilot, store, session)
        await pilot.press(*"Kept: ")
        store.sessions.purge([session])
        await pilot.press("ctrl+s")
        await wait_for_text(pilot, "no longer in the store")
        assert area(pilot).text == f"Kept: {SECOND}"


async def test_a_key_removes_control_characters(store: Store, session: Session) -> None:
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await opened(pilot, store, session)
        area(pilot).insert("pasted\x1b[2J\x07")
        await wait_for_text(pilot, "pasted␛[2J")
        await pilot.press("ctrl+s")
        await wait_for_text(pilot, "control characters. Press F6 to remove them")
        assert store.summaries.current(session).text == SECOND  # type: ignore[union-attr]
        await pilot.press("f6", "ctrl+s")
        await until_saved(pilot, store, session, f"pasted[2J{SECOND}")


async def test_an_empty_text_removes_the_summary(store: Store, session: Session) -> None:
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await opened(pilot, store, session)
        area(pilot).text = " "
        await pilot.press("ctrl+s")
        await wait_until(pilot, lambda: store.summaries.current(session) is None)
        await wait_for_text(pilot, "no summary yet")
        await pilot.press("ctrl+s")
        await wait_for_text(pilot, "The summary is empty.")
    store.journal.undo()
    assert store.summaries.current(session).text == SECOND  # type: ignore[union-attr]


# ── size, mouse, editor ───────────────────────────────────────────────────────────────────────────


async def test_ten_thousand_turns(store: Store) -> None:
    at = time_ago(hours=1)
    session = add_session(store, "long", at, *(prompt_entry(f"Question {n}?", at) for n in range(1, 10_001)))
    store.summaries.set(session, "Short.", up_to_turn=9_000)
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "1 session")
        screen = SummaryScreen(store, session, fixed_clock)
        await pilot.app.push_screen(screen)
        await wait_for_text(pilot, "9,000 of 10,000", "9000 Question 9000?", "◂ ends here")
        assert len(screen.turns._strips) < 600
        await pilot.press("shift+tab", "end", "enter")
        await wait_for_text(pilot, "10,000 of 10,000 · all turns")


async def test_the_mouse(store: Store, session: Session) -> None:
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await opened(pilot, store, session)
        await pilot.click(SummaryVersionTable, offset=(5, 1))
        await wait_for_text(pilot, "− Another line.")
        await pilot.click(SummaryTurnTable, offset=(5, 3), times=2)
        await wait_for_text(pilot, "was 40")


EDITOR = """
import sys
from pathlib import Path
from store.store import Store
from tui.app import Backscroll
from tui.screens.summary import SummaryScreen

class Opened(Backscroll):
    BINDINGS = [("f7", "summary")]

    def action_summary(self):
        store = self._stores[-1]
        self.push_screen(SummaryScreen(store, store.sessions.get("claude:long"), self._clock))

store = Store.open(Path(sys.argv[1]))
app = Opened(store)
app.run()
app.close_stores()
"""


def test_the_external_editor(store: Store, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "by hand, " > "$1.new"; cat "$1" >> "$1.new"; mv "$1.new" "$1"\n')
    os.chmod(editor, 0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    with Terminal(EDITOR, str(store.path), columns=140, rows=45) as terminal:
        terminal.wait_for_text("A long one")
        terminal.press("\x1b[18~")  # f7
        terminal.wait_for_text("ends here", "Another line.")
        terminal.press("\x1bOS")  # f4
        terminal.wait_for_text("by hand, The first words.", "unsaved")
        terminal.press("\x13")  # ctrl+s
        terminal.wait_for_text("Saved the summary")
        terminal.press("\x1b")
        terminal.wait_for_text("sessions")
    assert store.summaries.current(session).text == f"by hand, {SECOND}"  # type: ignore[union-attr]


async def test_a_long_summary_is_not_wrapped(store: Store, session: Session) -> None:
    store.summaries.set(session, "many words " * 10_000)
    async with make_browser(store).run_test(size=(120, 40)) as pilot:
        await opened(pilot, store, session, "many words")
        await wait_until(pilot, lambda: len(area(pilot).text) > 100_000)
        assert not area(pilot).soft_wrap
