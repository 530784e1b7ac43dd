"""These tests cover the plan to resume a session: command, folder, obstacles and refusals."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from browser_driver import add_session, prompt_entry, time_ago

from store import sources
from store.errors import Refused
from store.model.session import Session
from store.resume.command import plan_resume
from store.store import Store

NATIVE = "e0741090-8059"


def make_session(store: Store, source: str = "claude", native: str = NATIVE, **fields: str) -> Session:
    return add_session(
        store, f"{source}:1", time_ago(), prompt_entry("Go on", time_ago()), source=source, native_id=native, **fields
    )


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program called claude, and no other, on the PATH."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


def test_with_program_and_folder_there_are_no_obstacles(store: Store, tmp_path: Path, claude: Path) -> None:
    plan = plan_resume(make_session(store, cwd=str(tmp_path)))
    assert (plan.argv, plan.folder, plan.obstacles) == (("claude", "--resume", NATIVE), tmp_path, ())
    assert plan.agent_label == "Claude Code"
    assert plan.command == f"cd {tmp_path} && claude --resume {NATIVE}"


def test_a_missing_program_or_folder_is_an_obstacle_and_the_command_can_still_be_copied(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    plan = plan_resume(make_session(store, cwd=str(tmp_path / "gone")))
    program, folder = plan.obstacles
    assert "claude is not installed" in program
    assert f"No such folder: {tmp_path / 'gone'}" in folder
    assert plan.command.endswith(f"claude --resume {NATIVE}")
    with pytest.raises(Refused, match=r"not installed.*No such folder"):
        plan.execute()


def test_a_file_and_a_relative_path_are_not_folders(store: Store, tmp_path: Path, claude: Path) -> None:
    session = make_session(store, cwd=str(claude))
    assert "No such folder" in plan_resume(session).obstacles[0]
    assert "No such folder" in plan_resume(session._replace(cwd=".")).obstacles[0]


def test_another_folder_replaces_that_of_the_session(store: Store, tmp_path: Path, claude: Path) -> None:
    plan = plan_resume(make_session(store, cwd="/not/there"), tmp_path)
    assert (plan.folder, plan.obstacles) == (tmp_path, ())


def test_another_folder_is_used_inside_the_command_too(store: Store, tmp_path: Path) -> None:
    plan = plan_resume(make_session(store, "opencode", cwd="--print-logs"), tmp_path)
    assert plan.argv == ("opencode", str(tmp_path), "--session", NATIVE)


def test_a_session_without_a_folder_is_resumed_in_the_current_one(store: Store, claude: Path) -> None:
    plan = plan_resume(make_session(store))
    assert (plan.folder, plan.obstacles) == (None, ())
    assert plan.command == f"claude --resume {NATIVE}"


@pytest.mark.parametrize(
    ("source", "native", "hint"),
    [
        ("pingu", "telegram:648", "Write in the Telegram chat 648."),
        ("library", "x", "the program that wrote it"),
        ("a program nobody knows", "x", "the program that wrote it"),
        ("claude", "abc/left", "Claude Code"),
    ],
)
def test_without_a_command_a_hint_says_how_to_continue(store: Store, source: str, native: str, hint: str) -> None:
    plan = plan_resume(make_session(store, source, native))
    assert (plan.argv, plan.command, plan.obstacles) == (None, "", ())
    assert hint in plan.hint
    with pytest.raises(Refused):
        plan.execute()


HOSTILE_NAMES = [
    "-p",
    "--dangerously-skip-permissions",
    "a\nrm -rf ~",
    "a\x03\nrm -rf ~\n",
    "a\x1b[201~;id",
    "a\x00b",
    "a\x7f",
    "a\x9b2J",
    "\ta",
]


@pytest.mark.parametrize("source", [source.name for source in sources.all_sources()])
def test_a_hostile_name_is_never_in_a_command_nor_in_a_hint(store: Store, source: str) -> None:
    """A hostile name is neither run nor copied: a terminal would obey it when it is pasted."""
    session = make_session(store)
    for native in HOSTILE_NAMES:
        native_id = f"app/user/{native}" if source == "adk" else native
        plan = plan_resume(session._replace(source=source, native_id=native_id))
        assert plan.command == ""
        assert plan.hint.isprintable()
        with pytest.raises(Refused):
            plan.execute()


def test_a_folder_with_a_hostile_name_is_refused_and_another_helps(store: Store, tmp_path: Path, claude: Path) -> None:
    folder = tmp_path / "a\x03\nb"
    folder.mkdir()
    session = make_session(store, cwd=str(folder))
    refused = plan_resume(session)
    assert refused.command == ""
    assert "Use --cwd to choose another" in refused.hint
    assert plan_resume(session, tmp_path).obstacles == ()


@pytest.mark.parametrize("name", ["$(touch owned)", "`touch owned`", "'; touch owned; '", "a b", '"', "*", "~", "\\"])
def test_a_shell_runs_exactly_the_command(store: Store, tmp_path: Path, claude: Path, name: str) -> None:
    claude.write_text('#!/bin/sh\nprintf "%s\\0" "$PWD" "$@"\n')
    folder = tmp_path / name
    folder.mkdir()
    plan = plan_resume(make_session(store, native=name, cwd=str(folder)))
    assert shlex.split(plan.command)[-3:] == ["claude", "--resume", name]
    ran = subprocess.run(["/bin/sh", "-c", plan.command], capture_output=True, text=True, check=True)
    assert ran.stdout.split("\0")[:-1] == [str(folder), "--resume", name]
    assert not list(tmp_path.rglob("owned"))
