"""Tests how the resume card is rendered, also with hostile text, and the export as API input."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser_driver import (
    add_session,
    answer_entry,
    make_browser,
    prompt_entry,
    screen_text,
    time_ago,
    wait_for_text,
    wait_until,
)
from fake_clipboard import FakeClipboard
from pytest_textual_snapshot import SVGImageExtension
from textual.app import App
from textual.pilot import Pilot

from store.errors import AlreadyExists, Refused
from store.resume.check_results import ResumeChecks
from store.store import Store
from tui.render.resume_card import RebuildReport, ResumeCard, render_input_card, render_resume_card
from tui.screens.rebuild import guess_shape
from tui.screens.resume import ResumeScreen
from tui.settings import Settings

# The plugin gives the extension under the name that an older syrupy knew.
SVGImageExtension.file_extension = "svg"

SIZES = pytest.mark.parametrize("size", [(140, 45), (80, 24)], ids=["wide", "narrow"])
HOSTILE = "a\x1b]52;c;aGk=\x07\u202e[b]x[/b]\n" + "x" * 5_000
GOING = ResumeCard(
    "Claude Code",
    "Fix the flaky upload test",
    "claude --resume e0741090",
    program_name="claude",
    program_path="/usr/local/bin/claude",
    folder="/home/ada/code/alpha",
    skip_options="--dangerously-skip-permissions",
)
LOOKED = ResumeChecks(recorded_branch="fix-upload", current_branch="main", unwritten_edits=("title",)).list_checks()


def test_the_results_of_checks_do_not_move_lines() -> None:
    looking, found = (
        render_resume_card(GOING, 70).plain.splitlines(),
        render_resume_card(GOING._replace(checks=LOOKED), 70).plain.splitlines(),
    )
    assert len(looking) == len(found)
    assert [line[:10] for line in looking] == [line[:10] for line in found]
    assert "branch       ! was fix-upload, is main now" in found


def test_missing_things_are_shown_with_advice() -> None:
    text = render_resume_card(
        GOING._replace(program_path="", install_hint="npm install -g x", folder_exists=False), 70
    ).plain
    assert "✗ claude is not installed" in text
    assert "Install it: npm install -g x" in text
    assert "Press d to choose one, or h for this terminal's folder." in text


@pytest.mark.parametrize("width", [20, 70])
def test_hostile_text_is_visible_and_does_not_fill_the_screen(width: int) -> None:
    going = GOING._replace(
        title=HOSTILE, command=HOSTILE, program_path=HOSTILE, folder=HOSTILE, hint=HOSTILE, message=HOSTILE
    )
    for shown in (
        render_resume_card(going, width),
        render_input_card(HOSTILE, "chat", RebuildReport([(HOSTILE, "kept", 1, "")], [HOSTILE]), width),
    ):
        assert not set("\x1b\x07\u202e") & set(shown.plain)
        assert "␛" in shown.plain
        assert not [span for span in shown.spans if span.style == "b"]
        assert len(shown.plain.splitlines()) < 200


# ── snapshots ─────────────────────────────────────────────────────────────────────────────────────


def shown(store: Store, session_id: str, *keys: str) -> Callable[[Pilot[Any]], Any]:
    async def take(pilot: Pilot[Any]) -> None:
        screen = ResumeScreen(store, store.sessions.get(session_id), Settings())
        await pilot.app.push_screen(screen)
        await wait_until(pilot, lambda: screen._checks)
        await pilot.press(*keys)
        await wait_until(pilot, lambda: screen._checks)
        await pilot.pause()

    return take


@pytest.fixture
def world(store: Store, monkeypatch: pytest.MonkeyPatch, home: Path) -> Store:
    """Only Claude Code is installed."""
    monkeypatch.setenv("PATH", str(home / "bin"))
    program = home / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (home / "alpha" / ".git").mkdir(parents=True)
    (home / "alpha" / ".git" / "HEAD").write_text("ref: refs/heads/main")
    for source, cwd in (("claude", str(home / "alpha")), ("gemini", "/home/ada/gone"), ("pingu", "")):
        said = prompt_entry("Fix the flaky upload test", time_ago()), answer_entry("Done.", time_ago())
        add_session(store, source, time_ago(), *said, source=source, native_id="telegram:648", cwd=cwd)
    return store


@SIZES
@pytest.mark.parametrize(
    ("session", "keys"),
    [("claude", ""), ("claude", "fp"), ("gemini", "f"), ("pingu", "")],
    ids=["clear", "forking", "missing", "elsewhere"],
)
def test_card(snap_compare: Callable[..., bool], world: Store, session: str, keys: str, size: tuple[int, int]) -> None:
    """The card is above an empty screen, so that the picture shows nothing else."""
    assert snap_compare(App[None](), terminal_size=size, run_before=shown(world, session, *keys))


# ── API input ─────────────────────────────────────────────────────────────────────────────────────


async def test_the_conversation_can_be_exported(world: Store, home: Path, clipboard: FakeClipboard) -> None:
    app = make_browser(world)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await shown(world, "pingu")(pilot)
        await wait_for_text(pilot, "Write in the Telegram chat 648.")
        await pilot.press("i")
        await wait_for_text(pilot, "Conversation as API input", "◉ OpenAI Chat", "f Save")
        await pilot.press("c")
        await wait_until(pilot, lambda: clipboard.text)
        assert [message["role"] for message in json.loads(clipboard.text)["messages"]] == ["user", "assistant"]
        await pilot.press("r")
        await wait_for_text(pilot, "◉ OpenAI Responses", "f Save")
        (home / "pingu.responses.json").write_text("mine")
        await pilot.press("f")
        await wait_for_text(pilot, "Save the API input as", "~/pingu.responses.json")
        await pilot.press("enter")
        await wait_for_text(pilot, "~/pingu.responses.json already exists. Choose another name.")
        await pilot.press(*"2", "enter")
        await wait_for_text(pilot, "Saved as")
        assert "Save the API input as" not in screen_text(pilot)
    assert (home / "pingu.responses.json").read_text() == "mine"
    path = home / "pingu.responses.json2"
    assert "input" in json.loads(path.read_text())
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_files_are_not_overwritten_and_errors_are_reported(tmp_path: Path) -> None:
    from tui.screens.rebuild import _save_to_file

    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AlreadyExists):
        _save_to_file("{}", str(tmp_path / "link"))
    for path in (str(tmp_path / "no" / "folder"), "~nobody-by-that-name/x", "a\x00b", ""):
        with pytest.raises((Refused, AlreadyExists)):
            _save_to_file("{}", path)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("fields", "shape"),
    [
        ({"provider": "anthropic"}, "anthropic"),
        ({"model": "claude-opus"}, "anthropic"),
        ({"provider": "openai"}, "responses"),
        ({"provider": "google"}, "chat"),
        ({}, "chat"),
    ],
)
def test_the_api_format_is_guessed_from_the_session(store: Store, fields: dict[str, str], shape: str) -> None:
    assert guess_shape(add_session(store, "s", time_ago(), prompt_entry("?", time_ago()), **fields)) == shape
