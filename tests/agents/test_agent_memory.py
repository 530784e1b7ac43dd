"""Tests that the real programs load pushed facts, that what one writes is blamed to its turn, and the skill."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from agent_conversation import FILES, SCRIPT, run_json, sync_and_list
from agent_programs import PROGRAMS, AgentProgram, run_program
from command_line import CommandLine
from scripted_model import Reply, ScriptedModel

FACT = "The lighthouse keeper is called Odalys."
LINE = "The foghorn sounds twice."
REMEMBER = "Remember how often the foghorn sounds."
ASK_THE_PAST = "Look up what we said about the lamp."

MEMORY_FILES = (
    *("~/.claude/CLAUDE.md", "~/.claude/rules/a.md", "~/.codex/AGENTS.md", "~/.codex/memories/memory_summary.md"),
    *("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", ".claude/rules/b.md", "AGENTS.md", "TEAM.md"),
    *("web/AGENTS.override.md", "web/AGENTS.md", "web/CLAUDE.md", "web/deep/CLAUDE.md", "web/deep/AGENTS.md"),
    *(f"web/import-{level}.md" for level in range(1, 7)),
)
CODEX_SETTINGS = """
memories = true

[memories]
generate_memories = false
"""


def test_a_pushed_fact_reaches_the_model(
    program: AgentProgram, model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    backscroll.run_process("facts", "add", FACT)
    backscroll.run_process("memory", "share", "1", "--agent", program.name, "--folder", str(folder))
    pushed = backscroll.run_process("memory", "push")
    assert pushed.status == 0, pushed.err
    program.run_prompt(FILES, folder)
    assert FACT in json.dumps(model.last_request_for(FILES).body)


@pytest.mark.parametrize("left_out", [(), ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", "web/CLAUDE.md")])
def test_the_budget_lists_what_the_program_loads(
    program: AgentProgram,
    model: ScriptedModel,
    home: Path,
    backscroll: CommandLine,
    left_out: tuple[str, ...],
) -> None:
    """Write a mark into every file, and compare those that the model gets with those that the budget lists."""
    folder = home / "code"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    notes = f"~/.claude/projects/{re.sub('[^A-Za-z0-9]', '-', str(folder))}/memory/MEMORY.md"
    marks: dict[str, Path] = {}
    for number, name in enumerate((*MEMORY_FILES, notes)):
        path = home / name.removeprefix("~/") if name.startswith("~/") else folder / name
        if name in left_out:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        level = re.search(r"import-(\d)", name)
        imported = int(level[1]) + 1 if level else 1
        path.write_text(f"- MARK{number:02}.\n@import-{imported}.md\n")
        marks[f"MARK{number:02}"] = path
    config = home / ".codex/config.toml"
    config.write_text('project_doc_fallback_filenames = ["TEAM.md"]\n' + config.read_text() + CODEX_SETTINGS)
    program.run_prompt(FILES, folder / "web")
    sent = dict.fromkeys(re.findall(r"MARK\d\d", json.dumps(model.last_request_for(FILES).body)))
    (listed,) = run_json(backscroll, "memory", "budget", str(folder / "web"), "--agent", program.name)["agents"]
    expected = [Path(file["path"]) for file in listed["files"] if file["when"] == "start"]
    assert [marks[mark] for mark in sent] == expected


def test_a_line_that_claude_code_wrote_is_blamed_to_its_turn(
    model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    path = folder / "CLAUDE.md"
    arguments = {"file_path": str(path), "content": f"# Notes\n\n- {LINE}\n"}
    model.script = {**SCRIPT, REMEMBER: Reply("I wrote it down.", tool="Write", arguments=arguments)}
    run_program("claude", "--print", "--permission-mode", "acceptEdits", REMEMBER, folder=folder)
    assert LINE in path.read_text()
    (session,) = sync_and_list(backscroll)
    (line,) = run_json(backscroll, "memory", "blame", f"{path}:3")["lines"]
    assert line["text"] == LINE
    origin = line["origin"]
    assert (origin["kind"], origin["session"], origin["turn"], origin["tool"]) == ("session", session["id"], 1, "Write")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_command_of_the_skill_is_run_and_answered(
    program: AgentProgram, model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    assert backscroll.run_process("skill", "install", program.name).status == 0
    backscroll.run_process("facts", "add", FACT)
    command = f"PYTHONPATH={Path(__file__).resolve().parents[2]} {sys.executable} -m store --store {backscroll.path}"
    search = f"{command} search --for-agents lamp; true"
    model.script = {**SCRIPT, ASK_THE_PAST: Reply("It was never discussed.", command=search)}
    arguments = ("--allowedTools", "Bash") if program.name == "claude" else ()
    start, *rest = program.start_command
    run_program(start, *rest, *arguments, *(("--",) if arguments else ()), ASK_THE_PAST, folder=folder)
    request = model.last_request_for(ASK_THE_PAST)
    assert "is_complete" in request.context_json
    assert "backscroll" in json.dumps(request.body)
    described = "Search, open and cite past conversations"
    assert any(described in json.dumps(sent.body) for sent in model.requests)
