"""What is said in these tests, a terminal to say it at, and what Backscroll knows of it afterwards."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

from agent_programs import AgentProgram
from browser_driver import TIMEOUT
from command_line import CommandLine
from pty_terminal import Terminal
from scripted_model import Reply

FILES = "Tell me which files are here."
COLOUR = "Tell me what the lamp is like."
AUTHOR = "Tell me who put it there."
WORD = "Put it in one word."

SCRIPT = {
    FILES: Reply("There is one, and it is called notes.", command="ls"),
    COLOUR: Reply("The notes call it green."),
    AUTHOR: Reply("The notes do not tell."),
    WORD: Reply("Gladly: so be it."),
}

EXEC_PROGRAM = "import os, sys; os.chdir(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])"
EXIT_TIMEOUT = 30


class AgentTerminal(Terminal):
    """A program at a terminal that answers what programs ask of terminals, as real ones do."""

    def __init__(self, folder: object, *argv: str) -> None:
        super().__init__(EXEC_PROGRAM, str(folder), *argv, rows=45)
        self._screen.write_process_input = self.press  # type: ignore[method-assign, assignment]

    def send_prompt(self, prompt: str) -> None:
        """Types it, waits until it stands there, sends it, and waits for the answer."""
        self.press(prompt)
        self.wait_for_text(prompt)
        self.press("\r")
        self.wait_for_text(SCRIPT[prompt].text)

    def interrupt_until_exit(self) -> None:
        """By as many Ctrl-C as it takes."""
        limit = time.monotonic() + EXIT_TIMEOUT
        while self._process.poll() is None:
            assert time.monotonic() < limit, "it does not end:\n" + "\n".join(self.lines)
            self.press("\x03")
            self.read(0.3)


def start_session(program: AgentProgram, folder: Path, *said: str) -> Path:
    """A new session, in which that is said one after the other at a terminal; gives its transcript."""
    known = program.transcript_files()
    with AgentTerminal(folder, program.name) as terminal:
        terminal.wait_for_text(program.prompt_symbol)
        for prompt in said:
            terminal.send_prompt(prompt)
        terminal.interrupt_until_exit()
    (transcript,) = set(program.transcript_files()) - set(known)
    return transcript


def check_session_list(program: AgentProgram, folder: Path, rows: int, *titles: str) -> None:
    """In the program's own list so many rows show one of the titles, neither more nor less."""
    with AgentTerminal(folder, *program.list_command) as terminal:
        limit = time.monotonic() + TIMEOUT
        while sum(any(title in line for title in titles) for line in terminal.lines) != rows:
            assert time.monotonic() < limit, f"{titles} are not in {rows} rows:\n" + "\n".join(terminal.lines)
            terminal.read(0.05)
        terminal.interrupt_until_exit()


def appended_text(transcript: Path, before: bytes) -> str:
    """What was written since; nothing else may have changed."""
    now = transcript.read_bytes()
    assert now.startswith(before)
    return now[len(before) :].decode()


def is_in_order(told: str, *words: str) -> bool:
    at = [told.find(word) for word in words]
    return -1 not in at and at == sorted(at)


def run_json(backscroll: CommandLine, *args: str) -> dict[str, Any]:
    ran = backscroll.run_process(*args, "--json")
    assert ran.status == 0, ran.err
    return ran.json


def sync_and_list(backscroll: CommandLine) -> list[dict[str, Any]]:
    """All sessions, after a sync that met no problem."""
    read = run_json(backscroll, "sync")
    assert [problem for source in read["sources"] for problem in source["problems"]] == []
    return list(run_json(backscroll, "list")["sessions"])


def list_prompts(backscroll: CommandLine, session: dict[str, Any]) -> list[str]:
    return [turn["prompt"] for turn in run_json(backscroll, "show", session["id"])["turns"] if turn["n"]]


def resume_command(backscroll: CommandLine, session: dict[str, Any]) -> tuple[Path, list[str]]:
    """The folder and the command, as `--print` gives them to a shell."""
    _, folder, _, *argv = shlex.split(backscroll.run_process("resume", session["id"], "--print").out)
    return Path(folder), argv
