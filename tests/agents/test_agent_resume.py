"""Tests that the real programs continue the sessions that Backscroll resumes, in their own transcripts."""

from __future__ import annotations

from pathlib import Path

from agent_conversation import (
    COLOUR,
    FILES,
    SCRIPT,
    WORD,
    AgentTerminal,
    appended_text,
    is_in_order,
    list_prompts,
    resume_command,
    start_session,
    sync_and_list,
)
from agent_programs import AgentProgram
from command_line import CommandLine
from scripted_model import ScriptedModel


def test_a_session_continues_in_the_terminal_that_is_handed_over(
    program: AgentProgram, model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    transcript = start_session(program, folder, FILES)
    before = transcript.read_bytes()
    (session,) = sync_and_list(backscroll)
    with AgentTerminal("/", *backscroll.command("resume", session["id"])) as terminal:
        terminal.wait_for_text(FILES, SCRIPT[FILES].text)
        terminal.send_prompt(COLOUR)
        assert "in use" in backscroll.run_process("resume", session["id"], "--print").err
        terminal.interrupt_until_exit()
    assert "in use" not in backscroll.run_process("resume", session["id"], "--print").err
    assert is_in_order(model.last_request_for(COLOUR).context_json, FILES, "notes.txt", SCRIPT[FILES].text, COLOUR)
    assert program.transcript_files() == [transcript]
    assert is_in_order(appended_text(transcript, before), COLOUR, SCRIPT[COLOUR].text)
    (session,) = sync_and_list(backscroll)
    assert list_prompts(backscroll, session) == [FILES, COLOUR]
    assert session["tool_calls"] == 1


def test_a_session_without_a_terminal_continues_with_the_printed_command(
    program: AgentProgram, model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    program.run_prompt(FILES, folder)
    (transcript,) = program.transcript_files()
    before = transcript.read_bytes()
    (session,) = sync_and_list(backscroll)
    resume_folder, argv = resume_command(backscroll, session)
    assert resume_folder == folder
    assert SCRIPT[WORD].text in program.resume(argv, WORD, resume_folder)
    assert is_in_order(model.last_request_for(WORD).context_json, FILES, "notes.txt", SCRIPT[FILES].text, WORD)
    assert program.transcript_files() == [transcript]
    assert is_in_order(appended_text(transcript, before), WORD, SCRIPT[WORD].text)
    (session,) = sync_and_list(backscroll)
    assert list_prompts(backscroll, session) == [FILES, WORD]
    assert session["tool_calls"] == 1
