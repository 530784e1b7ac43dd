"""A fork that Backscroll writes is one of the program's own sessions: listed, resumed, answered, and written on."""

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


def forked(backscroll: CommandLine, *options: str) -> tuple[Path, dict[str, Any]]:
    """A native fork of the one session there is."""
    (session,) = sync_and_list(backscroll)
    made = run_json(backscroll, "fork", session["id"], "--native", *options)
    return Path(made["path"]), made["session"]


def test_a_fork_is_listed_and_goes_on_without_what_came_later(
    program: AgentProgram, model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    original = start_session(program, folder, FILES, COLOUR)
    before = original.read_bytes()
    copy, fork = forked(backscroll, "--turn", "1")
    assert set(program.transcript_files()) == {original, copy}
    written = copy.read_bytes()
    check_session_list(program, folder, 2, FILES, COLOUR)
    with AgentTerminal("/", *backscroll.command("resume", fork["id"])) as terminal:
        terminal.wait_for_text(FILES, SCRIPT[FILES].text)
        assert COLOUR not in "\n".join(terminal.lines)
        terminal.send_prompt(AUTHOR)
        terminal.interrupt_until_exit()
    told = model.last_request_for(AUTHOR).context_json
    assert is_in_order(told, FILES, "notes.txt", SCRIPT[FILES].text, AUTHOR)
    assert COLOUR not in told
    assert set(program.transcript_files()) == {original, copy}
    assert original.read_bytes() == before
    assert is_in_order(appended_text(copy, written), AUTHOR, SCRIPT[AUTHOR].text)
    sessions = {session["id"]: session for session in sync_and_list(backscroll)}
    child = sessions.pop(fork["id"])
    (parent,) = sessions.values()
    assert (child["parent_id"], child["relation"]) == (parent["id"], "fork")
    assert list_prompts(backscroll, parent) == [FILES, COLOUR]
    assert list_prompts(backscroll, child) == [FILES, AUTHOR]


def test_a_fork_with_another_prompt_goes_on_from_that_and_is_listed_where_its_parent_is_not(
    program: AgentProgram, model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    """The programs hide what nobody sat before; whoever forks it sits before the fork."""
    program.run_prompt(FILES, folder)
    (original,) = program.transcript_files()
    program.resume(resume_command(backscroll, sync_and_list(backscroll)[0])[1], COLOUR, folder)
    before = original.read_bytes()
    copy, fork = forked(backscroll, "--turn", "2", "--prompt", AUTHOR)
    written = copy.read_bytes()
    check_session_list(program, folder, 1, FILES)
    where, argv = resume_command(backscroll, fork)
    assert SCRIPT[WORD].text in program.resume(argv, WORD, where)
    told = model.last_request_for(WORD).context_json
    assert is_in_order(told, FILES, "notes.txt", SCRIPT[FILES].text, AUTHOR, WORD)
    assert COLOUR not in told
    assert set(program.transcript_files()) == {original, copy}
    assert original.read_bytes() == before
    assert is_in_order(appended_text(copy, written), WORD, SCRIPT[WORD].text)
    assert {session["parent_id"] for session in sync_and_list(backscroll)} == {None, fork["parent_id"]}
    assert list_prompts(backscroll, fork) == [FILES, AUTHOR, WORD]
