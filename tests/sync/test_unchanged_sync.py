"""This module tests syncs after which nothing changed: their reports, and which stores and modules they leave alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CommandLine
from source_samples import SAMPLES

from store import paths
from store.sources.claude_code.source import ClaudeCode
from store.sources.codex.source import Codex
from store.store import Store
from store.sync import refresh
from store.sync.targets import find_targets

claude_code = ClaudeCode()
codex = Codex()

CHECK_LOADED_MODULES = """
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
    """Make sample stores of Claude Code and Codex, and return the one of Claude Code."""
    for name, variable in (("claude", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME")):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(SAMPLES[name](tmp_path / name)))
    return Path(os.environ["CLAUDE_CONFIG_DIR"])


def test_the_report_equals_that_of_the_sync_before(cli: CommandLine, agents: Path) -> None:
    first, second = cli("sync", "--json").json["sources"], cli("sync", "--json").json["sources"]
    assert [report["source"] for report in second] == ["claude", "codex"]
    assert [report["new"] for report in second] == [0, 0]
    for name in ("source", "locator", "seen", "problems"):
        assert [report[name] for report in second] == [report[name] for report in first]
    assert [report["unchanged"] for report in second] == [report["seen"] for report in first]


def test_no_module_that_reads_sessions_is_loaded(cli: CommandLine, agents: Path) -> None:
    cli("sync")
    Path(f"{cli.path}.sync").write_bytes(b"")  # what it noted would be enough
    command = [sys.executable, "-c", CHECK_LOADED_MODULES, str(cli.path)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert [line.split("\t")[0] for line in ran.stdout.splitlines()] == ["claude", "codex"]


def test_unchanged_stores_are_not_opened(
    cli: CommandLine, store: Store, agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("sync")
    monkeypatch.setattr(ClaudeCode, "detect", lambda self, locator: pytest.fail("It was opened."))
    monkeypatch.setattr(Codex, "detect", lambda self, locator: pytest.fail("It was opened."))
    assert [target.source.name for target in find_targets(store=store)] == ["claude", "codex"]


def test_changed_stores_are_opened(cli: CommandLine, store: Store, agents: Path) -> None:
    """An emptied folder is no store any more, and its sessions stay unchanged."""
    cli("sync")
    for path in agents.rglob("*.json*"):
        path.unlink()
    assert [row[0] for row in cli("sync").rows] == ["codex"]
    assert store.row("select count(*) from sessions where gone")[0] == 0


def test_the_order_does_not_depend_on_which_store_changed(cli: CommandLine, agents: Path) -> None:
    cli("sync")
    newest = max(agents.rglob("*.jsonl"), key=lambda path: path.stat().st_size)
    newest.write_bytes(newest.read_bytes() + b"\n")
    assert [row[0] for row in cli("sync").rows] == ["claude", "codex"]


def test_a_cleared_stamp_is_computed_again(store: Store, agents: Path) -> None:
    targets = find_targets(store=store)
    for _ in refresh.sync_targets(store, targets):
        pass
    stamps = [target.stamp for target in targets]
    targets[0].clear_stamp()
    for path in agents.rglob("*.jsonl"):
        path.write_bytes(path.read_bytes() + b"\n")
    assert targets[0].stamp != stamps[0]


def test_sessions_are_counted_if_an_older_version_did_not_save_the_number(
    cli: CommandLine, store: Store, agents: Path
) -> None:
    before = cli("sync").rows
    store.connection.execute("update sources set marks = json_remove(marks, '$.seen')")
    assert [row[1] for row in cli("sync").rows] == [row[1] for row in before]


def test_the_data_folder_follows_the_platform(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "relative")  # the XDG standard says to ignore relative paths
    assert paths.data_dir() == home / ".local/share/backscroll"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert paths.data_dir() == home / "Library/Application Support/backscroll"
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "elsewhere"))
    assert paths.data_dir() == home / "elsewhere/backscroll"
