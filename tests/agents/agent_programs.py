"""The agents' own programs: how each is set up to talk to the scripted model alone, asked, and gone on with."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from run import INSTALLED

BIN = INSTALLED / "node_modules" / ".bin"
PATIENCE = 120

# What a person's own environment may say to the programs, and what would lead them elsewhere.
TOLD = ("ANTHROPIC_", "CLAUDE", "CODEX_", "OPENAI_")
PROXIES = ("_proxy", "_PROXY")

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}
KEY = "no-key-is-needed"

CODEX_CONFIG = """\
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.scripted]
name = "The scripted model"
base_url = "{url}/v1"
wire_api = "responses"

[projects.{folder}]
trust_level = "trusted"

[analytics]
enabled = false

[features]
daemon_auto_start = false
"""


@dataclass(frozen=True)
class Program:
    name: str
    "Of its source, and of the program itself."
    mark: str
    "What stands where one types."
    starting: tuple[str, ...]
    listing: tuple[str, ...]
    "On a terminal, what can be resumed here."
    transcripts: str
    "Below the home."
    headless: tuple[str, ...]
    "What makes a command that wants a terminal do without one, placed after the program's name."

    def ask(self, prompt: str, folder: Path) -> str:
        return ran(*self.starting, prompt, folder=folder)

    def go_on(self, argv: Sequence[str], prompt: str, folder: Path) -> str:
        """The command that resumes a session, with one more prompt and without a terminal."""
        return ran(argv[0], *self.headless, *argv[1:], prompt, folder=folder)

    def written(self) -> list[Path]:
        return sorted(Path.home().glob(self.transcripts))


PROGRAMS = (
    Program(
        "claude",
        mark="❯",
        starting=("claude", "--print"),
        listing=("claude", "--resume"),
        transcripts=".claude/projects/*/*.jsonl",
        headless=("--print",),
    ),
    Program(
        "codex",
        mark="›",
        starting=("codex", "exec", "--skip-git-repo-check"),
        listing=("codex", "resume"),
        transcripts=".codex/sessions/*/*/*/rollout-*.jsonl",
        headless=("exec", "--skip-git-repo-check"),
    ),
)


def ran(*argv: str, folder: Path) -> str:
    """What the program says; it must end well, and soon."""
    try:
        done = subprocess.run(
            argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired as late:
        pytest.fail(f"{argv} did not end within {PATIENCE} seconds; it said {late.stdout!r} and {late.stderr!r}.")
    assert done.returncode == 0, f"{argv} ended with {done.returncode}; it said\n{done.stdout}\n{done.stderr}"
    return done.stdout


def set_up(url: str, folder: Path) -> None:
    """Answers in advance what the programs ask on their first start."""
    home = Path.home()
    claude = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [KEY], "rejected": []},
        "projects": {str(folder): {"hasTrustDialogAccepted": True}},
    }
    (home / ".claude.json").write_text(json.dumps(claude))
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(CODEX_CONFIG.format(url=url, folder=json.dumps(str(folder))))
