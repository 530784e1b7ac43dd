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
    Conversation,
    added,
    command,
    in_order,
    listed,
    prompts,
    synced,
    talk,
    told_by,
)
from agent_programs import Program
from command_line import CommandLine
from scripted_model import ScriptedModel


def forked(backscroll: CommandLine, *options: str) -> tuple[Path, dict[str, Any]]:
    """A native fork of the one session there is."""
    (session,) = synced(backscroll)
    made = told_by(backscroll, "fork", session["id"], "--native", *options)
    return Path(made["path"]), made["session"]


def test_a_fork_is_listed_and_goes_on_without_what_came_later(
    program: Program, model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    original = talk(program, folder, FILES, COLOUR)
    before = original.read_bytes()
    copy, fork = forked(backscroll, "--turn", "1")
    assert set(program.written()) == {original, copy}
    written = copy.read_bytes()
    listed(program, folder, 2, FILES, COLOUR)
    with Conversation("/", *backscroll.command("resume", fork["id"])) as terminal:
        terminal.until_shown(FILES, SCRIPT[FILES].says)
        assert COLOUR not in "\n".join(terminal.lines)
        terminal.say(AUTHOR)
        terminal.leave()
    told = model.asked(AUTHOR).told
    assert in_order(told, FILES, "notes.txt", SCRIPT[FILES].says, AUTHOR)
    assert COLOUR not in told
    assert set(program.written()) == {original, copy}
    assert original.read_bytes() == before
    assert in_order(added(copy, written), AUTHOR, SCRIPT[AUTHOR].says)
    sessions = {session["id"]: session for session in synced(backscroll)}
    child = sessions.pop(fork["id"])
    (parent,) = sessions.values()
    assert (child["parent_id"], child["relation"]) == (parent["id"], "fork")
    assert prompts(backscroll, parent) == [FILES, COLOUR]
    assert prompts(backscroll, child) == [FILES, AUTHOR]


def test_a_fork_with_another_prompt_goes_on_from_that_and_is_listed_where_its_parent_is_not(
    program: Program, model: ScriptedModel, folder: Path, backscroll: CommandLine
) -> None:
    """The programs hide what nobody sat before; whoever forks it sits before the fork."""
    program.ask(FILES, folder)
    (original,) = program.written()
    program.go_on(command(backscroll, synced(backscroll)[0])[1], COLOUR, folder)
    before = original.read_bytes()
    copy, fork = forked(backscroll, "--turn", "2", "--prompt", AUTHOR)
    written = copy.read_bytes()
    listed(program, folder, 1, FILES)
    where, argv = command(backscroll, fork)
    assert SCRIPT[WORD].says in program.go_on(argv, WORD, where)
    told = model.asked(WORD).told
    assert in_order(told, FILES, "notes.txt", SCRIPT[FILES].says, AUTHOR, WORD)
    assert COLOUR not in told
    assert set(program.written()) == {original, copy}
    assert original.read_bytes() == before
    assert in_order(added(copy, written), WORD, SCRIPT[WORD].says)
    assert {session["parent_id"] for session in synced(backscroll)} == {None, fork["parent_id"]}
    assert prompts(backscroll, fork) == [FILES, AUTHOR, WORD]
