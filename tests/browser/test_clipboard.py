"""Copying goes to the clipboard that the person pastes from: this machine's, tmux's, or that of the terminal."""

from __future__ import annotations

import base64
from pathlib import Path

import pyperclip
import pytest
from browser_driver import fill_store, make_browser, wait_for_text, wait_until
from conftest import FakeClipboard

from store.store import Store
from tui.messages import Copy
from tui.privacy import clipboard as copying
from tui.privacy.clipboard import copy_locally

TEXT = "naïve ünïcode 日本語 \x1b[2J\n'quoted' $(not run)"


class Programs:
    """Small programs on a PATH of their own, each of which writes down what it was given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(self, name: str, then: str = "") -> None:
        program = self.folder / name
        told = self.folder / f"{name}.told"
        program.write_text(f'#!/bin/sh\n/bin/echo "$*" > "{told}.args"\n/bin/cat > "{told}"\n{then}\n')
        program.chmod(0o755)

    def told(self, name: str) -> str | None:
        path = self.folder / f"{name}.told"
        return path.read_text() if path.exists() else None

    def arguments(self, name: str) -> str:
        return (self.folder / f"{name}.told.args").read_text().strip()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    found = Programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(found.folder))
    return found


def test_on_this_machine_its_own_clipboard_takes_it(clipboard: FakeClipboard) -> None:
    assert copy_locally(TEXT, {})
    assert clipboard.text == TEXT


def test_xclip_is_given_the_text_as_it_is(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The very program that a desktop of X11 has; pyperclip itself, not what stands for it elsewhere."""
    programs.add("xclip")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(pyperclip, "copy", pyperclip.init_xclip_clipboard()[0])
    assert copy_locally(TEXT)
    assert programs.told("xclip") == TEXT
    assert programs.arguments("xclip") == "-selection c"


@pytest.mark.parametrize("reason", [pyperclip.PyperclipException("no clipboard"), OSError(), UnicodeError()])
def test_a_machine_without_a_clipboard_says_so(reason: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> None:
        raise reason

    monkeypatch.setattr(pyperclip, "copy", fail)
    assert not copy_locally(TEXT, {})


def test_in_tmux_its_buffer_takes_it_and_hands_it_on(programs: Programs, clipboard: FakeClipboard) -> None:
    programs.add("tmux")
    assert copy_locally(TEXT, {"TMUX": "/tmp/tmux-0/default,1,0"})
    assert programs.told("tmux") == TEXT
    assert programs.arguments("tmux") == "load-buffer -w -"
    assert clipboard.text == ""


@pytest.mark.parametrize("then", ["exit 1", "exec /bin/sleep 30"])
def test_a_tmux_that_fails_or_hangs_is_passed_over(
    programs: Programs, clipboard: FakeClipboard, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    monkeypatch.setattr(copying, "TIMEOUT_SECONDS", 0.3)
    programs.add("tmux", then)
    assert copy_locally(TEXT, {"TMUX": "x"})
    assert clipboard.text == TEXT


def test_a_tmux_that_is_not_there_is_passed_over(programs: Programs, clipboard: FakeClipboard) -> None:
    assert copy_locally(TEXT, {"TMUX": "x"})
    assert clipboard.text == TEXT


@pytest.mark.parametrize("name", ["SSH_CONNECTION", "SSH_TTY"])
def test_at_the_far_end_of_ssh_only_the_terminal_can_take_it(
    programs: Programs, clipboard: FakeClipboard, name: str
) -> None:
    programs.add("tmux")
    assert not copy_locally(TEXT, {name: "10.0.0.1"})
    assert (clipboard.text, programs.told("tmux")) == ("", None)
    assert copy_locally(TEXT, {name: "10.0.0.1", "TMUX": "x"})
    assert programs.told("tmux") == TEXT


# ── in the browser ────────────────────────────────────────────────────────────────────────────────


async def test_over_ssh_the_terminal_is_sent_the_text_and_the_person_told(
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


async def test_a_clipboard_that_hangs_keeps_nobody_waiting(
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
    assert programs.told("tmux") == "claude:e0741090"
