"""This module describes the agents' programs: how to configure them for the scripted model, start and resume them."""

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

# These variables of the user would change the programs, or connect them to another model.
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
    "Names both the source and the program."
    prompt_symbol: str
    "Is displayed where a prompt can be typed."
    start_command: tuple[str, ...]
    list_command: tuple[str, ...]
    "Shows in a terminal what can be resumed in this folder."
    transcript_glob: str
    "Is relative to the home folder."
    headless_arguments: tuple[str, ...]
    "Follow the program's name to run a command without a terminal."

    def run_prompt(self, prompt: str, folder: Path) -> str:
        return run_program(*self.start_command, prompt, folder=folder)

    def resume(self, argv: Sequence[str], prompt: str, folder: Path) -> str:
        """Run a command that resumes a session, with one more prompt and without a terminal; return its output."""
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
    """Return the output of a program, which must succeed within the timeout."""
    try:
        result = subprocess.run(
            argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired as expired:
        pytest.fail(
            f"{argv} did not end within {TIMEOUT} seconds. It printed {expired.stdout!r} and {expired.stderr!r}."
        )
    assert result.returncode == 0, f"{argv} exited with {result.returncode}:\n{result.stdout}\n{result.stderr}"
    return result.stdout


def write_configuration(url: str, folder: Path) -> None:
    """Write the settings that the programs would otherwise ask for on their first start."""
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
