"""Checks the skill: what it costs, where it is installed, and that its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import CommandLine

from store.agent_api.past.skill import SKILL_TEXT
from store.memory.context import estimate_tokens
from store.memory.rules import AGENTS
from store.store import Store

MAX_TOKENS_UNTIL_USED = 35


@pytest.fixture
def cli(store: Store) -> CommandLine:
    return CommandLine(store.path)


def test_the_skill_costs_little_until_it_is_used() -> None:
    header = re.findall(r"^(?:name|description): (.*)$", SKILL_TEXT, re.M)
    assert estimate_tokens(" ".join(header)) <= MAX_TOKENS_UNTIL_USED


def test_its_commands_exist(store: Store, cli: CommandLine) -> None:
    store.create_session("s1")
    store.append_message("s1", "user", "words")
    commands = re.findall(r"`backscroll (\w+ --for-agents[^`]*)`", SKILL_TEXT)
    assert len(commands) == 3
    for command in commands:
        words = (
            command.replace("[WORDS]", "words").replace("WORDS", "words").replace("SESSION", "s1").replace(" N", " 1")
        )
        assert "coverage" in cli(*words.split()).json


def test_it_is_installed_shown_removed_and_undone(cli: CommandLine, home: Path) -> None:
    for name in (".claude", ".codex", ".config/opencode"):
        (home / name).mkdir(parents=True)
    files = [
        home / ".claude/skills/backscroll/SKILL.md",
        home / ".codex/skills/backscroll/SKILL.md",
        home / ".config/opencode/skills/backscroll/SKILL.md",
    ]
    dry = cli("skill", "install", "--dry-run")
    assert f"+++ {files[0]}" in dry.lines
    assert not any(path.exists() for path in files)
    assert cli("skill", "install").err.startswith("3 files written; the backup is ")
    assert all(path.read_text() == SKILL_TEXT for path in files)
    assert cli("skill", "--json").json["installed"] == ["claude", "codex", "opencode"]
    assert cli("skill", "install").err == "Nothing to do.\n"
    files[1].write_text("mine")
    removed = cli("skill", "remove")
    assert (removed.status, [path.exists() for path in files]) == (1, [False, True, False])
    assert not files[0].parent.exists()
    assert "was edited, so it stays" in removed.err
    assert cli("undo").status == 0
    assert files[0].read_text() == SKILL_TEXT


@pytest.mark.parametrize("agent", AGENTS)
def test_each_agent_takes_it_in_its_folder(cli: CommandLine, home: Path, agent: str) -> None:
    folders = {"opencode": ".config/opencode", "goose": ".config/goose", "pi": ".pi/agent"}
    assert cli("skill", "install", agent).status == 0
    file = home / folders.get(agent, f".{agent}") / "skills/backscroll/SKILL.md"
    assert file.read_text() == SKILL_TEXT
    assert agent in cli("skill", "--json").json["installed"]
    assert cli("skill", "remove", agent).status == 0
    assert not file.parent.exists()


def test_unknown_agents_and_an_empty_home_are_refused(cli: CommandLine) -> None:
    assert cli("skill", "install", "cursor").err.startswith("No skill is known for 'cursor'. Use one of: claude")
    assert cli("skill", "install").err.startswith("No agent that takes skills was found.")
