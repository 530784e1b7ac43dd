"""A sync of a world in which nothing changed: what it tells, what it leaves alone, and what it does not even load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CommandLine
from source_samples import SAMPLES

from store import paths
from store.sources.claude_code import source as claude_code
from store.sources.codex import source as codex
from store.store import Store
from store.sync import refresh
from store.sync.targets import find_targets

WHAT_IS_LOADED = """
import sys
from store.cli import run
status = run(argv=["--store", sys.argv[1], "sync"])
heavy = {"click", "dataclasses", "multiprocessing", "orjson", "sqlite_utils", "store.model.entry", "store.sync.engine"}
sys.exit(f"{status} {sorted(heavy & set(sys.modules))}" if status or heavy & set(sys.modules) else 0)
"""


@pytest.fixture
def cli(store: Store) -> CommandLine:
    return CommandLine(store.path)


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Claude Code and Codex keep their sessions."""
    for name, variable in (("claude", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME")):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(SAMPLES[name](tmp_path / name)))
    return Path(os.environ["CLAUDE_CONFIG_DIR"])


def test_it_tells_what_the_sync_before_told(cli: CommandLine, agents: Path) -> None:
    first, second = cli("sync", "--json").json["sources"], cli("sync", "--json").json["sources"]
    assert [report["source"] for report in second] == ["claude", "codex"]
    assert [report["new"] for report in second] == [0, 0]
    for name in ("source", "locator", "seen", "problems"):
        assert [report[name] for report in second] == [report[name] for report in first]
    assert [report["unchanged"] for report in second] == [report["seen"] for report in first]


def test_it_loads_nothing_that_would_read(cli: CommandLine, agents: Path) -> None:
    cli("sync")
    command = [sys.executable, "-c", WHAT_IS_LOADED, str(cli.path)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert [line.split("\t")[0] for line in ran.stdout.splitlines()] == ["claude", "codex"]


def test_what_is_as_it_was_is_not_looked_into(
    cli: CommandLine, store: Store, agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("sync")
    monkeypatch.setattr(claude_code, "detect", lambda locator: pytest.fail("It was looked into."))
    monkeypatch.setattr(codex, "detect", lambda locator: pytest.fail("It was looked into."))
    assert [target.source.NAME for target in find_targets(store=store)] == ["claude", "codex"]


def test_what_changed_is_looked_into(cli: CommandLine, store: Store, agents: Path) -> None:
    """A folder that was emptied is no store any more, and its sessions stay as they are."""
    cli("sync")
    for path in agents.rglob("*.json*"):
        path.unlink()
    assert [row[0] for row in cli("sync").rows] == ["codex"]
    assert store.row("select count(*) from sessions where gone")[0] == 0


def test_the_order_is_the_same_whichever_changed(cli: CommandLine, agents: Path) -> None:
    cli("sync")
    newest = max(agents.rglob("*.jsonl"), key=lambda path: path.stat().st_size)
    newest.write_bytes(newest.read_bytes() + b"\n")
    assert [row[0] for row in cli("sync").rows] == ["claude", "codex"]


def test_a_target_that_is_synced_again_is_looked_at_again(store: Store, agents: Path) -> None:
    chosen = find_targets(store=store)
    for _ in refresh.sync_targets(store, chosen):
        pass
    stamps = [target.stamp for target in chosen]
    chosen[0].clear_stamp()
    for path in agents.rglob("*.jsonl"):
        path.write_bytes(path.read_bytes() + b"\n")
    assert chosen[0].stamp != stamps[0]


def test_a_store_of_before_that_noted_no_number_is_counted(cli: CommandLine, store: Store, agents: Path) -> None:
    before = cli("sync").rows
    store.connection.execute("update sources set marks = json_remove(marks, '$.seen')")
    assert [row[1] for row in cli("sync").rows] == [row[1] for row in before]


def test_folders_are_where_the_platform_keeps_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "relative")  # which the standard says to ignore
    assert paths.data_dir() == home / ".local/share/backscroll"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert paths.data_dir() == home / "Library/Application Support/backscroll"
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "elsewhere"))
    assert paths.data_dir() == home / "elsewhere/backscroll"
