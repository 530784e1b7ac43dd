"""Going back to the agent: the card before it, the picker, and the terminal handed over to a program that tells what
it was given."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_running import CommandLine
from conftest import Clipboard
from textual.pilot import Pilot
from tui_terminal import Terminal
from tui_world import add, answer, before, browser, fill, prompt, screen_text, until, until_shown

from store.resuming import Resumption
from store.store import Store
from tui.app import Backscroll
from tui.screens.browser import BrowserScreen
from tui.screens.resume import ResumeScreen

NATIVE = "e0741090-8059"

BACKSCROLL = """
import sys
from tui.main import main
sys.argv = ["backscroll", *sys.argv[1:]]
sys.exit(main())
"""


class Agent:
    """A program named `claude` that says where it was started, and with what."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "ran.json"
        program = folder / "bin" / "claude"
        program.parent.mkdir()
        program.write_text(
            f"#!{sys.executable}\n"
            "import json, os, sys\n"
            f"json.dump([sys.argv[1:], os.getcwd(), sys.stdin.isatty()], open({str(self._log)!r}, 'w'))\n"
            "print('the agent goes on')\n"
            "sys.exit(7)\n"
        )
        program.chmod(0o755)

    @property
    def ran(self) -> tuple[list[str], str, bool] | None:
        """Arguments, folder, and whether it was handed a terminal."""
        return tuple(json.loads(self._log.read_text())) if self._log.exists() else None


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return Agent(tmp_path)


@pytest.fixture
def folder(home: Path) -> Path:
    """Where the newest conversation was."""
    made = home / "shop [b]"
    made.mkdir()
    return made


@pytest.fixture
def world(store: Store, folder: Path) -> Store:
    fill(store)
    for name, where in (("gone", folder / "gone"), ("shop", folder)):
        at = before(minutes=3 if name == "gone" else 1)
        said = prompt(f"Paint the {name}", at), answer(f"The {name} is purple.", at)
        add(store, f"claude:{name}", at, *said, source="claude", native_id=NATIVE, cwd=str(where))
    return store


async def open_card(pilot: Pilot[Any], *keys: str) -> None:
    await until_shown(pilot, "8 sessions", "Paint the shop")
    await pilot.press(*keys, "r")
    await until(pilot, lambda: isinstance(pilot.app.screen, ResumeScreen))
    await until_shown(pilot, "Continue in", "Stay")


# ── the card ──────────────────────────────────────────────────────────────────────────────────────


async def test_the_card_says_what_will_be_run_and_where_and_enter_hands_over(
    world: Store, agent: Agent, folder: Path
) -> None:
    app = browser(world)
    async with app.run_test(size=(100, 30)) as pilot:
        await open_card(pilot)
        await until_shown(
            pilot, "Continue in Claude Code", "Paint the shop", f"claude --resume {NATIVE}", "~/shop [b]   ✓"
        )
        await until_shown(pilot, "⏎ Go", "h Here", "c Copy command")
        await pilot.press("enter")
        await until(pilot, lambda: app._exit)
    assert app.return_value is not None
    assert (app.return_value.argv, app.return_value.folder) == (("claude", "--resume", NATIVE), folder)


async def test_escape_stays(world: Store, agent: Agent) -> None:
    app = browser(world)
    async with app.run_test(size=(100, 30)) as pilot:
        for key in ("escape", "q"):
            await open_card(pilot)
            await pilot.press(key)
            await until(pilot, lambda: isinstance(app.screen, BrowserScreen))
        assert not app._exit


async def test_what_is_missing_is_said_and_enter_does_nothing(
    world: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    app = browser(world)
    async with app.run_test(size=(100, 30)) as pilot:
        await open_card(pilot, "down")
        await until_shown(pilot, "~/shop [b]/gone   not there", "The program claude is not installed")
        assert "⏎ Go" not in screen_text(pilot)
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, ResumeScreen)
        assert not app._exit


async def test_h_goes_on_here_and_back_in_its_own_folder(
    world: Store, agent: Agent, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = home / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    app = browser(world)
    async with app.run_test(size=(100, 30)) as pilot:
        await open_card(pilot, "down")
        await until_shown(pilot, "~/shop [b]/gone   not there")
        await pilot.press("h")
        await until_shown(pilot, "~/here   ✓", "⏎ Go")
        await pilot.press("h")
        await until_shown(pilot, "~/shop [b]/gone   not there")
        await pilot.press("h", "enter")
        await until(pilot, lambda: app._exit)
    assert app.return_value is not None
    assert app.return_value.folder == here


async def test_here_is_nowhere_when_this_folder_was_deleted(
    world: Store, agent: Agent, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = home / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    async with browser(world).run_test(size=(100, 30)) as pilot:
        await open_card(pilot)
        here.rmdir()
        await pilot.press("h")
        await until_shown(pilot, "~/shop [b]   ✓")


async def test_c_copies_the_command_from_the_card_and_from_the_list(
    world: Store, agent: Agent, folder: Path, clipboard: Clipboard
) -> None:
    command = f"cd '{folder}' && claude --resume {NATIVE}"
    async with browser(world).run_test(size=(100, 30), notifications=True) as pilot:
        await open_card(pilot)
        await pilot.press("c")
        await until_shown(pilot, "Copied the command.")
        assert clipboard.text == command
        assert isinstance(pilot.app.screen, ResumeScreen)
        clipboard.text = ""
        await pilot.press("escape", "c")
        await until(pilot, lambda: clipboard.text)
        assert clipboard.text == command
        await pilot.press("C")
        await until(pilot, lambda: clipboard.text == "claude:shop")


async def test_an_agent_without_a_command_shows_what_to_do_instead(world: Store, clipboard: Clipboard) -> None:
    app = browser(world)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await until_shown(pilot, "8 sessions", "Good morning!")
        await open_card(pilot, "down", "down", "down", "down")
        await until_shown(pilot, "Continue in Pingu", "Write in the Telegram chat 648079060.")
        assert "Here" not in screen_text(pilot)
        await pilot.press("enter", "h", "c")
        await until_shown(pilot, "Copied how it goes on.")
        assert clipboard.text == "Write in the Telegram chat 648079060."
        assert not app._exit


async def test_in_the_conversation_it_is_the_one_that_is_read(world: Store, agent: Agent) -> None:
    async with browser(world).run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "8 sessions", "Paint the shop")
        await pilot.press("down", "enter")
        await until_shown(pilot, "The gone is purple.")
        await pilot.press("r")
        await until_shown(pilot, "Continue in Claude Code", "Paint the gone")


# ── the picker ────────────────────────────────────────────────────────────────────────────────────


async def test_the_picker_hands_over_at_once_where_nothing_stands_in_the_way(world: Store, agent: Agent) -> None:
    app = Backscroll(world, pick=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "backscroll resume", "8 sessions")
        await pilot.press(*"shop", "enter")
        await until(pilot, lambda: app._exit)
    assert isinstance(app.return_value, Resumption)
    assert app.return_value.session.id == "claude:shop"


async def test_the_picker_shows_the_card_where_something_does_and_leaves_with_it(world: Store, agent: Agent) -> None:
    app = Backscroll(world, pick=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "backscroll resume", "8 sessions")
        await pilot.press(*"gone", "enter")
        await until_shown(pilot, "Continue in Claude Code", "~/shop [b]/gone   not there")
        await pilot.press("escape")
        await until(pilot, lambda: app._exit)
    assert app.return_value is None


async def test_the_picker_is_left_with_escape(world: Store) -> None:
    app = Backscroll(world, pick=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "backscroll resume", "8 sessions")
        await pilot.press("escape")
        await until(pilot, lambda: app._exit)
    assert (app.return_value, app.return_code) == (None, 0)


# ── handed over, for real ─────────────────────────────────────────────────────────────────────────


def test_the_agent_takes_over_the_terminal_in_its_folder(world: Store, agent: Agent, folder: Path) -> None:
    with Terminal(BACKSCROLL, "--store", str(world.path), "resume") as terminal:
        terminal.until_shown("backscroll resume", "Paint the shop")
        terminal.press("shop\r")
        assert terminal.until_closed() == 7
        assert terminal.raw.rstrip().endswith(b"the agent goes on")
        assert terminal.raw.count(b"\x1b[?1049l") == terminal.raw.count(b"\x1b[?1049h") == 1
    assert agent.ran == (["--resume", NATIVE], str(folder), True)


def test_from_the_browser_the_same(world: Store, agent: Agent, folder: Path) -> None:
    with Terminal(BACKSCROLL, "--store", str(world.path)) as terminal:
        terminal.until_shown("Paint the shop", "sessions")
        terminal.press("r")
        terminal.until_shown("Continue in Claude Code")
        terminal.press("\r")
        assert terminal.until_closed() == 7
    assert agent.ran == (["--resume", NATIVE], str(folder), True)


def test_whoever_leaves_the_picker_comes_back_to_their_shell(world: Store, agent: Agent) -> None:
    with Terminal(BACKSCROLL, "--store", str(world.path), "resume") as terminal:
        terminal.until_shown("backscroll resume", "Paint the shop")
        terminal.press("\x1b")
        assert terminal.until_closed() == 0
    assert agent.ran is None


# ── the command ───────────────────────────────────────────────────────────────────────────────────


def test_the_command_is_printed_and_not_run(world: Store, agent: Agent, folder: Path, tmp_path: Path) -> None:
    run = CommandLine(world.path)
    ran = run("resume", "claude:shop", "--print")
    assert (ran.status, ran.out, ran.err) == (0, f"cd '{folder}' && claude --resume {NATIVE}\n", "")
    elsewhere = run("resume", "claude:gone", "--print", "--cwd", str(tmp_path))
    assert (elsewhere.out, elsewhere.err) == (f"cd {tmp_path} && claude --resume {NATIVE}\n", "")
    gone = run("resume", "claude:gone", "--print")
    assert gone.status == 0
    assert f"claude --resume {NATIVE}" in gone.out
    assert "is not there any more" in gone.err
    assert agent.ran is None


def test_a_named_session_goes_on_at_once(world: Store, agent: Agent, folder: Path, tmp_path: Path) -> None:
    run = CommandLine(world.path)
    assert run.process("resume", "claude:shop").status == 7
    assert agent.ran == (["--resume", NATIVE], str(folder), False)
    assert run.process("resume", "claude:gone", "--cwd", str(tmp_path)).status == 7
    assert agent.ran == (["--resume", NATIVE], str(tmp_path), False)


def test_what_cannot_go_on_says_why(world: Store, agent: Agent) -> None:
    run = CommandLine(world.path)
    for args, why in [
        (["claude:gone"], "is not there any more; name another with --cwd"),
        (["codex:0199aa"], "The program codex is not installed"),
        (["telegram:648079060"], "Write in the Telegram chat 648079060."),
        (["telegram:648079060", "--print"], "Write in the Telegram chat 648079060."),
        (["nobody"], "nobody"),
        ([], "There is no terminal to choose in; name the session."),
        (["--print"], "Name the session; without one, only the list is opened."),
    ]:
        ran = run.process("resume", *args)
        assert ran.status != 0
        assert why in ran.err
        assert ran.out == ""
    assert agent.ran is None


@pytest.mark.parametrize("native", ["--dangerously-skip-permissions", "a\x03\nrm -rf ~\n"])
async def test_a_session_with_a_hostile_name_is_not_handed_anything(
    store: Store, agent: Agent, folder: Path, clipboard: Clipboard, native: str
) -> None:
    add(store, "evil", before(), prompt("Go on", before()), source="claude", native_id=native, cwd=str(folder))
    for args in (["resume", "evil"], ["resume", "evil", "--print"]):
        ran = CommandLine(store.path).process(*args)
        assert (ran.status != 0, ran.out) == (True, "")
        assert "which Claude Code would not take for a name" in ran.err
    app = browser(store)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await until_shown(pilot, "1 session", "Go on")
        await pilot.press("r")
        await until_shown(pilot, "which Claude Code")
        await pilot.press("enter", "c")
        await until_shown(pilot, "Copied how it goes on.")
        assert clipboard.text.isprintable()
        assert not app._exit
    assert agent.ran is None
