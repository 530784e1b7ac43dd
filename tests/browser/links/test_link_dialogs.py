"""Tests what `O` offers in the conversation and in the inspector, and that nothing is opened unseen."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from browser_driver import make_browser, screen_text, wait_for_text, wait_until
from fake_clipboard import FakeClipboard
from link_session import ONE_ADDRESS, SEVERAL, add_call_session, add_linked_session, make_folder
from screen_driver import NARROW, WIDE
from textual.pilot import Pilot

from store.store import Store
from tui.dialogs.external_editor import place_arguments
from tui.dialogs.links import AddressDialog, LinkPickerDialog, OutsidePathDialog

CANNOT_EDIT = "This terminal cannot open an editor"
"""Is said when an editor would be opened, because a test has no terminal."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path)


@asynccontextmanager
async def conversation(store: Store, shown: str, size: tuple[int, int] = WIDE) -> AsyncIterator[Pilot[Any]]:
    """Open the only session, with the cursor on its last item."""
    async with make_browser(store).run_test(size=size, notifications=True) as pilot:
        await wait_for_text(pilot, "1 session")
        await pilot.press("enter")
        await wait_for_text(pilot, shown)
        yield pilot


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_several_links_are_listed_with_those_that_can_be_opened_first(
    store: Store, folder: Path, clipboard: FakeClipboard, size: tuple[int, int]
) -> None:
    add_linked_session(store, SEVERAL, folder)
    async with conversation(store, "README.md", size) as pilot:
        await pilot.press("O")
        await wait_for_text(pilot, "Open a link of this item", "no such file")
        screen = pilot.app.screen
        assert isinstance(screen, LinkPickerDialog)
        names = [Path(target.text).name for target in screen._targets]
        assert names == ["README.md", "upload.py", "docs?page=2", "gone.py"]
        await pilot.press("down", "y")
        await wait_until(pilot, lambda: clipboard.text == str(folder / "src" / "upload.py"))
        await pilot.press("end", "enter")
        await wait_for_text(pilot, "No such file")


async def test_an_address_is_shown_whole_and_opened_after_a_yes(store: Store, folder: Path, opened: Path) -> None:
    add_linked_session(store, ONE_ADDRESS, folder)
    async with conversation(store, "It is explained") as pilot:
        await pilot.press("O")
        await wait_for_text(pilot, "https://example.com@evil.example/login", "The host is evil.example.")
        await pilot.press("n")
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, AddressDialog))
        assert not opened.exists()
        await pilot.press("O")
        await wait_for_text(pilot, "Open this address")
        await pilot.press("y")
        await wait_for_text(pilot, "Opened the address.")
    assert opened.read_text() == "1\nhttps://example.com@evil.example/login\n"


@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("answer", ["Look at file://{path}", "Look at {path}", "Look at ../{name}/secret.txt"])
async def test_a_file_outside_the_folder_is_shown_whole_and_opened_after_a_yes(
    store: Store, folder: Path, clipboard: FakeClipboard, answer: str, size: tuple[int, int]
) -> None:
    path = folder.parent / f"project-{'x' * 120}" / "secret.txt"
    path.parent.mkdir()
    path.write_text("secret")
    add_linked_session(store, answer.format(path=path, name=path.parent.name), folder)
    async with conversation(store, "Look at", size) as pilot:
        await pilot.press("O")
        await wait_for_text(pilot, "Open this file in your editor?", "It is outside the folder of the session.")
        assert str(path) in re.sub(r"[\s│▌]", "", screen_text(pilot)), "the path is wrapped, but whole"
        await pilot.press("c")
        await wait_until(pilot, lambda: clipboard.text == str(path))
        await pilot.press("n")
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, OutsidePathDialog))
        assert CANNOT_EDIT not in screen_text(pilot)
        await pilot.press("O")
        await wait_for_text(pilot, "Open this file in your editor?")
        await pilot.press("y")
        await wait_for_text(pilot, CANNOT_EDIT)


async def test_a_file_behind_a_linked_folder_is_outside(store: Store, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret.txt").write_text("secret")
    (folder / "vendor").symlink_to(tmp_path / "elsewhere")
    add_linked_session(store, "Look at vendor/secret.txt:3", folder)
    async with conversation(store, "Look at") as pilot:
        await pilot.press("O")
        await wait_for_text(pilot, "Open this file in your editor?", "vendor/secret.txt:3", "elsewhere/secret.txt")


async def test_a_file_is_inside_a_folder_that_is_named_by_a_link(store: Store, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(folder)
    add_linked_session(store, f"Look at {folder / 'README.md'}", tmp_path / "alias")
    async with conversation(store, "Look at") as pilot:
        await pilot.press("O")
        await wait_for_text(pilot, CANNOT_EDIT)


async def test_without_a_folder_every_file_is_outside(store: Store, folder: Path) -> None:
    add_linked_session(store, f"Look at {folder / 'README.md'}", "")
    async with conversation(store, "Look at") as pilot:
        await pilot.press("O")
        await wait_for_text(pilot, "Open this file in your editor?")


async def test_a_long_address_is_shown_to_its_end(store: Store, folder: Path) -> None:
    add_linked_session(store, f"https://example.com/{'x' * 400}/the-end", folder)
    async with conversation(store, "https://example.com", NARROW) as pilot:
        await pilot.press("O")
        await wait_for_text(pilot, "the-end", "very long")


async def test_an_address_with_hidden_characters_cannot_be_opened(
    store: Store, folder: Path, opened: Path, clipboard: FakeClipboard
) -> None:
    add_linked_session(store, "https://example.com/\u202egpj.exe", folder)
    async with conversation(store, "https://example.com") as pilot:
        await pilot.press("O")
        await wait_for_text(pilot, "⟨U+202E⟩gpj.exe", "hidden characters")
        await pilot.press("y")
        assert isinstance(pilot.app.screen, AddressDialog)
        await pilot.press("c")
        await wait_until(pilot, lambda: clipboard.text == "https://example.com/\u202egpj.exe")
    assert not opened.exists()


async def test_without_an_opener_the_reason_is_said(
    store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    add_linked_session(store, ONE_ADDRESS, folder)
    async with conversation(store, "It is explained") as pilot:
        await pilot.press("O")
        await wait_for_text(pilot, "Open this address")
        await pilot.press("y")
        await wait_for_text(pilot, "This system has no", "Copy the address instead.")


async def test_in_the_list_a_session_must_be_opened_first(store: Store, folder: Path) -> None:
    add_linked_session(store, ONE_ADDRESS, folder)
    async with make_browser(store).run_test(size=WIDE, notifications=True) as pilot:
        await wait_for_text(pilot, "1 session", "Links")
        await pilot.press("O")
        await wait_for_text(pilot, "This key works in the conversation.")


async def test_an_item_without_links_says_so(store: Store, folder: Path) -> None:
    add_linked_session(store, "Nothing to see.", folder)
    async with conversation(store, "Nothing to see.") as pilot:
        await pilot.press("O")
        await wait_for_text(pilot, "No path or address in this item.")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("link.md", "is a symbolic link"),
        ("pipe.md", "is a pipe"),
        ("src", "is a folder"),
        ("gone.md", "No such file"),
        ("/dev/null", "is a device"),
    ],
)
async def test_what_is_no_ordinary_file_is_refused(store: Store, folder: Path, name: str, reason: str) -> None:
    add_linked_session(store, f"Look at ./{name}" if name[0] != "/" else name, folder)
    async with conversation(store, name) as pilot:
        await pilot.press("O")
        await wait_for_text(pilot, reason)


async def test_a_relative_path_is_not_looked_up_where_the_browser_runs(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    add_linked_session(store, "Look at README.md", "")
    async with conversation(store, "Look at") as pilot:
        await pilot.press("O")
        await wait_for_text(pilot, "No path or address in this item.")


async def test_the_inspector_opens_the_links_of_a_call(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "true")
    add_call_session(store, folder)
    async with conversation(store, "Found it.") as pilot:
        await pilot.press("X", "i")
        await wait_for_text(pilot, "the text of it", "1 of 1")
        await pilot.press("O")
        await wait_for_text(pilot, CANNOT_EDIT)


@pytest.mark.parametrize(
    ("editor", "arguments"),
    [
        ("vim", ["+41", "/p/a.py"]),
        ("/usr/bin/nvim", ["+41", "/p/a.py"]),
        ("nano", ["+41", "/p/a.py"]),
        ("emacs", ["+41:7", "/p/a.py"]),
        ("micro", ["+41:7", "/p/a.py"]),
        ("hx", ["/p/a.py:41:7"]),
        ("subl", ["/p/a.py:41:7"]),
        ("code", ["--goto", "/p/a.py:41:7"]),
        ("ed", ["/p/a.py"]),
    ],
)
def test_each_editor_is_told_the_line_in_its_own_way(editor: str, arguments: list[str]) -> None:
    assert place_arguments(editor, "/p/a.py", 41, 7) == arguments
    assert place_arguments(editor, "/p/{x}.py", None, None) == ["/p/{x}.py"]
