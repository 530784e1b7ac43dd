"""What is said in these tests, a terminal to say it at, and what Backscroll knows of it afterwards."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

from agent_programs import Program
from browser_driver import PATIENCE
from command_line import CommandLine
from pty_terminal import Terminal
from scripted_model import Reply

FILES = "Tell me which files are here."
COLOUR = "Tell me what the lamp is like."
AUTHOR = "Tell me who put it there."
WORD = "Put it in one word."

SCRIPT = {
    FILES: Reply("There is one, and it is called notes.", runs="ls"),
    COLOUR: Reply("The notes call it green."),
    AUTHOR: Reply("The notes do not tell."),
    WORD: Reply("Gladly: so be it."),
}

BECOME = "import os, sys; os.chdir(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])"
LEAVE_WITHIN = 30


class Conversation(Terminal):
    """A program at a terminal that answers what programs ask of terminals, as real ones do."""

    def __init__(self, folder: object, *argv: str) -> None:
        super().__init__(BECOME, str(folder), *argv, rows=45)
        self._screen.write_process_input = self.press  # type: ignore[method-assign, assignment]

    def say(self, prompt: str) -> None:
        """Types it, waits until it stands there, sends it, and waits for the answer."""
        self.press(prompt)
        self.until_shown(prompt)
        self.press("\r")
        self.until_shown(SCRIPT[prompt].says)

    def leave(self) -> None:
        """By as many Ctrl-C as it takes."""
        limit = time.monotonic() + LEAVE_WITHIN
        while self._process.poll() is None:
            assert time.monotonic() < limit, "it does not end:\n" + "\n".join(self.lines)
            self.press("\x03")
            self.read(0.3)


def talk(program: Program, folder: Path, *said: str) -> Path:
    """A new session, in which that is said one after the other at a terminal; gives its transcript."""
    known = program.written()
    with Conversation(folder, program.name) as terminal:
        terminal.until_shown(program.mark)
        for prompt in said:
            terminal.say(prompt)
        terminal.leave()
    (transcript,) = set(program.written()) - set(known)
    return transcript


def listed(program: Program, folder: Path, rows: int, *titles: str) -> None:
    """In the program's own list so many rows show one of the titles, neither more nor less."""
    with Conversation(folder, *program.listing) as terminal:
        limit = time.monotonic() + PATIENCE
        while sum(any(title in line for title in titles) for line in terminal.lines) != rows:
            assert time.monotonic() < limit, f"{titles} are not in {rows} rows:\n" + "\n".join(terminal.lines)
            terminal.read(0.05)
        terminal.leave()


def added(transcript: Path, before: bytes) -> str:
    """What was written since; nothing else may have changed."""
    now = transcript.read_bytes()
    assert now.startswith(before)
    return now[len(before) :].decode()


def in_order(told: str, *words: str) -> bool:
    at = [told.find(word) for word in words]
    return -1 not in at and at == sorted(at)


def told_by(backscroll: CommandLine, *args: str) -> dict[str, Any]:
    ran = backscroll.process(*args, "--json")
    assert ran.status == 0, ran.err
    return ran.json


def synced(backscroll: CommandLine) -> list[dict[str, Any]]:
    """All sessions, after a sync that met no problem."""
    read = told_by(backscroll, "sync")
    assert [problem for source in read["sources"] for problem in source["problems"]] == []
    return list(told_by(backscroll, "list")["sessions"])


def prompts(backscroll: CommandLine, session: dict[str, Any]) -> list[str]:
    return [turn["prompt"] for turn in told_by(backscroll, "show", session["id"])["turns"] if turn["n"]]


def command(backscroll: CommandLine, session: dict[str, Any]) -> tuple[Path, list[str]]:
    """The folder and the command, as `--print` gives them to a shell."""
    _, folder, _, *argv = shlex.split(backscroll.process("resume", session["id"], "--print").out)
    return Path(folder), argv
