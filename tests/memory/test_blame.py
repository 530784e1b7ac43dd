"""Checks who is said to have written the lines of a memory file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from command_line import CommandLine
from memory_sessions import AgentSession

from store.errors import NotFound, Unreadable
from store.model.memory import BlamedLine
from store.store import Store


@pytest.fixture
def repository(home: Path) -> Path:
    folder = home / "app"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@example.org")
    return folder


def git(folder: Path, *arguments: str, date: str = "2026-02-01T12:00:00Z") -> None:
    environment = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    subprocess.run(["git", *arguments], cwd=folder, check=True, env=environment)


def commit(folder: Path, message: str, date: str = "2026-02-01T12:00:00Z") -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message, date=date)


def blame(store: Store, path: Path) -> dict[str, BlamedLine]:
    return {found.line.text: found for found in store.memory_files.blame(path).lines}


def describe(found: BlamedLine) -> tuple[str, str, int]:
    origin = found.origin
    return origin.kind, origin.session_id or origin.summary, origin.turn


def test_each_line_has_the_turn_the_commit_or_the_hand_that_wrote_it(store: Store, repository: Path) -> None:
    path = repository / "CLAUDE.md"
    path.write_text("# App\n- Use tabs.\n")
    commit(repository, "Begin")
    agent = AgentSession(store, "s1", repository)
    agent.prompt("Remember the database")
    agent.prompt("and the linter")
    agent.edit("CLAUDE.md", "- Use tabs.", "- Use tabs.\n- Database: SQLite\n- Run the linter\n  before a commit.")
    path.write_text(
        "# App\n- Run the linter\n  before a commit.\n\n- Use **tabs**\n- Database: SQLite\n- By a person\n"
    )
    found = blame(store, path)
    assert {text: describe(line) for text, line in found.items()} == {
        "Run the linter before a commit.": ("session", "s1", 2),
        "Use **tabs**": ("commit", "Begin", 0),
        "Database: SQLite": ("session", "s1", 2),
        "By a person": ("hand", "", 0),
    }
    origin = found["Database: SQLite"].origin
    assert (origin.agent, origin.tool, origin.entry) == ("claude", "Edit", "s1#2")
    assert found["Use **tabs**"].origin.author == "Ada"


def test_what_a_line_said_before_is_followed_through_sessions(store: Store, repository: Path) -> None:
    path = repository / "AGENTS.md"
    first = AgentSession(store, "s1", repository, agent="codex", day=1)
    first.call("apply_patch", "*** Begin Patch\n*** Add File: AGENTS.md\n+- Database: MySQL\n+- Keep\n*** End Patch")
    second = AgentSession(store, "s2", repository, day=2)
    second.write(path, "- Database: PostgreSQL 15\n- Keep\n")
    third = AgentSession(store, "s3", repository, day=3)
    third.edit(path, "- Database: PostgreSQL 15", "- Database: PostgreSQL 16")
    path.write_text("- Database: PostgreSQL 16\n- Keep\n")
    found = blame(store, path)
    assert describe(found["Keep"]) == ("session", "s1", 0)
    line = found["Database: PostgreSQL 16"]
    assert line.origin.session_id == "s3"
    assert [(earlier.text, earlier.origin.session_id) for earlier in line.earlier] == [
        ("Database: PostgreSQL 15", "s2"),
        ("Database: MySQL", "s1"),
    ]


def test_a_line_that_was_removed_and_came_back_is_by_hand(store: Store, repository: Path) -> None:
    path = repository / "CLAUDE.md"
    agent = AgentSession(store, "s1", repository)
    agent.write(path, "- One\n- Two\n")
    agent.edit(path, "- One\n- Two\n", "- Two\n")
    path.write_text("- One\n- Two\n")
    found = blame(store, path)
    assert describe(found["One"])[0] == "hand"
    assert describe(found["Two"])[0] == "session"


def test_failed_edits_and_files_of_the_same_name_elsewhere_do_not_count(store: Store, repository: Path) -> None:
    path = repository / "CLAUDE.md"
    agent = AgentSession(store, "s1", repository)
    agent.write(repository / "other/CLAUDE.md", "- A long enough fact\n")
    agent.call("Write", {"file_path": str(path), "content": "- A long enough fact\n"}, "denied", is_error=True)
    path.write_text("- A long enough fact\n")
    assert describe(blame(store, path)["A long enough fact"])[0] == "hand"


def test_a_part_of_a_line_and_a_shell_command_are_found(store: Store, repository: Path) -> None:
    path = repository / "CLAUDE.md"
    agent = AgentSession(store, "s1", repository)
    agent.edit(path, "every second day", "on every Friday evening")
    agent.call("Bash", {"command": "echo '- Deploy with care, always' >> CLAUDE.md"})
    path.write_text("- Back up on every Friday evening, to the cellar.\n- Deploy with care, always\n")
    assert {text: describe(found)[0] for text, found in blame(store, path).items()} == {
        "Back up on every Friday evening, to the cellar.": "session",
        "Deploy with care, always": "session",
    }


def test_a_commit_before_an_edit_is_the_origin_and_one_after_it_is_not(store: Store, repository: Path) -> None:
    path = repository / "CLAUDE.md"
    path.write_text("- Old\n")
    commit(repository, "Before", date="2026-02-28T00:00:00Z")
    AgentSession(store, "s1", repository).write(path, "- Old\n- New\n")
    path.write_text("- Old\n- New\n")
    commit(repository, "After", date="2026-03-20T00:00:00Z")
    found = blame(store, path)
    assert describe(found["Old"]) == ("commit", "Before", 0)
    assert describe(found["New"]) == ("session", "s1", 0)


def test_git_runs_no_program_of_the_repository(store: Store, repository: Path) -> None:
    path = repository / "CLAUDE.md"
    path.write_text("- Fact\n")
    commit(repository, "Begin")
    script = repository / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {repository}/sentinel\ncat\n")
    script.chmod(0o755)
    (repository / ".gitattributes").write_text("*.md diff=evil filter=evil\n")
    for name in ("diff.evil.textconv", "diff.evil.command", "filter.evil.clean", "filter.evil.smudge"):
        git(repository, "config", name, str(script))
    for name in ("core.fsmonitor", "core.pager", "diff.external"):
        git(repository, "config", name, str(script))
    path.write_text("- Fact\n- more\n")
    assert describe(blame(store, path)["Fact"])[0] == "commit"
    assert not (repository / "sentinel").exists()


def test_later_sessions_that_loaded_the_file_are_named(store: Store, repository: Path) -> None:
    path = repository / "AGENTS.md"
    path.write_text("- Run the linter.\n")
    AgentSession(store, "writer", repository, day=2).write(path, "- Run the linter.\n")
    AgentSession(store, "older", repository, agent="codex", day=1)
    later = AgentSession(store, "later", repository / "web", agent="codex", day=3)
    later.prompt("# AGENTS.md instructions\n\n- Run the linter.\n")
    AgentSession(store, "goose", repository, agent="goose", day=3)
    AgentSession(store, "elsewhere", repository.parent, agent="codex", day=3)
    AgentSession(store, "gemini", repository, agent="gemini", day=3)
    found = store.memory_files.blame(path, 1)
    assert found.loading_count == 2
    assert {(session.session_id, session.is_recorded) for session in found.loading} == {
        ("later", True),
        ("goose", False),
    }


def test_what_is_not_read_yet_is_counted(store: Store, repository: Path) -> None:
    path = repository / "AGENTS.md"
    path.write_text("- Fact\n")
    AgentSession(store, "s", repository)
    with store.transaction() as connection:
        connection.execute("update sessions set depth = 'text'")
    assert store.memory_files.blame(path).unread_sessions == 1


def test_a_link_is_followed_only_where_the_listing_follows_it(store: Store, home: Path, repository: Path) -> None:
    """A link out of a project is refused. A person may keep the files of an agent elsewhere in the home folder."""
    (home / "outside.md").write_text("- private\n")
    (home / ".claude").mkdir()
    for link in (repository / "GEMINI.md", home / ".claude/CLAUDE.md"):
        link.symlink_to(home / "outside.md")
    with pytest.raises(Unreadable, match="is a link out of its folder"):
        store.memory_files.blame(repository / "GEMINI.md")
    assert store.memory_files.blame(home / ".claude/CLAUDE.md").lines[0].line.text == "private"


def test_missing_files_lines_and_binaries_are_refused(store: Store, repository: Path) -> None:
    (repository / "a.md").write_text("# Only a heading\n")
    (repository / "b.md").write_bytes(b"\0")
    with pytest.raises(NotFound, match="No such file"):
        store.memory_files.blame(repository / "no.md")
    with pytest.raises(NotFound, match=r"has no fact on line 1\."):
        store.memory_files.blame(repository / "a.md", 1)
    with pytest.raises(Unreadable, match="binary"):
        store.memory_files.blame(repository / "b.md")


def test_the_command_prints_lines_and_explains_one(store: Store, repository: Path) -> None:
    cli = CommandLine(store.path)
    path = repository / "CLAUDE.md"
    path.write_text("- Database: PostgreSQL\n- Mine\n")
    agent = AgentSession(store, "s1", repository)
    agent.write(path, "- Database: SQLite\n")
    agent.edit(path, "- Database: SQLite", "- Database: PostgreSQL")
    rows = cli("memory", "blame", str(path)).rows
    assert [[row[0], *row[2:]] for row in rows] == [
        ["1", "s1 turn 0", "Database: PostgreSQL"],
        ["2", "by hand", "Mine"],
    ]
    explained = cli("memory", "blame", f"{path}:1").out
    assert "Written by claude with Edit in turn 0 of s1" in explained
    assert "Before: Database: SQLite" in explained
    (line,) = cli("memory", "blame", f"{path}:1", "--json").json["lines"]
    assert line["origin"]["session"] == "s1"
    assert line["earlier"][0]["origin"]["tool"] == "Write"
    assert cli("memory", "blame", f"{path}:9").err == f"{path} has no fact on line 9.\n"
