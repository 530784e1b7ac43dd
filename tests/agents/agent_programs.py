"""The agents' own programs: how each is set up to talk to the scripted model alone, asked, and gone on with."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from run import INSTALL_FOLDER

BIN = INSTALL_FOLDER / "node_modules" / ".bin"
TIMEOUT = 120

# What a person's own environment may say to the programs, and what would lead them elsewhere.
CLEARED_PREFIXES = ("ANTHROPIC_", "CLAUDE", "CODEX_", "OPENAI_")
PROXY_SUFFIXES = ("_proxy", "_PROXY")

QUIET_ENVIRONMENT = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}
API_KEY = "no-key-is-needed"

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
class AgentProgram:
    name: str
    "Of its source, and of the program itself."
    prompt_symbol: str
    "What stands where one types."
    start_command: tuple[str, ...]
    list_command: tuple[str, ...]
    "On a terminal, what can be resumed here."
    transcript_glob: str
    "Below the home."
    headless_arguments: tuple[str, ...]
    "What makes a command that wants a terminal do without one, placed after the program's name."

    def run_prompt(self, prompt: str, folder: Path) -> str:
        return run_program(*self.start_command, prompt, folder=folder)

    def resume(self, argv: Sequence[str], prompt: str, folder: Path) -> str:
        """The command that resumes a session, with one more prompt and without a terminal."""
        return run_program(argv[0], *self.headless_arguments, *argv[1:], prompt, folder=folder)

    def transcript_files(self) -> list[Path]:
        return sorted(Path.home().glob(self.transcript_glob))


PROGRAMS = (
    AgentProgram(
        "claude",
        prompt_symbol="❯",
        start_command=("claude", "--print"),
        list_command=("claude", "--resume"),
        transcript_glob=".claude/projects/*/*.jsonl",
        headless_arguments=("--print",),
    ),
    AgentProgram(
        "codex",
        prompt_symbol="›",
        start_command=("codex", "exec", "--skip-git-repo-check"),
        list_command=("codex", "resume"),
        transcript_glob=".codex/sessions/*/*/*/rollout-*.jsonl",
        headless_arguments=("exec", "--skip-git-repo-check"),
    ),
)


def run_program(*argv: str, folder: Path) -> str:
    """What the program says; it must end well, and soon."""
    try:
        done = subprocess.run(
            argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired as late:
        pytest.fail(f"{argv} did not end within {TIMEOUT} seconds; it said {late.stdout!r} and {late.stderr!r}.")
    assert done.returncode == 0, f"{argv} ended with {done.returncode}; it said\n{done.stdout}\n{done.stderr}"
    return done.stdout


def write_configuration(url: str, folder: Path) -> None:
    """Answers in advance what the programs ask on their first start."""
    home = Path.home()
    claude = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [API_KEY], "rejected": []},
        "projects": {str(folder): {"hasTrustDialogAccepted": True}},
    }
    (home / ".claude.json").write_text(json.dumps(claude))
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(CODEX_CONFIG.format(url=url, folder=json.dumps(str(folder))))
