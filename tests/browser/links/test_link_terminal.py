"""Tests links in a real terminal: an editor that gets a path and a line, and addresses that the terminal can open."""

from __future__ import annotations

from pathlib import Path

import pytest
from link_session import ONE_PATH, SEVERAL, add_linked_session, make_folder
from pty_terminal import Terminal

from store.store import Store

BROWSER = """
import sys
from pathlib import Path
from store.store import Store
from tui.app import Backscroll

store = Store.open(Path(sys.argv[1]))
app = Backscroll(store)
app.run()
app.close_stores()
"""

EDITOR = """#!/bin/sh
stty -a | grep -q ' icanon' && echo cooked >> "$EDITED"
printf '%s\\n' "$#" "$@" >> "$EDITED"
echo "the editor shows line $1"
read answer
"""


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file to which an editor that is named like nano writes its arguments."""
    editor = tmp_path / "nano"
    editor.write_text(EDITOR)
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setenv("EDITED", str(tmp_path / "edited"))
    return tmp_path / "edited"


def test_a_path_opens_in_the_editor_at_its_line(store: Store, tmp_path: Path, edited: Path) -> None:
    folder = make_folder(tmp_path)
    add_linked_session(store, ONE_PATH, folder)
    with Terminal(BROWSER, str(store.path), columns=140, rows=45) as terminal:
        terminal.wait_for_text("1 session")
        terminal.press("\r")
        terminal.wait_for_text("The retry is in")
        terminal.press("O")
        terminal.wait_for_text("the editor shows line +41")
        terminal.press("\r")
        terminal.wait_for_text("1 session", "The retry is in")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0
    assert edited.read_text().split("\n") == ["cooked", "2", "+41", str(folder / "src" / "upload.py"), ""]


def test_a_picked_path_opens_in_the_editor(store: Store, tmp_path: Path, edited: Path) -> None:
    add_linked_session(store, SEVERAL, make_folder(tmp_path))
    with Terminal(BROWSER, str(store.path), columns=80, rows=24) as terminal:
        terminal.wait_for_text("1 session")
        terminal.press("\r")
        terminal.wait_for_text("README.md")
        terminal.press("O")
        terminal.wait_for_text("Open a link of this item")
        terminal.press("\r")
        terminal.wait_for_text("the editor shows line /")
        terminal.press("\r")
        terminal.wait_for_text("README.md")
    assert "README.md" in edited.read_text()


ADDRESSES = """
Plain https://example.com/plain here.

[words](https://example.com/hidden) and https://example.com@evil.example/user and https://аpple.com/x
"""


def show_addresses(store: Store, folder: Path) -> bytes:
    add_linked_session(store, ADDRESSES, folder)
    with Terminal(BROWSER, str(store.path), columns=140, rows=45) as terminal:
        terminal.wait_for_text("1 session")
        terminal.press("\r")
        terminal.wait_for_text("https://example.com/plain", "evil.example/user")
        terminal.press("q")
        terminal.wait_for_exit()
        return terminal.raw


def test_the_terminal_gets_no_links_unless_they_are_wanted(store: Store, tmp_path: Path) -> None:
    assert b"\x1b]8;" not in show_addresses(store, tmp_path)


def test_only_harmless_addresses_become_links_of_the_terminal(store: Store, tmp_path: Path, home: Path) -> None:
    config = home / ".config" / "backscroll" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[browser]\nhyperlinks = true\n")
    raw = show_addresses(store, tmp_path)
    assert b";https://example.com/plain\x1b\\" in raw
    assert b";https://example.com/hidden\x1b\\" in raw  # the address itself is shown after the words
    assert b"evil.example/user\x1b\\" not in raw
    assert b"pple.com/x\x1b\\" not in raw


def test_a_missing_editor_gives_the_terminal_back(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_linked_session(store, ONE_PATH, make_folder(tmp_path))
    monkeypatch.setenv("VISUAL", str(tmp_path / "no-such-editor"))
    with Terminal(BROWSER, str(store.path), columns=140, rows=45) as terminal:
        terminal.wait_for_text("1 session")
        terminal.press("\r")
        terminal.wait_for_text("The retry is in")
        terminal.press("O")
        terminal.wait_for_text("is not installed")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0
