"""Checks that a key with different values is merged: in files, in pushed facts, with preview, backup and undo."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine

from store.errors import BadValue, ChangedMeanwhile, LeaksFound, NotFound, Refused
from store.leaks.rule_table import RULES_BY_ID
from store.memory.merging import list_options
from store.model.memory import Audience, MergePlan
from store.store import Store


@pytest.fixture
def project(home: Path) -> Path:
    """Provide a project in which two files of Claude Code differ about the database."""
    folder = home / "app"
    (folder / ".git").mkdir(parents=True)
    (home / ".claude").mkdir()
    (home / ".claude/CLAUDE.md").write_bytes(b"# Me\r\n1. [ ] **Database**: SQLite,\r\n   on disk\r\n- Short.\r\n")
    (folder / "CLAUDE.md").write_text("Database: PostgreSQL 16\n\n- Other: 1\n")
    return folder


def plan(store: Store, project: Path, text: str) -> MergePlan:
    return store.memory_files.plan_merge(store.memory_files.find_conflict(project, "database"), text)


def read_texts(home: Path, project: Path) -> tuple[bytes, bytes]:
    return (home / ".claude/CLAUDE.md").read_bytes(), (project / "CLAUDE.md").read_bytes()


def test_the_values_are_shown_side_by_side(store: Store, project: Path) -> None:
    options = list_options(store.memory_files.find_conflict(project, "**Database**:"))
    assert [option.text for option in options] == ["**Database**: SQLite, on disk", "Database: PostgreSQL 16"]
    with pytest.raises(NotFound, match=r"No key 'port' has different values .* There are: database"):
        store.memory_files.find_conflict(project, "port")


def test_one_value_or_a_third_one_is_written_and_undone(store: Store, home: Path, project: Path) -> None:
    before = read_texts(home, project)
    store.memory_files.merge(plan(store, project, "Database: PostgreSQL 16"))
    assert read_texts(home, project) == (b"# Me\r\n1. [ ] Database: PostgreSQL 16\r\n- Short.\r\n", before[1])
    assert store.memory_files.budget(project).conflicts == ()
    store.journal.undo()
    assert read_texts(home, project) == before
    store.memory_files.merge(plan(store, project, "Database:  DuckDB\n1"))
    assert read_texts(home, project) == (
        b"# Me\r\n1. [ ] Database: DuckDB 1\r\n- Short.\r\n",
        b"Database: DuckDB 1\n\n- Other: 1\n",
    )


def test_a_pushed_line_is_changed_in_its_fact_and_in_all_its_files(store: Store, home: Path, project: Path) -> None:
    (fact,) = store.facts.learn("Database: MySQL").facts
    for folder in (project, home / "other"):
        folder.mkdir(exist_ok=True)
        store.shared_facts.share([fact.id], Audience("", str(folder)))
    store.shared_facts.push(store.shared_facts.plan_push())
    before = {path: path.read_bytes() for path in home.rglob("*.md")}
    planned = plan(store, project, "Database: @ DuckDB")
    assert planned.facts == (fact.id,)
    store.memory_files.merge(planned)
    assert store.facts.get(fact.id).text == "Database: @ DuckDB"
    assert store.shared_facts.plan_push().changed == []
    assert store.shared_facts.plan_pull().edits == ()
    assert "- Database: \\@ DuckDB\n" in (home / "other/AGENTS.md").read_text()
    assert store.memory_files.budget(project).conflicts == ()
    store.journal.undo()
    assert {path: path.read_bytes() for path in home.rglob("*.md")} == before
    assert store.facts.get(fact.id).text == "Database: MySQL"


def test_what_changed_since_the_preview_is_not_written(store: Store, home: Path, project: Path) -> None:
    planned = plan(store, project, "Database: DuckDB")
    (project / "CLAUDE.md").write_text("Database: MySQL\n")
    before = read_texts(home, project)
    with pytest.raises(ChangedMeanwhile):
        store.memory_files.merge(planned)
    assert read_texts(home, project) == before
    outdated = store.memory_files.plan_merge(planned.conflict, "Database: DuckDB")
    assert outdated.problems == [f"{project}/CLAUDE.md was changed meanwhile. Merge again."]


def test_a_block_that_was_edited_by_hand_is_pulled_first(store: Store, project: Path) -> None:
    (fact,) = store.facts.learn("Database: MySQL").facts
    store.shared_facts.share([fact.id], Audience("claude", str(project)))
    store.shared_facts.push(store.shared_facts.plan_push())
    own = project / ".claude/backscroll.md"
    own.write_text(own.read_text().replace("MySQL", "Oracle"))
    planned = plan(store, project, "Database: DuckDB")
    assert planned.problems == [f"The block in {own} was edited by hand. Run `backscroll memory pull` first."]
    with pytest.raises(Refused, match="edited by hand"):
        store.memory_files.merge(planned)


@pytest.mark.parametrize("text", ["Port: 1", "Database:", "", "Database: a --> b"])
def test_a_text_that_would_not_be_the_same_fact_is_refused(store: Store, project: Path, text: str) -> None:
    with pytest.raises(BadValue):
        plan(store, project, text)


def test_a_read_only_file_and_a_key_of_a_cloud_are_refused(store: Store, home: Path, project: Path) -> None:
    secret = RULES_BY_ID["aws-access-key"].example
    with pytest.raises(LeaksFound):
        store.memory_files.merge(plan(store, project, f"Database: {secret}"))
    (project / "CLAUDE.md").chmod(0o444)
    assert plan(store, project, "Database: DuckDB").problems == [f"{project}/CLAUDE.md is read-only."]


def test_the_command_shows_merges_and_undoes(store: Store, home: Path, project: Path) -> None:
    cli = CommandLine(store.path)
    before = read_texts(home, project)
    shown = cli("memory", "merge", "database", str(project))
    assert [row[:2] for row in shown.rows] == [
        ["1", "**Database**: SQLite, on disk"],
        ["2", "Database: PostgreSQL 16"],
    ]
    dry = cli("memory", "merge", "database", str(project), "--take", "2", "--dry-run", "--json").json
    assert [file["changed"] for file in dry["files"]] == [True, False]
    assert [option["text"] for option in dry["options"]] == ["**Database**: SQLite, on disk", "Database: PostgreSQL 16"]
    assert read_texts(home, project) == before
    written = cli("memory", "merge", "database", str(project), "--take", "2")
    assert "+1. [ ] Database: PostgreSQL 16" in written.lines
    assert written.err.startswith("1 file written; the backup is ")
    assert cli("undo").status == 0
    assert read_texts(home, project) == before
    assert cli("memory", "merge", "database", str(project), "--take", "3").err == (
        "There is no value 3. Choose from 1 to 2.\n"
    )
    assert cli("memory", "merge", "database", str(project), "--take", "1", "--text", "x").status == 2
