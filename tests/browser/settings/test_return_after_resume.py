"""Tests the setting `[resume] return`: the browser is suspended while an agent runs, and comes back."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from browser_driver import add_session, answer_entry, prompt_entry, time_ago
from pty_terminal import Terminal

from store.paths import config_file
from store.store import Store

BROWSE = "import sys, tui.main; sys.exit(tui.main.main())"

AGENT = """#!{python}
import os, signal, sys
print("agent in", os.path.basename(os.getcwd()), "handles ctrl+c:", signal.getsignal(signal.SIGINT) is not None)
print("line:", sys.stdin.readline())
{end}
"""


@pytest.fixture
def browsed(store: Store, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with one session of Claude Code, and the setting."""
    (home / "shop").mkdir()
    said = prompt_entry("Paint the shop", time_ago()), answer_entry("It is purple.", time_ago())
    add_session(store, "claude:shop", time_ago(), *said, source="claude", native_id="e0", cwd=str(home / "shop"))
    store.close()
    config_file().parent.mkdir(parents=True)
    config_file().write_text("[resume]\nreturn = true\n")
    (home / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return store.path


def install_agent(home: Path, end: str) -> None:
    program = home / "bin" / "claude"
    program.write_text(AGENT.format(python=sys.executable, end=end))
    program.chmod(0o755)


def resume(terminal: Terminal) -> None:
    terminal.wait_for_text("1 session", "Paint the shop")
    terminal.press("r")
    terminal.wait_for_text("Resume in Claude Code")
    terminal.press("\r")
    terminal.wait_for_text("agent in shop")


@pytest.mark.parametrize(
    ("end", "notice"),
    [
        ("", "Claude Code ended."),
        ("sys.exit(7)", "Claude Code ended with status 7."),
        ("os.kill(os.getpid(), signal.SIGKILL)", f"Claude Code ended by signal {signal.SIGKILL:d}."),
    ],
)
def test_the_browser_comes_back(browsed: Path, home: Path, end: str, notice: str) -> None:
    install_agent(home, end)
    with Terminal(BROWSE, str(browsed)) as terminal:
        for _ in range(2):
            resume(terminal)
            terminal.press("typed\n")
            terminal.wait_for_text("1 session", "Paint the shop", notice)
        terminal.press("q")
        assert terminal.wait_for_exit() == 0
        assert terminal.raw.count(b"line: typed") == 2


def test_an_interrupt_is_for_the_agent(browsed: Path, home: Path) -> None:
    """The agent has Python's handler of Ctrl+C, so it was not started with an ignored signal."""
    install_agent(home, "")
    with Terminal(BROWSE, str(browsed)) as terminal:
        resume(terminal)
        os.kill(terminal.pid, signal.SIGINT)
        terminal.press("typed\n")
        terminal.wait_for_text("1 session", "Claude Code ended.")
        assert b"handles ctrl+c: True" in terminal.raw
        terminal.press("q")
        assert terminal.wait_for_exit() == 0


def test_an_agent_that_cannot_start_is_named(browsed: Path, home: Path) -> None:
    program = home / "bin" / "claude"
    program.write_bytes(b"\x7fELF no program")
    program.chmod(0o755)
    with Terminal(BROWSE, str(browsed)) as terminal:
        terminal.wait_for_text("1 session", "Paint the shop")
        terminal.press("r")
        terminal.wait_for_text("Resume in Claude Code")
        terminal.press("\r")
        terminal.wait_for_text("Cannot start claude")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0


def test_by_default_the_agent_takes_the_place_of_the_browser(browsed: Path, home: Path) -> None:
    config_file().unlink()
    install_agent(home, "sys.exit(7)")
    with Terminal(BROWSE, str(browsed)) as terminal:
        resume(terminal)
        terminal.press("typed\n")
        assert terminal.wait_for_exit() == 7
