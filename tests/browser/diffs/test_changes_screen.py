"""Tests the screen with the files that a session changed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from browser_driver import add_session, make_browser, prompt_entry, screen_text, time_ago, wait_for_text, wait_until
from edited_session import UPLOAD_HUNK_LINES, add_edited_session
from fake_clipboard import FakeClipboard
from textual.pilot import Pilot

from store.store import Store
from tui.screens.browser.screen import BrowserScreen
from tui.screens.changes import ChangesScreen

WIDE = (140, 45)


@pytest.fixture
def edited(store: Store) -> Store:
    add_edited_session(store)
    return store


async def open_changes(pilot: Pilot[Any]) -> ChangesScreen:
    await wait_for_text(pilot, "Retry the upload")
    await pilot.press("enter")
    await wait_for_text(pilot, "All is done.")
    await pilot.press("V")
    await wait_for_text(pilot, "Changes  Retry the upload", "range(retries)")
    assert isinstance(pilot.app.screen, ChangesScreen)
    return pilot.app.screen


async def test_files_are_listed_with_counts_and_the_first_is_shown(edited: Store) -> None:
    async with make_browser(edited).run_test(size=WIDE) as pilot:
        await open_changes(pilot)
        await wait_for_text(
            pilot,
            "4 files  +9  −3",
            "1 hunk without line numbers · left out: 1 failed edit · not known: what 1 shell command changed",
            "▌src/upload.py",
            "turn 1 ·",
            "118 118   def upload",
            "119     −     for attempt in range(1):",
            "    119 +     for attempt in range(retries):",
        )


async def test_the_list_opens_the_changes_of_the_session_under_the_cursor(edited: Store) -> None:
    async with make_browser(edited).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "2 sessions", "Retry the upload")
        await pilot.press("V")
        await wait_for_text(pilot, "Changes  Retry the upload", "range(retries)")
        assert isinstance(pilot.app.screen, ChangesScreen)
        await pilot.press("enter", "enter")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen) and pilot.app.screen.is_reading)


async def test_keys_step_through_all_changes_even_if_typed_at_once(edited: Store) -> None:
    async with make_browser(edited).run_test(size=WIDE) as pilot:
        screen = await open_changes(pilot)
        await pilot.press("J", "J")
        await wait_for_text(pilot, "▌tests/test_upload.py", "turn 2 ·", "2   −     assert upload('x') == 200")
        assert screen.pane.diff_view.section == 1
        await pilot.press("J")
        await wait_for_text(pilot, "▌config.toml", "line numbers not known")
        await pilot.press("K")
        assert (screen.table.cursor, screen.pane.diff_view.section) == (1, 1)
        await pilot.press("K", "K", "K")
        assert (screen.table.cursor, screen.pane.diff_view.section) == (0, 0)


async def test_enter_goes_to_the_turn_of_the_change(edited: Store) -> None:
    async with make_browser(edited).run_test(size=WIDE) as pilot:
        await open_changes(pilot)
        await pilot.press("J", "J", "enter")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))
        await wait_for_text(pilot, "▌ ⚙ Edit  tests/test_upload.py")


async def test_a_change_of_a_sub_agent_goes_to_its_session(edited: Store) -> None:
    async with make_browser(edited).run_test(size=WIDE) as pilot:
        await open_changes(pilot)
        await pilot.press("end")
        await wait_for_text(pilot, "sub-agent: Write the docs", "+ # Upload")
        await pilot.press("g")
        await wait_for_text(pilot, "sub-agent of claude:edited", "▌ ⚙ Write  docs/upload.md")


async def test_the_patch_of_a_file_and_of_all_is_copied(edited: Store, clipboard: FakeClipboard) -> None:
    async with make_browser(edited).run_test(size=WIDE) as pilot:
        await open_changes(pilot)
        await pilot.press("J", "y")
        await wait_until(pilot, lambda: "test_upload" in clipboard.text)
        copied = clipboard.text
        assert copied.startswith("# turn 1, Write\n--- /dev/null\n+++ b/tests/test_upload.py\n")
        assert "# turn 2, Edit\n--- a/tests/test_upload.py" in copied
        assert "src/upload.py" not in copied
        await pilot.press("Y")
        await wait_until(pilot, lambda: "+++ b/docs/upload.md" in clipboard.text)


async def test_all_changes_are_exported_as_a_patch_that_applies(edited: Store, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    (folder / "src").mkdir(parents=True)
    lines = [*["# more"] * 117, *(line[1:] for line in UPLOAD_HUNK_LINES if line[0] != "+"), "            pass", ""]
    (folder / "src/upload.py").write_text("\n".join(lines))
    (folder / "config.toml").write_text("[upload]\nretryCount = 1\n")
    async with make_browser(edited).run_test(size=WIDE) as pilot:
        await open_changes(pilot)
        await pilot.press("e")
        await wait_for_text(pilot, "Export the changes as a patch", "claude-edited.patch")
        pilot.app.screen.set_text(str(folder))  # type: ignore[attr-defined]
        await pilot.press("enter")
        await wait_for_text(pilot, "Not a file name")
        pilot.app.screen.set_text(str(tmp_path / "all.patch"))  # type: ignore[attr-defined]
        await pilot.press("enter")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, ChangesScreen))
        await pilot.press("e")
        await wait_for_text(pilot, "Export the changes as a patch")
        pilot.app.screen.set_text(str(tmp_path / "all.patch"))  # type: ignore[attr-defined]
        await pilot.press("enter")
        await wait_for_text(pilot, "The file exists already")
    subprocess.run(["patch", "-p1", "-i", "../all.patch"], cwd=folder, check=True, capture_output=True)
    assert "retry_count = 3" in (folder / "config.toml").read_text()
    assert "upload('x', retries=2)" in (folder / "tests/test_upload.py").read_text()


async def test_words_are_found_in_the_changes(edited: Store) -> None:
    async with make_browser(edited).run_test(size=WIDE) as pilot:
        await open_changes(pilot)
        await pilot.press("slash", *"attempt")
        await wait_for_text(pilot, "1 of 4")
        await pilot.press("enter", "n")
        await wait_for_text(pilot, "2 of 4")


async def test_leaving_returns_to_the_conversation(edited: Store) -> None:
    async with make_browser(edited).run_test(size=(80, 24)) as pilot:
        await open_changes(pilot)
        await pilot.press("tab", "q")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))
        assert "All is done." in screen_text(pilot)


async def test_a_session_that_changed_nothing_says_so(store: Store) -> None:
    add_session(store, "s", time_ago(minutes=3), prompt_entry("Hello there", time_ago(minutes=3)))
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "Hello there")
        await pilot.press("enter")
        await wait_for_text(pilot, "1  you")
        await pilot.press("V")
        await wait_for_text(pilot, "No tool call of this session changed a file.")
        await pilot.press("e", "y", "enter", "J", "V")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, BrowserScreen))


async def test_an_unfolded_edit_has_the_line_numbers_that_its_agent_recorded(edited: Store) -> None:
    async with make_browser(edited).run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "Retry the upload")
        await pilot.press("enter")
        await wait_for_text(pilot, "All is done.")
        await pilot.press("home", "x", "enter")
        await wait_for_text(pilot, "118 118   def upload", "    119 +     for attempt in range(retries):")


async def test_what_is_left_out_is_said_in_full_in_a_narrow_terminal(edited: Store) -> None:
    async with make_browser(edited).run_test(size=(80, 24)) as pilot:
        await open_changes(pilot)
        await wait_for_text(pilot, "1 hunk without line numbers · left out: 1 failed edit", "shell command changed")
