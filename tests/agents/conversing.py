"""What is said in these tests, and a terminal to say it at."""

from __future__ import annotations

import time
from typing import Any

from scripted_model import Reply
from tui_terminal import Terminal

FILES = "Which files are here?"
COLOUR = "What is the lamp like?"
AUTHOR = "Who put it there?"
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


def in_order(told: str, *words: str) -> bool:
    at = [told.find(word) for word in words]
    return -1 not in at and at == sorted(at)


def prompts(shown: dict[str, Any]) -> list[str]:
    return [turn["prompt"] for turn in shown["turns"] if turn["n"]]
