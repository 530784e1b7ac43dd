"""This module tests what a sync saves for the next one: that it is believed when nothing changed, and only then."""

from __future__ import annotations

import builtins
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from command_line import CommandLine
from source_samples import SAMPLES

from store import probes, sources
from store.database.file_lock import hold_file_lock
from store.paths import unfinished_folder
from store.sources.kit.locator import is_url
from store.store import Store
from store.sync.saved_check import SyncCheck, find_unchanged
from store.sync.targets import find_targets

SOURCES_WITH_HOME = [info.name for info in sources.REGISTRY.values() if info.has_home]
SOURCE_FILES = sorted(Path(sources.__file__).parent.rglob("*.py"))

LIST_LOADED_MODULES = """
import sys
from store.cli import run
status = run(argv=["--store", sys.argv[1], "sync"])
heavy = {"dataclasses", "json", "pathlib", "re", "typing", "store.sources", "store.store"} & set(sys.modules)
sys.exit(f"{status} {sorted(heavy)}" if status or heavy else 0)
"""

SYSTEM_CALLS = {os.stat, os.lstat, os.scandir, os.listdir, os.readlink, os.getcwd}


@pytest.fixture
def cli(store: Store) -> CommandLine:
    return CommandLine(store.path)


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put a sample of each source where its agent keeps it, and return the names of the sources."""
    (tmp_path / "work" / "agent" / ".adk").mkdir(parents=True)
    (tmp_path / "work" / "agent" / ".adk" / "session.db").touch()
    monkeypatch.chdir(tmp_path / "work")
    for name in SOURCES_WITH_HOME:
        source = sources.load_source(name)
        assert source
        for root in [root for root in source.roots() if not is_url(root)][:1] or [str(tmp_path / name)]:
            target = Path(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "samples" / name).mkdir(parents=True)
            sample = SAMPLES[name](tmp_path / "samples" / name)
            if sample.is_dir():
                shutil.copytree(sample, target)
            elif target.suffix == ".db":
                sample.replace(target)
            else:
                target.mkdir()
                sample.replace(target / ("sessions.db" if name == "goose" else "opencode.db"))
    return [target.source.name for target in find_targets()]


def test_a_sync_with_nothing_to_do_loads_no_source(cli: CommandLine, agents: list[str]) -> None:
    cli("sync")
    usual = cli("sync", "--json").json["sources"]
    ran = subprocess.run([sys.executable, "-c", LIST_LOADED_MODULES, str(cli.path)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert len(agents) > 10
    assert [line.split("\t") for line in ran.stdout.splitlines()] == [
        [report["source"], f"{report['seen']:,}", "0", "0", report["locator"]] for report in usual
    ]
    assert "WHERE" in cli.run_in_terminal("sync").lines[0]


def test_everything_is_asked_as_a_probe(cli: CommandLine, store: Store, agents: list[str]) -> None:
    """What is asked elsewhere is not saved, so that a sync would not notice that its answer changed."""
    cli("sync")
    asked = []

    def note(frame: FrameType, event: str, called: Callable[..., object]) -> None:
        if event == "c_call" and called in SYSTEM_CALLS:
            callers = _list_callers(frame)
            if not any("importlib" in caller or caller.startswith(probes.__file__) for caller in callers):
                asked.append(callers[:4])

    sys.setprofile(note)
    try:
        SyncCheck(store).find_targets()
    finally:
        sys.setprofile(None)
    assert asked == []


def _list_callers(frame: FrameType | None) -> list[str]:
    callers = []
    while frame:
        callers.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        frame = frame.f_back
    return callers


def test_no_source_reads_a_variable_itself() -> None:
    allowed = "postgres.py"  # the address of a server, which is asked every time
    readers = [path.name for path in SOURCE_FILES if re.search(r"os\.(environ|getenv)", path.read_text("utf-8"))]
    assert readers == [allowed]


@pytest.fixture
def home_agents(home: Path) -> Path:
    """Make a sample of Claude Code in the home folder, and return its folder."""
    return Path(shutil.copytree(SAMPLES["claude"](home / "sample"), home / ".claude"))


def test_a_change_anywhere_is_noticed(
    cli: CommandLine, store: Store, home: Path, home_agents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    transcript = next(home_agents.rglob("*.jsonl"))
    execute = store.connection.execute
    changes: list[Callable[[], object]] = [
        lambda: transcript.write_bytes(transcript.read_bytes() + b"\n"),
        lambda: shutil.copy(transcript, transcript.with_name("another.jsonl")),
        lambda: (home_agents / "settings.json").write_text("{}"),
        lambda: (home / ".codex").mkdir(),
        lambda: (home / ".codex/sessions").mkdir(),
        lambda: monkeypatch.setenv("QWEN_HOME", str(tmp_path / "qwen")),
        lambda: (tmp_path / "agent/.adk").mkdir(parents=True),
        lambda: shutil.copy(SAMPLES["adk"](tmp_path), tmp_path / "agent/.adk/session.db"),
        lambda: monkeypatch.chdir(home),
        lambda: execute("update sources set marks = json_set(marks, '$.stamp', 'cleared')"),
        lambda: execute("update sessions set usage_version = 0"),
        lambda: Path(f"{cli.path}.sync").write_text('{"probes": ['),
    ]
    unnoticed = []
    for number, change in enumerate(changes):
        cli("sync")
        assert find_unchanged(str(cli.path)) is not None, number
        change()
        if find_unchanged(str(cli.path)) is not None:
            unnoticed.append(number)
    # An empty folder inside that of another agent, and a folder without a database, mean nothing.
    assert unnoticed == [6]


def test_a_store_that_is_not_as_it_was_left_is_left_to_the_usual_sync(
    cli: CommandLine, store: Store, home_agents: Path
) -> None:
    cli("sync")
    with hold_file_lock(f"{store.path}.sync", ""):
        assert find_unchanged(str(store.path)) is None
        assert "Another sync" in cli("sync").err
    unfinished_folder(store.path).mkdir()
    assert find_unchanged(str(store.path)) is None
    unfinished_folder(store.path).rmdir()
    assert find_unchanged(str(store.path)) is not None
    store.close()
    with builtins.open(store.path, "ab") as file:
        file.write(b"x")
    assert find_unchanged(str(store.path)) is None
    assert "truncated" in cli("sync").err


def test_nothing_is_written_when_nothing_changed(cli: CommandLine, store: Store, home_agents: Path) -> None:
    cli("sync")
    check = Path(f"{store.path}.sync")
    before = check.stat(), store.connection.total_changes
    cli("sync", "--json")
    cli("sync")
    after = check.stat(), store.connection.total_changes
    assert [status.st_mtime_ns for status in (before[0], after[0])] == [before[0].st_mtime_ns] * 2
    assert after[1] == before[1]
