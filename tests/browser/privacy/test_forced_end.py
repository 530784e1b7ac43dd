"""These tests end the browser by force: an error in a handler, signals, a closed terminal.

The terminal is usable afterwards, the clipboard has no secret, the worker has ended, and unsaved text is kept.
"""

from __future__ import annotations

import os
import re
import signal
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from browser_driver import TIMEOUT, add_session, prompt_entry, time_ago
from fake_clipboard import ClipboardProgram
from pty_terminal import Terminal

from store.store import Store
from tui.drafts import Draft, describe_left_drafts, drafts_folder, find_left_drafts
from tui.render.session_lines import abbreviate_home

SECRET = "secret-on-the-clipboard-4711"
UNSAVED = "a long text that was not saved"
F6, F7, F8, F9 = "\x1b[17~", "\x1b[18~", "\x1b[19~", "\x1b[20~"

# Keeps the id of the worker in a file.
BROWSE = """
import sys
from pathlib import Path
import tui.app
from textual.binding import Binding
import tui.main
from tui.dialogs.text import MultilineDialog
from tui.privacy.secret_value import SecretValue
from tui.screens.secrets import SecretsScreen

path, secret = Path(sys.argv[1]), sys.stdin.readline().strip()

class Watched(tui.app.Backscroll):
    BINDINGS = [
        Binding(key, action, priority=True)
        for key, action in (("f6", "copy_it"), ("f7", "write"), ("f8", "crash"), ("f9", "secrets"))
    ]

    def action_copy_it(self):
        self.copy_secret(SecretValue(secret), "TOKEN")

    def action_write(self):
        self.push_screen(MultilineDialog("Write something"))

    def action_secrets(self):
        store = self._stores[-1]
        self.push_screen(SecretsScreen(store, store.sessions.get("s"), self._clock))

    def action_crash(self):
        raise RuntimeError(f"meant to, with {secret}")

    def on_ready(self):
        super().on_ready()
        self.set_interval(0.05, self.keep_worker_id)

    def keep_worker_id(self):
        # The worker starts after the first rows of the list.
        if self._worker.pid is not None:
            path.with_name("started").write_text(str(self._worker.pid))
            path.with_name("started").rename(path.with_name("worker"))

tui.app.Backscroll = Watched
tui.main.browse(path, follow=True)
"""


class Browser(Terminal):
    """Runs the browser with a worker, in a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clipboard = ClipboardProgram(folder)
        super().__init__(BROWSE, str(folder / "store.db"), columns=160, env={**os.environ, **self.clipboard.environ})
        self.press(f"{SECRET}\n")
        self._modes = termios.tcgetattr(self._fd)
        self.wait_for_text("Only one")
        self._wait_for_worker()

    def _wait_for_worker(self) -> None:
        end = time.monotonic() + TIMEOUT
        while not (self.folder / "worker").exists():
            assert time.monotonic() < end, "The worker did not start."
            time.sleep(0.02)

    def copy_secret(self) -> None:
        self.press(F6)
        self.wait_for_text("The clipboard is cleared")
        assert self.clipboard.text == SECRET

    def write_text(self) -> None:
        self.press(F7)
        self.wait_for_text("Write something")
        self.press(UNSAVED)
        self.wait_for_text(UNSAVED)

    def close_terminal(self, *, with_signal: bool) -> None:
        """Close the window of the terminal. Only the first process of a session gets the signal by itself."""
        os.close(self._fd)
        self._fd = os.open(os.devnull, os.O_RDONLY)
        if with_signal:
            os.kill(self.pid, signal.SIGHUP)
        assert self._process.wait(TIMEOUT) == 128 + signal.SIGHUP

    def is_restored(self) -> bool:
        left_screen = self.raw.rfind(b"\x1b[?1049l") > self.raw.rfind(b"\x1b[?1049h")
        shows_cursor = self.raw.rfind(b"\x1b[?25h") > self.raw.rfind(b"\x1b[?25l")
        return left_screen and shows_cursor and termios.tcgetattr(self._fd)[3] == self._modes[3]

    def wait_for_worker_to_end(self) -> None:
        wait_for_end(int((self.folder / "worker").read_text()))

    def find_clearing_process(self) -> int:
        """Return the id of the process that would clear the clipboard."""
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.pid and b"tui.privacy.clipboard" in (folder / "cmdline").read_bytes():
                    return int(folder.name)
        raise AssertionError("no process would clear the clipboard")


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while _is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_running(pid)


def _is_running(pid: int) -> bool:
    """Return whether a process runs. One that has ended and that nobody waited for does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return status != "Z"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Store.open(tmp_path / "store.db") as store:
        add_session(store, "s", time_ago(hours=1), prompt_entry("hello", time_ago(hours=1)), agent_title="Only one")
    with Browser(tmp_path) as opened:
        yield opened


def wait_for_draft() -> Path:
    """Wait until the whole text is kept. A draft may have been kept while the text was typed."""
    deadline = time.monotonic() + TIMEOUT
    while [path.read_text() for path in drafts_folder().glob("*.md")] != [UNSAVED] and time.monotonic() < deadline:
        time.sleep(0.05)
    (draft,) = drafts_folder().glob("*.md")
    return draft


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_browser_as_a_person_would(browser: Browser, number: int) -> None:
    browser.copy_secret()
    browser.write_text()
    os.kill(browser.pid, number)
    assert browser.wait_for_exit() == 128 + number
    assert browser.is_restored()
    assert browser.clipboard.text == ""
    browser.wait_for_worker_to_end()
    assert wait_for_draft().read_text() == UNSAVED
    assert wait_for_draft().stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("with_signal", [True, False])
def test_closing_the_terminal_loses_nothing(browser: Browser, with_signal: bool) -> None:
    browser.copy_secret()
    browser.write_text()
    browser.close_terminal(with_signal=with_signal)
    assert browser.clipboard.text == ""
    browser.wait_for_worker_to_end()
    assert wait_for_draft().read_text() == UNSAVED


def test_an_error_in_a_handler_loses_nothing(browser: Browser) -> None:
    browser.copy_secret()
    browser.write_text()
    browser.press(F8)
    assert browser.wait_for_exit() == 1
    assert browser.is_restored()
    assert b"RuntimeError" in browser.raw
    assert browser.clipboard.text == ""
    browser.wait_for_worker_to_end()
    assert wait_for_draft().read_text() == UNSAVED


def test_an_error_beside_a_secret_does_not_quote_it(browser: Browser) -> None:
    browser.press(F9)
    browser.wait_for_text("No secrets in this session")
    browser.press(F8)
    assert browser.wait_for_exit() == 1
    output = browser.raw.rpartition(b"\x1b[?1049l")[2]
    assert re.search(rb"action_crash.*RuntimeError", output, re.DOTALL)
    assert SECRET.encode() not in output


@pytest.mark.parametrize(("copied_since", "left"), [(None, ""), ("something else", "something else")])
def test_a_kill_clears_the_clipboard_of_the_secret_alone(browser: Browser, copied_since: str | None, left: str) -> None:
    browser.copy_secret()
    process = browser.find_clearing_process()
    if copied_since is not None:
        browser.clipboard.text = copied_since
    os.killpg(browser.pid, signal.SIGKILL)
    assert browser.wait_for_exit() == -signal.SIGKILL
    wait_for_end(process)
    assert browser.clipboard.text == left


def test_the_process_that_clears_the_clipboard_does_not_show_the_secret(browser: Browser) -> None:
    browser.copy_secret()
    process = Path(f"/proc/{browser.find_clearing_process()}")
    assert not any(SECRET.encode() in (process / name).read_bytes() for name in ("cmdline", "environ"))
    browser.press("q")
    assert browser.wait_for_exit() == 0
    assert not process.exists()


def test_unsaved_text_survives_a_kill_and_is_named_at_the_next_start(browser: Browser) -> None:
    browser.write_text()
    draft = wait_for_draft()
    os.kill(browser.pid, signal.SIGKILL)
    assert browser.wait_for_exit() == -signal.SIGKILL
    browser.wait_for_worker_to_end()
    assert draft.read_text() == UNSAVED
    with Browser(browser.folder) as next_browser:
        seconds = draft.name.partition(".")[0]  # the notification breaks the line after it
        next_browser.wait_for_text("Text that was not saved is in", f"~/.local/state/backscroll/drafts/{seconds}")
        next_browser.press("q")
        assert next_browser.wait_for_exit() == 0
    assert draft.exists()


def test_nothing_is_kept_of_text_that_was_dropped(browser: Browser) -> None:
    browser.write_text()
    draft = wait_for_draft()
    browser.press("\x1b")
    browser.wait_for_text("Unsaved changes")
    browser.press("d")
    browser.wait_until_gone(UNSAVED)
    browser.press("q")
    assert browser.wait_for_exit() == 0
    assert not draft.exists()


def test_only_drafts_of_browsers_that_ended_are_left(home: Path) -> None:
    own = Draft()
    own.keep("typed now")
    dead = drafts_folder() / "2026-01-01T000000.000000Z-999999999.md"
    dead.write_text("typed then")
    assert find_left_drafts() == [dead]
    own.keep("")
    assert not own.path.exists()


def test_several_drafts_are_one_notice() -> None:
    one, other = drafts_folder() / "a-1.md", drafts_folder() / "b-2.md"
    assert describe_left_drafts([one]).startswith(f"Text that was not saved is in {abbreviate_home(str(one))}.")
    assert describe_left_drafts([one, other]).startswith("Text that was not saved is in 2 files in ")
