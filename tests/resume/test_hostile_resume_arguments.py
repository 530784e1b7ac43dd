"""Five hundred hostile ids, folders and titles, handed to a program that writes down what it was given: each arrives
whole, or is refused; by the command itself and through a real shell."""

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
HALF = re.compile("[\ud800-\udfff]")
SLASHES = ("/", "//", "../", "/../../etc/passwd")


class Hostile(NamedTuple):
    native: str
    folder: str
    title: str


def hostile() -> Iterator[Hostile]:
    chance = random.Random(SEED)

    def name(*pieces: str) -> str:
        return "".join(chance.choices(pieces, k=chance.randint(1, 4)))

    for piece in PIECES:
        yield Hostile(piece, "", piece)
    for n in range(CASES - len(PIECES)):
        yield Hostile(name(*PIECES, *SLASHES), name(*PIECES) if n % 3 else "", name(*PIECES))


SAYS = '#!/bin/sh\nprintf "%s\\0" "$PWD" "$@" > "$RECORD"\n'


class Agents:
    """Programs called claude and codex, which write down where they were started, and with what."""

    def __init__(self, folder: Path) -> None:
        self.record = folder / "record"
        for name in ("claude", "codex"):
            program = folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(SAYS)
            program.chmod(0o755)

    def take(self) -> list[str] | None:
        """Folder and arguments; None when nobody was started."""
        if not self.record.exists():
            return None
        said = os.fsdecode(self.record.read_bytes()).split("\0")[:-1]
        self.record.unlink()
        return said


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agents:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    return Agents(tmp_path)


def in_a_child(do: Callable[[], int]) -> int:
    """What comes of it in a process of its own, which may become another program; 99 for what nobody expected."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        os._exit(do())
    except Refused:
        os._exit(1)
    except BaseException:
        traceback.print_exc()
        os._exit(99)


def made(base: Path, name: str) -> Path:
    """The folder of that name, where the system takes it; else one that is not there."""
    folder = base / name
    with suppress(OSError, ValueError):
        folder.mkdir(exist_ok=True)
    return folder


def all_hostile(base: Path, session: Session) -> Iterator[Session]:
    for n, case in enumerate(hostile()):
        folder = made(base, case.folder) if case.folder else base
        source = ("claude", "codex")[n % 2]
        yield session._replace(source=source, native_id=case.native, cwd=str(folder), own_title=case.title)


def test_each_arrives_whole_or_is_refused(store: Store, tmp_path: Path, agents: Agents) -> None:
    base = tmp_path / "work"
    base.mkdir()
    arrived = refused = 0
    for session in all_hostile(
        base, add_session(store, "s", time_ago(), prompt_entry("Go on", time_ago()), source="claude")
    ):
        found = plan_resume(session)
        status = in_a_child(found.execute)
        said = agents.take()
        verb = ["--resume"] if session.source == "claude" else ["resume"]
        if said is None:
            assert status == 1
            assert not found.can_run
            refused += 1
        else:
            assert status == 0
            assert said[1:] == [*verb, session.native_id]
            assert os.path.samefile(said[0], session.cwd)
            assert not session.native_id.startswith("-")
            arrived += 1
        ran = subprocess.run(["/bin/sh", "-c", found.command or "true"], cwd=tmp_path, capture_output=True)
        shown = agents.take()
        assert (shown or [])[1:] == (said or [])[1:], ran.stderr
    assert arrived + refused == CASES
    assert min(arrived, refused) > CASES // 5
    assert not list(tmp_path.rglob("owned"))


def test_the_command_line_does_the_same(tmp_path: Path, agents: Agents) -> None:
    """From finding the session to becoming the agent, of what a store takes in."""
    base = tmp_path / "work"
    base.mkdir()
    path = tmp_path / "hostile.db"
    chosen = [case for case in hostile() if not HALF.search("".join(case))][::10]
    with closing(Store.open(path)) as store:
        for n, case in enumerate(chosen):
            where = made(base, case.folder or "a")
            asked = prompt_entry(case.title, time_ago())
            add_session(store, f"s{n}", time_ago(), asked, source="claude", native_id=case.native, cwd=str(where))
        known = store.sessions.newest(CASES)
    assert len(known) == len(chosen) > CASES // 15
    statuses = set()
    for session in known:
        arguments = ["--store", str(path), "resume", session.id]
        statuses.add(status := in_a_child(lambda words=arguments: run(None, words)))  # type: ignore[misc]
        said = agents.take()
        assert (said or [])[1:] == ([] if status else ["--resume", session.native_id])
        assert said is None or os.path.samefile(said[0], session.cwd)
    assert statuses == {0, 1}
