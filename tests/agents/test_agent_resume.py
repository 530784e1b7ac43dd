"""What Backscroll hands over is gone on with: by the real programs, in the real transcripts."""

from __future__ import annotations

from pathlib import Path

from agent_conversation import (
    COLOUR,
    FILES,
    SCRIPT,
    WORD,
    Conversation,
    added,
    command,
    in_order,
    prompts,
    synced,
    talk,
)
from agent_programs import Program
from command_line import CommandLine
from scripted_model import ScriptedModel


def test_a_session_goes_on_at_the_terminal_that_is_handed_over(
    program: Program, model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    transcript = talk(program, folder, FILES)
    before = transcript.read_bytes()
    (session,) = synced(backscroll)
    with Conversation("/", *backscroll.command("resume", session["id"])) as terminal:
        terminal.until_shown(FILES, SCRIPT[FILES].says)
        terminal.say(COLOUR)
        assert "in use" in backscroll.process("resume", session["id"], "--print").err
        terminal.leave()
    assert "in use" not in backscroll.process("resume", session["id"], "--print").err
    assert in_order(model.asked(COLOUR).told, FILES, "notes.txt", SCRIPT[FILES].says, COLOUR)
    assert program.written() == [transcript]
    assert in_order(added(transcript, before), COLOUR, SCRIPT[COLOUR].says)
    (session,) = synced(backscroll)
    assert prompts(backscroll, session) == [FILES, COLOUR]
    assert session["tool_calls"] == 1


def test_a_session_without_a_terminal_goes_on_by_the_command_that_is_printed(
    program: Program, model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    program.ask(FILES, folder)
    (transcript,) = program.written()
    before = transcript.read_bytes()
    (session,) = synced(backscroll)
    where, argv = command(backscroll, session)
    assert where == folder
    assert SCRIPT[WORD].says in program.go_on(argv, WORD, where)
    assert in_order(model.asked(WORD).told, FILES, "notes.txt", SCRIPT[FILES].says, WORD)
    assert program.written() == [transcript]
    assert in_order(added(transcript, before), WORD, SCRIPT[WORD].says)
    (session,) = synced(backscroll)
    assert prompts(backscroll, session) == [FILES, WORD]
    assert session["tool_calls"] == 1
