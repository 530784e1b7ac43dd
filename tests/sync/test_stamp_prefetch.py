"""Whether anything is new is found out beside what asks for it, and is what it would have found out itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine

from store import sources
from store.sync.foretelling import Foretold

DATA = Path(__file__).parents[1] / "data"

ASK_TWICE = """
with Foretold() as foretold:
    told = [[foretold.stamp(address) for address in addresses] for _ in range(2)]
"""
ASK_ONE_THAT_CANNOT_TELL = """
from store.sources.claude_code import source as claude_code
claude_code.stamp = None
with Foretold() as foretold:
    told = [foretold.stamp(address) for address in addresses]
"""
ASK_BESIDE_A_THREAD = """
from threading import Event, Thread
end = Event()
Thread(target=end.wait).start()
with Foretold() as foretold:
    told = [foretold.stamp(address) for address in addresses]
end.set()
"""
ASK_WHERE_NONE_CAN_BE_HAD = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
with Foretold() as foretold:
    told = [foretold.stamp(address) for address in addresses]
"""
LEAVE = """
import os
with Foretold():
    pass
try:
    told = os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    told = "nobody is left"
"""


@pytest.fixture
def archives(home: Path) -> dict[str, str]:
    """What each says of itself, by where it is."""
    found = {name: shutil.copytree(DATA / name, home / f".{name}") for name in ("claude", "codex")}
    return {str(path.resolve()): _stamp(name, path) for name, path in found.items()}


def _stamp(name: str, path: Path) -> str:
    source = sources.load_source(name)
    assert source is not None
    return source.stamp(str(path))


def run(code: str, addresses: list[str]) -> Any:
    """In a process of its own: where tests run there are threads."""
    whole = "\n".join(
        [
            "import json, sys",
            "from store.sync.foretelling import Foretold",
            "addresses = json.loads(sys.argv[1])",
            code,
            "print(json.dumps(told))",
        ]
    )
    ran = subprocess.run([sys.executable, "-c", whole, json.dumps(addresses)], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    return json.loads(ran.stdout)


def test_each_is_told_once_and_as_it_is(archives: dict[str, str]) -> None:
    addresses = [*archives, "/nowhere"]
    assert run(ASK_TWICE, addresses) == [[*archives.values(), None], [None] * 3]


def test_what_cannot_be_told_is_left_to_whoever_asks(archives: dict[str, str]) -> None:
    assert run(ASK_ONE_THAT_CANNOT_TELL, list(archives)) == [None, list(archives.values())[1]]


def test_nothing_is_forked_beside_other_threads(archives: dict[str, str]) -> None:
    assert run(ASK_BESIDE_A_THREAD, list(archives)) == [None, None]


def test_a_refresh_sees_what_is_new_and_only_that(archives: dict[str, str], tmp_path: Path) -> None:
    cli = CommandLine(tmp_path / "store.db")

    def came() -> list[int]:
        return [told["new"] + told["updated"] for told in cli.run_process("sync", "--json").json["sources"]]

    assert all(came())
    assert came() == [0, 0]
    (one, *_) = sorted(Path(next(iter(archives))).glob("projects/*/*.jsonl"))
    shutil.copy(one, one.with_name("f0000000-0000-4000-8000-000000000009.jsonl"))
    assert [bool(number) for number in came()] == [True, False]


@pytest.mark.usefixtures("archives")
def test_nobody_is_left_behind() -> None:
    assert run(LEAVE, []) == "nobody is left"


def test_where_there_is_no_archive_nothing_is_told(home: Path) -> None:
    with Foretold() as foretold:
        assert foretold.stamp(str(home / ".claude")) is None


def test_where_no_process_can_be_had_nothing_is_told(archives: dict[str, str]) -> None:
    assert run(ASK_WHERE_NONE_CAN_BE_HAD, list(archives)) == [None, None]
