"""How a session goes on: the command, where it is run, what stands in the way, and what is never made a command."""

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


def session_of(store: Store, source: str = "claude", native: str = NATIVE, **fields: str) -> Session:
    return add_session(
        store, f"{source}:1", time_ago(), prompt_entry("Go on", time_ago()), source=source, native_id=native, **fields
    )


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, and no other, on the PATH."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


def test_where_program_and_folder_are_there_nothing_stands_in_the_way(
    store: Store, tmp_path: Path, claude: Path
) -> None:
    found = plan_resume(session_of(store, cwd=str(tmp_path)))
    assert (found.argv, found.folder, found.obstacles) == (("claude", "--resume", NATIVE), tmp_path, ())
    assert found.agent_label == "Claude Code"
    assert found.command == f"cd {tmp_path} && claude --resume {NATIVE}"


def test_a_program_or_a_folder_that_is_missing_is_told_and_the_command_can_still_be_copied(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = plan_resume(session_of(store, cwd=str(tmp_path / "gone")))
    program, folder = found.obstacles
    assert "claude is not installed" in program
    assert f"No such folder: {tmp_path / 'gone'}" in folder
    assert found.command.endswith(f"claude --resume {NATIVE}")
    with pytest.raises(Refused, match=r"not installed.*No such folder"):
        found.execute()


def test_a_folder_that_is_a_file_or_of_nowhere_is_none(store: Store, tmp_path: Path, claude: Path) -> None:
    session = session_of(store, cwd=str(claude))
    assert "No such folder" in plan_resume(session).obstacles[0]
    assert "No such folder" in plan_resume(session._replace(cwd=".")).obstacles[0]


def test_another_folder_takes_the_place_of_the_sessions(store: Store, tmp_path: Path, claude: Path) -> None:
    found = plan_resume(session_of(store, cwd="/not/there"), tmp_path)
    assert (found.folder, found.obstacles) == (tmp_path, ())


def test_another_folder_is_meant_wherever_the_command_names_it(store: Store, tmp_path: Path) -> None:
    found = plan_resume(session_of(store, "opencode", cwd="--print-logs"), tmp_path)
    assert found.argv == ("opencode", str(tmp_path), "--session", NATIVE)


def test_a_session_without_a_folder_goes_on_wherever_one_is(store: Store, claude: Path) -> None:
    found = plan_resume(session_of(store))
    assert (found.folder, found.obstacles) == (None, ())
    assert found.command == f"claude --resume {NATIVE}"


@pytest.mark.parametrize(
    ("source", "native", "hint"),
    [
        ("pingu", "telegram:648", "Write in the Telegram chat 648."),
        ("library", "x", "the program that wrote it"),
        ("a program nobody knows", "x", "the program that wrote it"),
        ("claude", "abc/left", "Claude Code"),
    ],
)
def test_where_there_is_no_command_a_hint_says_how_it_goes_on(
    store: Store, source: str, native: str, hint: str
) -> None:
    found = plan_resume(session_of(store, source, native))
    assert (found.argv, found.command, found.obstacles) == (None, "", ())
    assert hint in found.hint
    with pytest.raises(Refused):
        found.execute()


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


@pytest.mark.parametrize("source", [source.NAME for source in sources.ALL])
def test_a_name_that_would_act_is_never_in_a_command_nor_in_a_hint(store: Store, source: str) -> None:
    """Neither run, nor copied: a terminal that one pastes into would obey it."""
    session = session_of(store)
    for native in HOSTILE_NAMES:
        shaped = f"app/user/{native}" if source == "adk" else native
        found = plan_resume(session._replace(source=source, native_id=shaped))
        assert found.command == ""
        assert found.hint.isprintable()
        with pytest.raises(Refused):
            found.execute()


def test_a_folder_whose_name_would_act_is_refused_and_another_helps(store: Store, tmp_path: Path, claude: Path) -> None:
    folder = tmp_path / "a\x03\nb"
    folder.mkdir()
    session = session_of(store, cwd=str(folder))
    refused = plan_resume(session)
    assert refused.command == ""
    assert "choose another folder with --cwd" in refused.hint
    assert plan_resume(session, tmp_path).obstacles == ()


@pytest.mark.parametrize("name", ["$(touch owned)", "`touch owned`", "'; touch owned; '", "a b", '"', "*", "~", "\\"])
def test_a_shell_takes_the_command_for_what_it_is(store: Store, tmp_path: Path, claude: Path, name: str) -> None:
    claude.write_text('#!/bin/sh\nprintf "%s\\0" "$PWD" "$@"\n')
    folder = tmp_path / name
    folder.mkdir()
    found = plan_resume(session_of(store, native=name, cwd=str(folder)))
    assert shlex.split(found.command)[-3:] == ["claude", "--resume", name]
    ran = subprocess.run(["/bin/sh", "-c", found.command], capture_output=True, text=True, check=True)
    assert ran.stdout.split("\0")[:-1] == [str(folder), "--resume", name]
    assert not list(tmp_path.rglob("owned"))
