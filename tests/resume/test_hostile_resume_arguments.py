"""These tests pass 500 hostile_cases ids, folders and titles to a program that records its arguments.

Each of them arrives unchanged or is refused, both directly and through a real shell.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from browser_driver import add_session, prompt_entry, time_ago

from store.cli import run
from store.errors import Refused
from store.model.session import Session
from store.resume.command import plan_resume
from store.store import Store

CASES = 500
SEED = 7

PIECES = (
    *("-", "--", "-p", "--dangerously-skip-permissions", "--resume", "-c", "=", "--cwd=/"),
    *("'", '"', "`", "\\", "\\'", '\\"', "''", "$'\\x41'", "'\"'\"'"),
    *("$(touch owned)", "`touch owned`", "${HOME}", "$0", "$PATH", "$((1+1))", "<(id)", "%s%n", "{a,b}", "!!", "!$"),
    *(";touch owned;", "&& touch owned", "| tee owned", "> owned", "2>&1", "&", "(", ")", "#", "*", "?", "[a-z]", "~"),
    *(
        "\n",
        "\r",
        "\t",
        "\x00",
        "\x03",
        "\x04",
        "\x1b[201~",
        "\x1b]52;c;aGk=\x07",
        "\x7f",
        "\x85",
        "\x9b2J",
        "\v",
        "\f",
    ),
    *(
        " ",
        "  ",
        "a",
        "Z9",
        "e0741090",
        "..",
        ".",
        "@",
        ":",
        ",",
        "日本語",
        "é",
        "e\u0301",
        "👩‍👩‍👧",
        "\u202e",
        "\u200b",
        "\ufeff",
    ),
    *("\ud800", "\udcff", "\U000e0041", "x" * 300, "[b]", "[/]", "[@click=app.quit]", "\u2028"),
)
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
SLASHES = ("/", "//", "../", "/../../etc/passwd")


class HostileCase(NamedTuple):
    """Describes a session with a hostile_cases id, folder and title."""

    native: str
    folder: str
    title: str


def hostile_cases() -> Iterator[HostileCase]:
    rng = random.Random(SEED)

    def name(*pieces: str) -> str:
        return "".join(rng.choices(pieces, k=rng.randint(1, 4)))

    for piece in PIECES:
        yield HostileCase(piece, "", piece)
    for n in range(CASES - len(PIECES)):
        yield HostileCase(name(*PIECES, *SLASHES), name(*PIECES) if n % 3 else "", name(*PIECES))


RECORDING_SCRIPT = '#!/bin/sh\nprintf "%s\\0" "$PWD" "$@" > "$RECORD"\n'


class Agents:
    """Installs programs called claude and codex that record their folder and arguments."""

    def __init__(self, folder: Path) -> None:
        self.record = folder / "record"
        for name in ("claude", "codex"):
            program = folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(RECORDING_SCRIPT)
            program.chmod(0o755)

    def take(self) -> list[str] | None:
        """Return the recorded folder and arguments, or None if no program was started."""
        if not self.record.exists():
            return None
        recorded = os.fsdecode(self.record.read_bytes()).split("\0")[:-1]
        self.record.unlink()
        return recorded


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agents:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    return Agents(tmp_path)


def run_in_child(function: Callable[[], int]) -> int:
    """Run a function in a child process, which may replace itself by another program, and return its exit status.

    The status is 99 after an unexpected error.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        os._exit(function())
    except Refused:
        os._exit(1)
    except BaseException:
        traceback.print_exc()
        os._exit(99)


def make_folder(base: Path, name: str) -> Path:
    """Return a folder of that name. It is missing if the system does not accept the name."""
    folder = base / name
    with suppress(OSError, ValueError):
        folder.mkdir(exist_ok=True)
    return folder


def hostile_sessions(base: Path, session: Session) -> Iterator[Session]:
    for n, case in enumerate(hostile_cases()):
        folder = make_folder(base, case.folder) if case.folder else base
        source = ("claude", "codex")[n % 2]
        yield session._replace(source=source, native_id=case.native, cwd=str(folder), own_title=case.title)


def test_each_case_arrives_unchanged_or_is_refused(store: Store, tmp_path: Path, agents: Agents) -> None:
    base = tmp_path / "work"
    base.mkdir()
    arrived = refused = 0
    for session in hostile_sessions(
        base, add_session(store, "s", time_ago(), prompt_entry("Go on", time_ago()), source="claude")
    ):
        plan = plan_resume(session)
        status = run_in_child(plan.execute)
        direct = agents.take()
        verb = ["--resume"] if session.source == "claude" else ["resume"]
        if direct is None:
            assert status == 1
            assert not plan.can_run
            refused += 1
        else:
            assert status == 0
            assert direct[1:] == [*verb, session.native_id]
            assert os.path.samefile(direct[0], session.cwd)
            assert not session.native_id.startswith("-")
            arrived += 1
        ran = subprocess.run(["/bin/sh", "-c", plan.command or "true"], cwd=tmp_path, capture_output=True)
        through_shell = agents.take()
        assert (through_shell or [])[1:] == (direct or [])[1:], ran.stderr
    assert arrived + refused == CASES
    assert min(arrived, refused) > CASES // 5
    assert not list(tmp_path.rglob("owned"))


def test_the_command_line_does_the_same(tmp_path: Path, agents: Agents) -> None:
    """Run the complete command, from finding the session to starting the agent, on sessions that a store accepts."""
    base = tmp_path / "work"
    base.mkdir()
    path = tmp_path / "hostile.db"
    cases = [case for case in hostile_cases() if not LONE_SURROGATE.search("".join(case))][::10]
    with closing(Store.open(path)) as store:
        for n, case in enumerate(cases):
            folder = make_folder(base, case.folder or "a")
            prompt = prompt_entry(case.title, time_ago())
            add_session(store, f"s{n}", time_ago(), prompt, source="claude", native_id=case.native, cwd=str(folder))
        sessions = store.sessions.newest(CASES)
    assert len(sessions) == len(cases) > CASES // 15
    statuses = set()
    for session in sessions:
        arguments = ["--store", str(path), "resume", session.id]
        statuses.add(status := run_in_child(lambda argv=arguments: run(None, argv)))  # type: ignore[misc]
        recorded = agents.take()
        assert (recorded or [])[1:] == ([] if status else ["--resume", session.native_id])
        assert recorded is None or os.path.samefile(recorded[0], session.cwd)
    assert statuses == {0, 1}


def add_program(path: Path, says: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho {says} > "$RECORD"\n')
    path.chmod(0o755)


@pytest.mark.parametrize("element", [".", "", "node_modules/.bin"])
@pytest.mark.parametrize("is_installed", [True, False])
def test_a_program_of_the_repository_is_never_run(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, element: str, is_installed: bool
) -> None:
    repository, record = tmp_path / "repository", tmp_path / "record"
    add_program(repository / element / "claude", "repository")
    if is_installed:
        add_program(tmp_path / "bin" / "claude", "installed")
    monkeypatch.setenv("RECORD", str(record))
    monkeypatch.setenv("PATH", os.pathsep.join([element, str(tmp_path / "bin")]))
    for current in (repository, tmp_path):
        monkeypatch.chdir(current)
        prompt = prompt_entry("Go on", time_ago())
        session = add_session(
            store, f"s:{current.name}", time_ago(), prompt, source="claude", native_id="1", cwd=str(repository)
        )
        plan = plan_resume(session)
        assert run_in_child(plan.execute) == (0 if is_installed else 1)
        assert plan.program_path == (str(tmp_path / "bin" / "claude") if is_installed else "")
        assert (record.read_text() if record.exists() else "none").strip() == ("installed" if is_installed else "none")
