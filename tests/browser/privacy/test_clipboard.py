"""Tests copying: to the clipboard of this machine, of tmux, or of the terminal."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import pyperclip
import pytest
from browser_driver import TIMEOUT, fill_store, make_browser, wait_for_text, wait_until
from fake_clipboard import ClipboardProgram, FakeClipboard

from store.store import Store
from tui.messages import Copy
from tui.privacy import clipboard as copying
from tui.privacy.clipboard import MAX_TERMINAL_BYTES, copy_locally, copy_secret

TEXT = "naïve ünïcode 日本語 \x1b[2J\n'quoted' $(not run)"


class Programs:
    """Holds small programs on a PATH of their own. Each of them logs its input."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(self, name: str, then: str = "") -> None:
        program = self.folder / name
        log = self.folder / f"{name}.received"
        program.write_text(f'#!/bin/sh\n/bin/echo "$*" > "{log}.args"\n/bin/cat > "{log}"\n{then}\n')
        program.chmod(0o755)

    def received(self, name: str) -> str | None:
        path = self.folder / f"{name}.received"
        return path.read_text() if path.exists() else None

    def arguments(self, name: str) -> str:
        return (self.folder / f"{name}.received.args").read_text().strip()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    found = Programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(found.folder))
    return found


def test_a_local_copy_goes_to_the_clipboard_of_the_machine(clipboard: FakeClipboard) -> None:
    assert copy_locally(TEXT, {})
    assert clipboard.text == TEXT


def test_xclip_gets_the_text_unchanged(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    """This uses pyperclip itself, with the program that an X11 desktop has."""
    programs.add("xclip")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(pyperclip, "copy", pyperclip.init_xclip_clipboard()[0])
    assert copy_locally(TEXT)
    assert programs.received("xclip") == TEXT
    assert programs.arguments("xclip") == "-selection c"


@pytest.mark.parametrize("reason", [pyperclip.PyperclipException("no clipboard"), OSError(), UnicodeError()])
def test_copying_fails_without_a_clipboard(reason: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> None:
        raise reason

    monkeypatch.setattr(pyperclip, "copy", fail)
    assert not copy_locally(TEXT, {})


def test_in_tmux_the_text_goes_to_its_buffer_and_to_the_terminal(programs: Programs, clipboard: FakeClipboard) -> None:
    programs.add("tmux")
    assert copy_locally(TEXT, {"TMUX": "/tmp/tmux-0/default,1,0"})
    assert programs.received("tmux") == TEXT
    assert programs.arguments("tmux") == "load-buffer -w -"
    assert clipboard.text == ""


@pytest.mark.parametrize("then", ["exit 1", "exec /bin/sleep 30"])
def test_a_tmux_that_fails_or_hangs_is_skipped(
    programs: Programs, clipboard: FakeClipboard, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    monkeypatch.setattr(copying, "TIMEOUT_SECONDS", 0.3)
    programs.add("tmux", then)
    assert copy_locally(TEXT, {"TMUX": "x"})
    assert clipboard.text == TEXT


def test_a_missing_tmux_is_skipped(programs: Programs, clipboard: FakeClipboard) -> None:
    assert copy_locally(TEXT, {"TMUX": "x"})
    assert clipboard.text == TEXT


@pytest.mark.parametrize("name", ["SSH_CONNECTION", "SSH_TTY"])
def test_over_ssh_only_the_terminal_or_tmux_gets_the_text(
    programs: Programs, clipboard: FakeClipboard, name: str
) -> None:
    programs.add("tmux")
    assert not copy_locally(TEXT, {name: "10.0.0.1"})
    assert (clipboard.text, programs.received("tmux")) == ("", None)
    assert copy_locally(TEXT, {name: "10.0.0.1", "TMUX": "x"})
    assert programs.received("tmux") == TEXT


def test_a_secret_is_cleared_even_if_the_browser_is_suspended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suspended browser has no timer; here nobody calls `clear` at all."""
    program = ClipboardProgram(tmp_path)
    for name, value in program.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(copying, "PROCESS_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(pyperclip, "copy", pyperclip.init_xclip_clipboard()[0])
    copied = copy_secret(TEXT, 0.5)
    deadline = time.monotonic() + TIMEOUT
    while program.text and time.monotonic() < deadline:
        time.sleep(0.05)
    assert program.text == ""
    assert copied is not None
    copied.clear()


def test_no_clipboard_program_of_the_current_folder_is_run(
    tmp_path: Path, clipboard: FakeClipboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository could contain one, and would get what is copied."""
    for name in ("xclip", "tmux"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n/bin/cat > '{tmp_path}/stolen'\n")
        program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    assert not copy_locally(TEXT, {"TMUX": "x"})
    assert clipboard.text == ""
    assert not (tmp_path / "stolen").exists()


# ── in the browser ────────────────────────────────────────────────────────────────────────────────


async def test_over_ssh_the_text_is_sent_to_the_terminal_with_a_notice(
    store: Store, clipboard: FakeClipboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_store(store)
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")
    app = make_browser(store)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        sent: list[str] = []
        monkeypatch.setattr(app._driver, "write", sent.append)
        await pilot.press("C")
        await wait_for_text(pilot, "Sent the id to the terminal's clipboard.")
        await wait_until(pilot, lambda: sent)
        encoded = base64.b64encode(b"claude:e0741090").decode()
        assert any(f"\x1b]52;c;{encoded}\x07" in data for data in sent)
        app.post_message(Copy("half a \ud800 character", "it"))
        await wait_for_text(pilot, "Sent it to the terminal's clipboard.")
    assert clipboard.text == ""


async def test_a_text_that_no_terminal_takes_is_not_sent(
    store: Store, clipboard: FakeClipboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else would be shown until the terminal has read all of it."""
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")
    app = make_browser(store)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        sent: list[str] = []
        monkeypatch.setattr(app._driver, "write", sent.append)
        app.post_message(Copy("漢" * MAX_TERMINAL_BYTES, "it"))
        await wait_for_text(pilot, "The text is too long for the terminal")
        assert not any("]52;" in data for data in sent)
    assert clipboard.text == ""


async def test_a_hanging_clipboard_does_not_block_the_browser(
    store: Store, programs: Programs, clipboard: FakeClipboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_store(store)
    let_go = programs.folder / "go"
    programs.add("tmux", f'while [ ! -e "{let_go}" ]; do /bin/sleep 0.05; done')
    monkeypatch.setenv("TMUX", "x")
    monkeypatch.setattr(copying, "TIMEOUT_SECONDS", 60)
    async with make_browser(store).run_test(size=(100, 30), notifications=True) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        await pilot.press("C", "down", "enter")
        await wait_for_text(pilot, "Done; 9 files changed.")
        let_go.touch()
        await wait_for_text(pilot, "Copied the id.")
    assert programs.received("tmux") == "claude:e0741090"
