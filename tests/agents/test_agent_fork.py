"""Tests that a fork written by Backscroll is a normal session of the program: listed, resumed and continued."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_conversation import (
    AUTHOR,
    COLOUR,
    FILES,
    SCRIPT,
    WORD,
    AgentTerminal,
    appended_text,
    check_session_list,
    is_in_order,
    list_prompts,
    resume_command,
    run_json,
    start_session,
    sync_and_list,
)
from agent_programs import AgentProgram
from command_line import CommandLine
from scripted_model import ScriptedModel


def fork_only_session(backscroll: CommandLine, *options: str) -> tuple[Path, dict[str, Any]]:
    """Make a native fork of the only session; return its transcript and the session."""
    (session,) = sync_and_list(backscroll)
    fork = run_json(backscroll, "fork", session["id"], "--native", *options)
    return Path(fork["path"]), fork["session"]


def test_a_fork_is_listed_and_continues_without_later_turns(
    program: AgentProgram, model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    original = start_session(program, folder, FILES, COLOUR)
    before = original.read_bytes()
    copy, fork = fork_only_session(backscroll, "--turn", "1")
    assert set(program.transcript_files()) == {original, copy}
    written = copy.read_bytes()
    check_session_list(program, folder, 2, FILES, COLOUR)
    with AgentTerminal("/", *backscroll.command("resume", fork["id"])) as terminal:
        terminal.wait_for_text(FILES, SCRIPT[FILES].text)
        assert COLOUR not in "\n".join(terminal.lines)
        terminal.send_prompt(AUTHOR)
        terminal.interrupt_until_exit()
    context = model.last_request_for(AUTHOR).context_json
    assert is_in_order(context, FILES, "notes.txt", SCRIPT[FILES].text, AUTHOR)
    assert COLOUR not in context
    assert set(program.transcript_files()) == {original, copy}
    assert original.read_bytes() == before
    assert is_in_order(appended_text(copy, written), AUTHOR, SCRIPT[AUTHOR].text)
    sessions = {session["id"]: session for session in sync_and_list(backscroll)}
    child = sessions.pop(fork["id"])
    (parent,) = sessions.values()
    assert (child["parent_id"], child["relation"]) == (parent["id"], "fork")
    assert list_prompts(backscroll, parent) == [FILES, COLOUR]
    assert list_prompts(backscroll, child) == [FILES, AUTHOR]


def test_a_fork_with_another_prompt_continues_from_it_and_is_listed_although_its_parent_is_not(
    program: AgentProgram, model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    """The programs hide sessions that were not interactive. A fork counts as interactive."""
    program.run_prompt(FILES, folder)
    (original,) = program.transcript_files()
    program.resume(resume_command(backscroll, sync_and_list(backscroll)[0])[1], COLOUR, folder)
    before = original.read_bytes()
    copy, fork = fork_only_session(backscroll, "--turn", "2", "--prompt", AUTHOR)
    written = copy.read_bytes()
    check_session_list(program, folder, 1, FILES)
    resume_folder, argv = resume_command(backscroll, fork)
    assert SCRIPT[WORD].text in program.resume(argv, WORD, resume_folder)
    context = model.last_request_for(WORD).context_json
    assert is_in_order(context, FILES, "notes.txt", SCRIPT[FILES].text, AUTHOR, WORD)
    assert COLOUR not in context
    assert set(program.transcript_files()) == {original, copy}
    assert original.read_bytes() == before
    assert is_in_order(appended_text(copy, written), WORD, SCRIPT[WORD].text)
    assert {session["parent_id"] for session in sync_and_list(backscroll)} == {None, fork["parent_id"]}
    assert list_prompts(backscroll, fork) == [FILES, AUTHOR, WORD]
