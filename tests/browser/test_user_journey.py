"""Tests the browser in a terminal: search, open a conversation, inspect a failed call, copy the resume command."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_driver import TIMEOUT
from pty_terminal import Terminal

from store import demo
from store.resume.command import plan_resume
from store.store import Store

BACKSCROLL = "import sys, tui.main; sys.argv = ['backscroll', *sys.argv[1:]]; sys.exit(tui.main.main())"
TITLE = "Fix the flaky upload test"
WORD = "pytest-repeat"
CLIPBOARD = re.compile(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07")


@pytest.fixture
def demo_store(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Return the demo store and the resume command of the conversation."""
    path = tmp_path / "demo.db"
    with Store.open(path) as store:
        demo.fill_store(store)
        found = next(one for one in store.sessions.newest(100) if one.title == TITLE)
        yield path, plan_resume(found).command


def test_a_search_leads_to_the_failed_call_and_the_resume_command(
    demo_store: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, command = demo_store
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")
    with Terminal(BACKSCROLL, "--store", str(path), columns=100, rows=32) as terminal:
        terminal.wait_for_text("in the trash · everywhere")
        terminal.press(f"/{WORD}")
        terminal.wait_for_text(" found", TITLE)
        terminal.press("\r")
        terminal.wait_for_text("Open")
        terminal.press("\r")
        terminal.wait_for_text("Errors", WORD)
        terminal.press("ge")
        terminal.wait_for_text("✗")
        terminal.press("i")
        terminal.wait_for_text("✗", "Go to turn")
        terminal.press("q")
        terminal.wait_for_text("Errors")
        terminal.press("r")
        terminal.wait_for_text("Resume in Claude Code", "claude --resume")
        terminal.press("c")
        sent = terminal.wait_for_output(CLIPBOARD.pattern)
        assert base64.b64decode(sent[1]).decode() == command
        terminal.wait_for_text("Sent the command to the terminal's clipboard.")
        terminal.press("q")
        terminal.wait_for_text("Errors")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0
        assert len(CLIPBOARD.findall(terminal.raw)) == 1


class Tmux:
    """Is a tmux server of its own, with one window in which Backscroll runs."""

    def __init__(self, socket: Path, *command: str) -> None:
        self._socket = socket
        self("-f", os.devnull, "new-session", "-d", "-x", "100", "-y", "32", *command)

    def __call__(self, *args: str) -> str:
        ran = subprocess.run(["tmux", "-S", str(self._socket), *args], capture_output=True, text=True)
        return ran.stdout

    def until_shown(self, *texts: str) -> None:
        limit = time.monotonic() + TIMEOUT
        while not all(text in (seen := self("capture-pane", "-p")) for text in texts):
            assert time.monotonic() < limit, f"{texts} never came up in:\n{seen}"
            time.sleep(0.05)

    def until_buffer(self, text: str) -> None:
        limit = time.monotonic() + TIMEOUT
        while (held := self("show-buffer")) != text:
            assert time.monotonic() < limit, f"the buffer holds {held!r}"
            time.sleep(0.05)

    def press(self, *keys: str) -> None:
        self("send-keys", *keys)


@pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")
def test_the_resume_command_is_copied_to_the_buffer_of_tmux(demo_store: tuple[Path, str], tmp_path: Path) -> None:
    path, command = demo_store
    tmux = Tmux(tmp_path / "tmux", sys.executable, "-c", BACKSCROLL, "--store", str(path))
    try:
        tmux.until_shown("in the trash · everywhere")
        tmux.press("/")
        tmux.press("-l", WORD)
        tmux.until_shown(" found", TITLE)
        tmux.press("Enter")
        tmux.until_shown("Open")
        tmux.press("Enter")
        tmux.until_shown("Inspect", WORD)
        tmux.press("g", "e", "i")
        tmux.until_shown("✗", "Go to turn")
        tmux.press("q")
        tmux.until_shown("Inspect")
        tmux.press("r")
        tmux.until_shown("Resume in Claude Code")
        tmux.press("c")
        tmux.until_shown("Copied the command.")
        tmux.until_buffer(command)
        tmux.press("q")
        tmux.until_shown("Inspect")
        tmux.press("q")
        limit = time.monotonic() + TIMEOUT
        while tmux("list-sessions"):
            assert time.monotonic() < limit, "it does not end"
            time.sleep(0.05)
    finally:
        tmux("kill-server")
