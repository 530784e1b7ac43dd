"""Tests resuming a session: the card, the picker, and a fake agent that logs how it was started."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from browser_driver import (
    add_session,
    answer_entry,
    fill_store,
    make_browser,
    prompt_entry,
    screen_text,
    time_ago,
    wait_for_text,
    wait_until,
)
from command_line import CommandLine
from fake_clipboard import FakeClipboard
from foreign_databases import sync_paths
from pty_terminal import Terminal
from source_samples import SAMPLES
from textual.pilot import Pilot

from store.resume.command import ResumePlan
from store.store import Store
from tui.app import Backscroll
from tui.screens.browser.screen import BrowserScreen
from tui.screens.resume import ResumeScreen
from tui.settings import Settings

NATIVE = "e0741090-8059"

BACKSCROLL = """
import sys
from tui.main import main
sys.argv = ["backscroll", *sys.argv[1:]]
sys.exit(main())
"""


class Agent:
    """Is a program named `claude` that logs its folder and its arguments."""

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
        """The arguments, the folder, and whether it got a terminal."""
        return tuple(json.loads(self._log.read_text())) if self._log.exists() else None


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return Agent(tmp_path)


@pytest.fixture
def folder(home: Path) -> Path:
    """The folder of the newest conversation."""
    made = home / "shop [b]"
    made.mkdir()
    return made


@pytest.fixture
def world(store: Store, folder: Path) -> Store:
    fill_store(store)
    store.sessions.pin([store.sessions.get("claude:e0741090")], on=False)  # pinned ones would be listed first
    for name, where in (("gone", folder / "gone"), ("shop", folder)):
        at = time_ago(minutes=3 if name == "gone" else 1)
        said = prompt_entry(f"Paint the {name}", at), answer_entry(f"The {name} is purple.", at)
        add_session(store, f"claude:{name}", at, *said, source="claude", native_id=NATIVE, cwd=str(where))
    return store


async def open_card(pilot: Pilot[Any], *keys: str) -> None:
    await wait_for_text(pilot, "8 sessions", "Paint the shop")
    await pilot.press(*keys, "r")
    await wait_until(pilot, lambda: isinstance(pilot.app.screen, ResumeScreen))
    await wait_for_text(pilot, "Resume in", "Cancel")


# ── the card ──────────────────────────────────────────────────────────────────────────────────────


async def test_the_card_shows_the_command_and_the_folder_and_enter_resumes(
    world: Store, agent: Agent, folder: Path
) -> None:
    app = make_browser(world)
    async with app.run_test(size=(100, 30)) as pilot:
        await open_card(pilot)
        await wait_for_text(
            pilot, "Resume in Claude Code", "Paint the shop", f"claude --resume {NATIVE}", "✓ ~/shop [b]"
        )
        await wait_for_text(pilot, "↵ Resume", "d Folder", "h Here", "f Fork", "c Copy")
        await pilot.press("question_mark")
        await wait_for_text(pilot, "Resume in another folder", "This screen")
        await pilot.press("escape")
        await wait_for_text(pilot, "Resume in Claude Code")
        await pilot.press("enter")
        await wait_until(pilot, lambda: app._exit)
    assert app.return_value is not None
    assert (app.return_value.argv, app.return_value.folder) == (("claude", "--resume", NATIVE), folder)


async def test_escape_closes_the_card(world: Store, agent: Agent) -> None:
    app = make_browser(world)
    async with app.run_test(size=(100, 30)) as pilot:
        for key in ("escape", "q"):
            await open_card(pilot)
            await pilot.press(key)
            await wait_until(pilot, lambda: isinstance(app.screen, BrowserScreen))
        assert not app._exit


async def test_missing_things_are_shown_and_enter_says_so(
    world: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    app = make_browser(world)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await open_card(pilot, "down")
        await wait_for_text(pilot, "✗ ~/shop [b]/gone does not exist", "✗ claude is not installed", "Install it: npm")
        assert "↵ Resume" not in screen_text(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "The agent cannot start yet.")
        assert isinstance(app.screen, ResumeScreen)
        assert not app._exit


async def test_h_switches_between_this_folder_and_the_folder_of_the_session(
    world: Store, agent: Agent, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = home / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    app = make_browser(world)
    async with app.run_test(size=(100, 30)) as pilot:
        await open_card(pilot, "down")
        await wait_for_text(pilot, "✗ ~/shop [b]/gone does not exist")
        await pilot.press("h")
        await wait_for_text(pilot, "✓ ~/here", "↵ Resume")
        await pilot.press("h")
        await wait_for_text(pilot, "✗ ~/shop [b]/gone does not exist")
        await pilot.press("h", "enter")
        await wait_until(pilot, lambda: app._exit)
    assert app.return_value is not None
    assert app.return_value.folder == here


async def test_h_does_nothing_if_this_folder_was_deleted(
    world: Store, agent: Agent, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = home / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    async with make_browser(world).run_test(size=(100, 30)) as pilot:
        await open_card(pilot)
        here.rmdir()
        await pilot.press("h")
        await wait_for_text(pilot, "✓ ~/shop [b]")


async def test_c_copies_the_command_from_the_card_and_from_the_list(
    world: Store, agent: Agent, folder: Path, clipboard: FakeClipboard
) -> None:
    command = f"cd '{folder}' && claude --resume {NATIVE}"
    async with make_browser(world).run_test(size=(100, 30), notifications=True) as pilot:
        await open_card(pilot)
        await pilot.press("c")
        await wait_for_text(pilot, "Copied the command.")
        assert clipboard.text == command
        assert isinstance(pilot.app.screen, ResumeScreen)
        clipboard.text = ""
        await pilot.press("escape", "c")
        await wait_until(pilot, lambda: clipboard.text)
        assert clipboard.text == command
        await pilot.press("C")
        await wait_until(pilot, lambda: clipboard.text == "claude:shop")


async def test_an_agent_without_a_command_shows_what_to_do_instead(world: Store, clipboard: FakeClipboard) -> None:
    app = make_browser(world)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await wait_for_text(pilot, "8 sessions", "Good morning!")
        await open_card(pilot, "down", "down", "down", "down")
        await wait_for_text(pilot, "Resume in Pingu", "Write in the Telegram chat 648079060.")
        assert "Here" not in screen_text(pilot)
        await pilot.press("enter", "h", "c")
        await wait_for_text(pilot, "Copied the instructions.")
        assert clipboard.text == "Write in the Telegram chat 648079060."
        assert not app._exit


async def test_r_in_a_conversation_resumes_that_conversation(world: Store, agent: Agent) -> None:
    async with make_browser(world).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "8 sessions", "Paint the shop")
        await pilot.press("down", "enter")
        await wait_for_text(pilot, "The gone is purple.")
        await pilot.press("r")
        await wait_for_text(pilot, "Resume in Claude Code", "Paint the gone")


async def test_slow_checks_run_while_the_card_is_shown(world: Store, agent: Agent, folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/paint")
    async with make_browser(world).run_test(size=(100, 30)) as pilot:
        await open_card(pilot)
        await wait_for_text(pilot, "branch       · paint", "session      ✓ not in use", "edits        · none")


async def test_another_folder_can_be_chosen(world: Store, agent: Agent, folder: Path) -> None:
    (folder / "inner" / "deep").mkdir(parents=True)
    (folder / "inner" / ".hidden").mkdir()
    app = make_browser(world)
    async with app.run_test(size=(100, 30)) as pilot:
        await open_card(pilot, "down")
        await wait_for_text(pilot, "✗ ~/shop [b]/gone")
        await pilot.press("d")
        await wait_for_text(pilot, "Resume in another folder", "~/shop [b]/", "inner/")
        await pilot.press(*"xyz", "enter")
        await wait_for_text(pilot, "No such folder: ~/shop [b]/xyz")
        await pilot.press("backspace", "backspace", "backspace")
        await wait_for_text(pilot, "inner/")
        await pilot.press("tab")
        await wait_for_text(pilot, "~/shop [b]/inner/", "deep/")
        assert ".hidden" not in screen_text(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "✓ ~/shop [b]/inner", "↵ Resume")
        await pilot.press("enter")
        await wait_until(pilot, lambda: app._exit)
    assert app.return_value is not None
    assert app.return_value.folder == folder / "inner"


async def test_f_forks_if_the_agent_can(world: Store, agent: Agent, folder: Path) -> None:
    app = make_browser(world)
    async with app.run_test(size=(100, 30)) as pilot:
        await open_card(pilot)
        await pilot.press("f")
        await wait_for_text(pilot, "Fork and resume in Claude Code", f"claude --resume {NATIVE} --fork-session")
        await pilot.press("f")
        await wait_for_text(pilot, "Resume in Claude Code")
        assert "--fork-session" not in screen_text(pilot)
        await pilot.press("f", "enter")
        await wait_until(pilot, lambda: app._exit)
    assert app.return_value is not None
    assert app.return_value.argv == ("claude", "--resume", NATIVE, "--fork-session")


async def test_an_agent_that_cannot_fork_is_reported_and_the_card_stays_the_same(store: Store) -> None:
    add_session(
        store, "gemini:1", time_ago(), prompt_entry("Paint", time_ago()), source="gemini", native_id="1", cwd="/nowhere"
    )
    async with make_browser(store).run_test(size=(100, 30)) as pilot:
        await wait_for_text(pilot, "1 session", "Paint")
        await pilot.press("r")
        await wait_for_text(pilot, "gemini --resume 1")
        await pilot.press("f")
        await wait_for_text(pilot, "Gemini CLI cannot fork a session. Press F", "gemini --resume 1")


async def test_p_lets_the_agent_act_without_asking_and_is_remembered_for_this_agent(
    world: Store, agent: Agent, home: Path
) -> None:
    app = make_browser(world)
    async with app.run_test(size=(100, 30)) as pilot:
        await open_card(pilot)
        await wait_for_text(pilot, "permissions  · asks first")
        await pilot.press("p")
        await wait_for_text(pilot, "permissions  ! never asks (--dangerously-skip-permissions)")
    assert Settings().skip_permissions == {"claude"}
    app = Backscroll(world, pick=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "backscroll resume", "8 sessions")
        await pilot.press(*"shop", "enter")
        await wait_for_text(pilot, "Resume in Claude Code", "! never")
        await pilot.press("enter")
        await wait_until(pilot, lambda: app._exit)
    assert app.return_value is not None
    assert app.return_value.argv == ("claude", "--resume", NATIVE, "--dangerously-skip-permissions")
    app = make_browser(world)
    async with app.run_test(size=(100, 30)) as pilot:
        await open_card(pilot)
        await wait_for_text(pilot, "! never")
        await pilot.press("p")
        await wait_for_text(pilot, "permissions  · asks first")
    assert Settings().skip_permissions == set()


async def test_edits_can_be_written_back_first(store: Store, tmp_path: Path) -> None:
    sync_paths(store, SAMPLES["pingu"](tmp_path))
    session = next(session for session in store.sessions.newest(9) if session.turns)
    store.sessions.set_title(session, "Mine")
    app = make_browser(store)
    async with app.run_test(size=(100, 30)) as pilot:
        app.push_screen(ResumeScreen(store, store.sessions.by_key(session.key), app.settings))
        await wait_for_text(pilot, "edits        ! title not written back", "w Write back")
        await pilot.press("w")
        await wait_for_text(pilot, "+ Mine", "↵ Write back")
        await pilot.press("enter")
        await wait_for_text(pilot, "You can undo this.")
        await pilot.press("escape")
        await wait_for_text(pilot, "edits        · none")
        assert "Write back" not in screen_text(pilot)


# ── the picker ────────────────────────────────────────────────────────────────────────────────────


async def test_the_picker_resumes_immediately_if_nothing_is_missing(world: Store, agent: Agent) -> None:
    app = Backscroll(world, pick=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "backscroll resume", "8 sessions")
        await pilot.press(*"shop", "enter")
        await wait_until(pilot, lambda: app._exit)
    assert isinstance(app.return_value, ResumePlan)
    assert app.return_value.session.id == "claude:shop"


async def test_the_picker_shows_the_card_if_something_is_missing(world: Store, agent: Agent) -> None:
    app = Backscroll(world, pick=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "backscroll resume", "8 sessions")
        await pilot.press(*"gone", "enter")
        await wait_for_text(pilot, "Resume in Claude Code", "✗ ~/shop [b]/gone does not exist")
        await pilot.press("escape", "escape", "escape")
        await wait_until(pilot, lambda: app._exit)
    assert app.return_value is None


async def test_escape_leaves_the_picker(world: Store) -> None:
    app = Backscroll(world, pick=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "backscroll resume", "8 sessions")
        await pilot.press("escape")
        await wait_until(pilot, lambda: app._exit)
    assert (app.return_value, app.return_code) == (None, 0)


# ── in a real terminal ────────────────────────────────────────────────────────────────────────────


def test_the_agent_gets_the_terminal_in_its_folder(world: Store, agent: Agent, folder: Path) -> None:
    with Terminal(BACKSCROLL, "--store", str(world.path), "resume") as terminal:
        terminal.wait_for_text("backscroll resume", "Paint the shop")
        terminal.press("shop\r")
        assert terminal.wait_for_exit() == 7
        assert terminal.raw.rstrip().endswith(b"the agent goes on")
        assert terminal.raw.count(b"\x1b[?1049l") == terminal.raw.count(b"\x1b[?1049h") == 1
    assert agent.ran == (["--resume", NATIVE], str(folder), True)


def test_the_agent_gets_the_terminal_from_the_browser(world: Store, agent: Agent, folder: Path) -> None:
    with Terminal(BACKSCROLL, "--store", str(world.path)) as terminal:
        terminal.wait_for_text("Paint the shop", "sessions")
        terminal.press("r")
        terminal.wait_for_text("Resume in Claude Code")
        terminal.press("\r")
        assert terminal.wait_for_exit() == 7
    assert agent.ran == (["--resume", NATIVE], str(folder), True)


def test_leaving_the_picker_returns_to_the_shell(world: Store, agent: Agent) -> None:
    with Terminal(BACKSCROLL, "--store", str(world.path), "resume") as terminal:
        terminal.wait_for_text("backscroll resume", "Paint the shop")
        terminal.press("\x1b")
        assert terminal.wait_for_exit() == 0
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
    assert "No such folder" in gone.err
    assert agent.ran is None


def test_a_named_session_is_resumed_immediately(world: Store, agent: Agent, folder: Path, tmp_path: Path) -> None:
    run = CommandLine(world.path)
    assert run.run_process("resume", "claude:shop").status == 7
    assert agent.ran == (["--resume", NATIVE], str(folder), False)
    assert run.run_process("resume", "claude:gone", "--cwd", str(tmp_path)).status == 7
    assert agent.ran == (["--resume", NATIVE], str(tmp_path), False)


def test_a_session_that_cannot_be_resumed_shows_the_reason(world: Store, agent: Agent) -> None:
    run = CommandLine(world.path)
    for args, why in [
        (["claude:gone"], ". Use --cwd to choose another."),
        (["codex:0199aa"], "codex is not installed"),
        (["telegram:648079060"], "Write in the Telegram chat 648079060."),
        (["telegram:648079060", "--print"], "Write in the Telegram chat 648079060."),
        (["nobody"], "nobody"),
        ([], "A list of sessions needs a terminal. Name an ID."),
        (["--print"], "These options need an ID."),
    ]:
        ran = run.run_process("resume", *args)
        assert ran.status != 0
        assert why in ran.err
        assert ran.out == ""
    assert agent.ran is None


def test_forking_and_skipping_permissions_need_an_option(world: Store, agent: Agent, folder: Path) -> None:
    run = CommandLine(world.path)
    shown = run("resume", "claude:shop", "--fork", "--skip-permissions", "--print")
    options = "--fork-session --dangerously-skip-permissions"
    assert shown.out == f"cd '{folder}' && claude --resume {NATIVE} {options}\n"
    Settings().set_skip_permissions("claude", skip=True)
    assert "--dangerously" not in run("resume", "claude:shop", "--print").out
    assert "--dangerously" not in run("resume", "claude:shop", "--print", "--ask-permissions").out
    at = time_ago(minutes=9)
    add_session(world, "goose:1", at, prompt_entry("Paint", at), source="goose", native_id="1")
    add_session(world, "gemini:1", at, prompt_entry("Paint", at), source="gemini", native_id="1")
    for args, why in [
        (["goose:1", "--skip-permissions"], "Goose has no option to act without asking for permission."),
        (
            ["gemini:1", "--fork"],
            "Gemini CLI cannot fork a session. Press F in the conversation, or run `backscroll fork`.",
        ),
        (["--fork"], "These options need an ID."),
    ]:
        ran = run("resume", *args)
        assert (ran.status != 0, ran.out) == (True, "")
        assert why in ran.err


def test_warnings_are_printed_before_the_agent_starts(store: Store, agent: Agent, tmp_path: Path) -> None:
    sync_paths(store, SAMPLES["claude"](tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/topic")
    native = "c1000000-0000-4000-8000-000000000003"
    ran = CommandLine(store.path).run_process("resume", native, "--cwd", str(tmp_path))
    assert (ran.status, ran.err) == (7, "branch: was main, is topic now\n")
    assert agent.ran == (["--resume", native], str(tmp_path), False)


@pytest.mark.parametrize("native", ["--dangerously-skip-permissions", "a\x03\nrm -rf ~\n"])
async def test_a_session_with_a_hostile_id_is_not_resumed(
    store: Store, agent: Agent, folder: Path, clipboard: FakeClipboard, native: str
) -> None:
    add_session(
        store, "evil", time_ago(), prompt_entry("Go on", time_ago()), source="claude", native_id=native, cwd=str(folder)
    )
    for args in (["resume", "evil"], ["resume", "evil", "--print"]):
        ran = CommandLine(store.path).run_process(*args)
        assert (ran.status != 0, ran.out) == (True, "")
        assert "is unsafe as an argument of Claude Code" in ran.err
    app = make_browser(store)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await wait_for_text(pilot, "1 session", "Go on")
        await pilot.press("r")
        await wait_for_text(pilot, "is unsafe as an argument")
        await pilot.press("enter", "c")
        await wait_for_text(pilot, "Copied the instructions.")
        assert clipboard.text.isprintable()
        assert not app._exit
    assert agent.ran is None
