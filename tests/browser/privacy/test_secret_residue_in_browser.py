"""Tests that a secret leaves no trace in files, logs, pictures or the terminal after it was used in the browser."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from browser_driver import add_session, prompt_entry, time_ago
from pty_terminal import Terminal

from store.store import Store

MARKER = "residue-of-a-secret-4711"

# Opens only this screen. Copies go to the terminal, because there is no clipboard.
BROWSE = """
import sys
from pathlib import Path
import pyperclip
from store.store import Store
from tui.app import Backscroll
from tui.screens.secrets import SecretsScreen

def refuse(*_):
    raise pyperclip.PyperclipException("none here")

pyperclip.copy = refuse

class Watched(Backscroll):
    BINDINGS = [("f9", "picture"), ("f8", "crash"), ("f7", "secrets")]

    def action_secrets(self):
        store = self._stores[-1]
        self.push_screen(SecretsScreen(store, store.sessions.get("s"), self._clock))

    def action_picture(self):
        self.save_screenshot("picture.svg", sys.argv[2])
        self.notify("PICTURED")

    def action_crash(self):
        raise RuntimeError("meant to")

store = Store.open(Path(sys.argv[1]))
app = Watched(store)
app.run()
app.close_stores()
"""


def everything_in(*folders: Path) -> bytes:
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return b"".join(path.read_bytes() for path in files)


def spellings(marker: str) -> list[bytes]:
    """Return the marker as it is, and in the encodings that a file may use."""
    encoded = [base64.b64encode(("x" * shift + marker).encode())[4:-4] for shift in range(3)]
    return [marker.encode(), marker.encode("utf-16-le"), marker.encode().hex().encode(), *encoded]


def assert_nowhere(data: bytes) -> None:
    assert [spelling for spelling in spellings(MARKER) if spelling in data] == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEXTUAL_LOG", str(tmp_path / "textual.log"))
    with Store.open(tmp_path / "store.db") as store:
        add_session(store, "s", time_ago(hours=1), prompt_entry("hello", time_ago(hours=1)), agent_title="Only one")
    return tmp_path


def typed_in(terminal: Terminal) -> None:
    terminal.wait_for_text("Only one")
    terminal.press("\x1b[18~")  # f7
    terminal.wait_for_text("No secrets in this session")
    terminal.press("a")
    terminal.wait_for_text("New secret")
    terminal.press("TOKEN\r")
    terminal.press(MARKER)
    terminal.wait_for_text("•" * len(MARKER))
    terminal.press("\r")
    terminal.wait_for_text("v1", "version 1")


def test_a_deleted_secret_leaves_no_trace(folder: Path, home: Path) -> None:
    with Terminal(BROWSE, str(folder / "store.db"), str(folder)) as terminal:
        typed_in(terminal)
        assert_nowhere(terminal.raw)
        assert_nowhere(everything_in(folder, home))

        terminal.press("r")
        terminal.wait_for_text(MARKER, "hides in")
        terminal.press("\x1b[20~")  # f9
        terminal.wait_for_text("PICTURED")
        assert "TOKEN" in (folder / "picture.svg").read_text("utf-8")
        revealed = len(terminal.raw)
        terminal.wait_until_gone(MARKER)
        hidden = len(terminal.raw)
        assert revealed < hidden

        terminal.press("y")
        sent = terminal.wait_for_output(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07")
        assert base64.b64decode(sent[1]).decode() == MARKER
        copied = len(terminal.raw)

        terminal.press("X")
        terminal.wait_for_text("permanently?")
        terminal.press("y")
        terminal.wait_for_text("No secrets in this session")
        terminal.press("\x1b")
        terminal.wait_for_text("Only one", "1 session")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0
        assert_nowhere(terminal.raw[hidden : sent.start()])
        assert_nowhere(terminal.raw[copied:])
        assert MARKER not in "\n".join(terminal.lines)
    left = everything_in(folder, home)
    assert re.search(rb"Only one", left)
    assert (folder / "textual.log").stat().st_size
    assert_nowhere(left)


def test_a_crash_does_not_print_the_secret_that_is_shown(folder: Path, home: Path) -> None:
    with Terminal(BROWSE, str(folder / "store.db"), str(folder)) as terminal:
        typed_in(terminal)
        terminal.press("r")
        terminal.wait_for_text(MARKER)
        terminal.press("\x1b[19~")  # f8
        terminal.wait_for_exit()
        # The value may be painted until the app leaves the alternate screen.
        output = terminal.raw.rpartition(b"\x1b[?1049l")[2]
        assert b"RuntimeError" in output
        assert_nowhere(output)
    assert_nowhere(everything_in(folder, home))
