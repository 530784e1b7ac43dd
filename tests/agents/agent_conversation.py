"""This module has the prompts of these tests, a terminal to type them into, and what Backscroll answers about them."""

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
    """Runs a program in a terminal that answers the program's queries, as real terminals do."""

    def __init__(self, folder: object, *argv: str) -> None:
        super().__init__(EXEC_PROGRAM, str(folder), *argv, rows=45)
        self._screen.write_process_input = self.press  # type: ignore[method-assign, assignment]

    def send_prompt(self, prompt: str) -> None:
        """Type a prompt, wait until it is displayed, send it, and wait for the answer."""
        self.press(prompt)
        self.wait_for_text(prompt)
        self.press("\r")
        self.wait_for_text(SCRIPT[prompt].text)

    def interrupt_until_exit(self) -> None:
        """Press Ctrl-C until the program has ended."""
        limit = time.monotonic() + EXIT_TIMEOUT
        while self._process.poll() is None:
            assert time.monotonic() < limit, "The program does not end:\n" + "\n".join(self.lines)
            self.press("\x03")
            self.read(0.3)


def start_session(program: AgentProgram, folder: Path, *prompts: str) -> Path:
    """Start a new session in a terminal, send the prompts one after the other, and return its transcript."""
    old_transcripts = program.transcript_files()
    with AgentTerminal(folder, program.name) as terminal:
        terminal.wait_for_text(program.prompt_symbol)
        for prompt in prompts:
            terminal.send_prompt(prompt)
        terminal.interrupt_until_exit()
    (transcript,) = set(program.transcript_files()) - set(old_transcripts)
    return transcript


def check_session_list(program: AgentProgram, folder: Path, rows: int, *titles: str) -> None:
    """Wait until exactly this many rows of the program's own session list show one of the titles."""
    with AgentTerminal(folder, *program.list_command) as terminal:
        limit = time.monotonic() + TIMEOUT
        while sum(any(title in line for title in titles) for line in terminal.lines) != rows:
            assert time.monotonic() < limit, f"{titles} are not in {rows} rows:\n" + "\n".join(terminal.lines)
            terminal.read(0.05)
        terminal.interrupt_until_exit()


def appended_text(transcript: Path, before: bytes) -> str:
    """Return what was appended since. Nothing else may have changed."""
    content = transcript.read_bytes()
    assert content.startswith(before)
    return content[len(before) :].decode()


def is_in_order(text: str, *words: str) -> bool:
    positions = [text.find(word) for word in words]
    return -1 not in positions and positions == sorted(positions)


def run_json(backscroll: CommandLine, *args: str) -> dict[str, Any]:
    result = backscroll.run_process(*args, "--json")
    assert result.status == 0, result.err
    return result.json


def sync_and_list(backscroll: CommandLine) -> list[dict[str, Any]]:
    """Sync without problems, and return all sessions."""
    report = run_json(backscroll, "sync")
    assert [problem for source in report["sources"] for problem in source["problems"]] == []
    return list(run_json(backscroll, "list")["sessions"])


def list_prompts(backscroll: CommandLine, session: dict[str, Any]) -> list[str]:
    return [turn["prompt"] for turn in run_json(backscroll, "show", session["id"])["turns"] if turn["n"]]


def resume_command(backscroll: CommandLine, session: dict[str, Any]) -> tuple[Path, list[str]]:
    """Return the folder and the command that `resume --print` prints for a shell."""
    _, folder, _, *argv = shlex.split(backscroll.run_process("resume", session["id"], "--print").out)
    return Path(folder), argv
