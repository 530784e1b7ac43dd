"""Checks the commands `memory list` and `memory budget`."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "store.db")


@pytest.fixture
def repository(home: Path) -> Path:
    folder = home / "app"
    (folder / ".git").mkdir(parents=True)
    (folder / "CLAUDE.md").write_text("# App\n- Database: SQLite\n@docs/extra.md\n")
    (folder / "docs").mkdir()
    (folder / "docs/extra.md").write_text("- Database: PostgreSQL\n- Run the linter.\x1b]0;x\x07\n")
    (home / ".claude").mkdir()
    (home / ".claude/CLAUDE.md").write_text("- Run the linter.\n")
    return folder


def test_list_prints_each_line_with_its_place_scope_and_agents(cli: CommandLine, home: Path, repository: Path) -> None:
    result = cli("memory", "list", str(repository), "--agent", "claude")
    assert [row[:2] for row in result.rows] == [
        [f"{home}/.claude/CLAUDE.md:1", "agent"],
        [f"{repository}/CLAUDE.md:2", "folder"],
        [f"{repository}/docs/extra.md:1", "folder"],
        [f"{repository}/docs/extra.md:2", "folder"],
    ]
    files = cli("memory", "--json").json["files"]
    assert [(file["path"], file["agents"]) for file in files] == [
        (f"{home}/.claude/CLAUDE.md", ["claude", "copilot", "opencode"]),
    ]
    assert files[0]["lines"][0] | {"id": ""} == {
        "id": "",
        "line": 1,
        "text": "Run the linter.",
        "kind": "bullet",
        "heading": "",
    }


def test_budget_shows_order_tokens_duplicates_and_contradictions(cli: CommandLine, repository: Path) -> None:
    found = cli("memory", "budget", str(repository), "--json").json
    claude = found["agents"][0]
    assert [(Path(file["path"]).name, file["when"]) for file in claude["files"]] == [
        ("CLAUDE.md", "start"),
        ("CLAUDE.md", "start"),
        ("extra.md", "start"),
    ]
    assert claude["files"][2]["imported_by"] == f"{repository}/CLAUDE.md"
    assert [conflict["key"] for conflict in found["conflicts"]] == ["database"]
    text = cli("memory", "budget", str(repository)).out
    assert "about" in text
    assert "differs" in text


def test_a_terminal_never_obeys_a_memory_file(cli: CommandLine, repository: Path) -> None:
    result = cli.run_in_terminal("memory", "list", str(repository))
    assert b"\x1b]0" not in result.raw
    assert "~/app/CLAUDE.md:2" in result.out


def test_wrong_folders_and_agents_are_refused(cli: CommandLine, tmp_path: Path) -> None:
    missing = cli("memory", "budget", str(tmp_path / "nothing"))
    assert (missing.status, missing.err) == (1, f"No such folder: {tmp_path / 'nothing'}.\n")
    unknown = cli("memory", "list", "--agent", "cursor")
    assert unknown.status == 1
    assert unknown.err.startswith("No memory files are known of 'cursor'. Use one of: claude, codex")
