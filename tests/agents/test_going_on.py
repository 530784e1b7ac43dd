"""What Backscroll hands over is gone on with: by the real programs, in the real transcripts."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from cli_running import CommandLine
from conversing import COLOUR, FILES, SCRIPT, WORD, Conversation, in_order, prompts
from programs import Program
from scripted_model import ScriptedModel


def synced(backscroll: CommandLine) -> list[dict[str, Any]]:
    """All sessions, after a sync that met no problem."""
    read = backscroll.process("sync", "--json").json
    assert [problem for source in read["sources"] for problem in source["problems"]] == []
    return list(backscroll.process("list", "--json").json["sessions"])


def shown(backscroll: CommandLine, session: dict[str, Any]) -> dict[str, Any]:
    return backscroll.process("show", session["id"], "--json").json


def command(backscroll: CommandLine, session: dict[str, Any]) -> tuple[Path, list[str]]:
    """The folder and the command, as `--print` gives them to a shell."""
    _, folder, _, *argv = shlex.split(backscroll.process("resume", session["id"], "--print").out)
    return Path(folder), argv


def test_a_session_goes_on_at_the_terminal_that_is_handed_over(
    program: Program, model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    program.ask(FILES, folder)
    (transcript,) = program.written()
    before = transcript.read_bytes()
    (session,) = synced(backscroll)
    with Conversation("/", *backscroll.command("resume", session["id"])) as terminal:
        terminal.until_shown(FILES, SCRIPT[FILES].says)
        terminal.say(COLOUR)
        terminal.leave()
    assert in_order(model.asked(COLOUR).told, FILES, "notes.txt", SCRIPT[FILES].says, COLOUR)
    assert program.written() == [transcript]
    assert transcript.read_bytes().startswith(before)
    assert SCRIPT[COLOUR].says.encode() in transcript.read_bytes()
    (session,) = synced(backscroll)
    assert prompts(shown(backscroll, session)) == [FILES, COLOUR]
    assert session["tool_calls"] == 1


def test_a_session_goes_on_by_the_command_that_is_printed(
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
    assert transcript.read_bytes().startswith(before)
    (session,) = synced(backscroll)
    assert prompts(shown(backscroll, session)) == [FILES, WORD]
