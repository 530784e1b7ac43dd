"""Tests that the real programs load pushed facts, that what one writes is blamed to its turn, and the skill."""

from __future__ import annotations

import json
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


def test_a_pushed_fact_reaches_the_model(
    program: AgentProgram, model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    backscroll.run_process("facts", "add", FACT)
    backscroll.run_process("memory", "share", "1", "--agent", program.name, "--folder", str(folder))
    pushed = backscroll.run_process("memory", "push")
    assert pushed.status == 0, pushed.err
    program.run_prompt(FILES, folder)
    assert FACT in json.dumps(model.last_request_for(FILES).body)


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
