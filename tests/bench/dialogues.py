"""This module makes up conversations, independent of the format in which an agent writes them."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from bench.prose import Prose

SEED = "backscroll-1"
"""Must change whenever the same number makes other words, so that old corpora are not used any more."""

NEWEST_START = datetime(2026, 1, 1, tzinfo=UTC)
START_INTERVAL = timedelta(minutes=53)

TITLE = re.compile(rb"Task \d{6}")
"""Matches how every title begins, as a program shows it."""

LAST_WORD = "quixotry"
"""Ends every conversation and occurs nowhere else. When all sessions are searchable, it finds all of them."""

_TURNS = (1, 2, 3, 4, 5, 6, 8, 10, 14)
_STEPS = (0, 1, 1, 2, 2, 3, 4, 6)
_LINES = (2, 3, 5, 8, 12, 20, 30, 45, 90)
_TOOLS = ("Bash", "Bash", "Read", "Grep")


@dataclass(frozen=True, slots=True)
class DialogueStep:
    thinking: str
    text: str
    tool: str
    command: str
    output: str
    failed: bool


@dataclass(frozen=True, slots=True)
class DialogueTurn:
    prompt: str
    steps: tuple[DialogueStep, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class Dialogue:
    number: int
    uuid: UUID
    started_at: datetime
    title: str
    folder: str
    turns: tuple[DialogueTurn, ...]
    delegate: Dialogue | None = None
    "Is the conversation of a sub-agent that was started in the last turn."

    @property
    def text_size(self) -> int:
        """Count the bytes of prompts, answers and thinking, without tool calls and results."""
        own_size = sum(
            len(turn.prompt) + len(turn.answer) + sum(len(step.thinking) + len(step.text) for step in turn.steps)
            for turn in self.turns
        )
        return own_size + (self.delegate.text_size if self.delegate else 0)


def format_time(at: datetime) -> str:
    """Format a time as both agents do."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def make_dialogue(number: int, prose: Prose) -> Dialogue:
    """Return the dialogue of a number, which is always the same; 0 is the newest."""
    rng = random.Random(f"{SEED} {number}")
    count = rng.choice(_TURNS)
    started_at = NEWEST_START - number * START_INTERVAL
    title = f"Task {number:06d} {prose.make_phrase(rng, 4)}"
    folder = f"/home/dev/code/{prose.words[50 + rng.randrange(40)]}"
    delegate = None
    if number % 11 == 7:
        turn = _make_turn(f"{title}, the part of another", prose, rng, is_last=True)
        delegate = Dialogue(number, _make_uuid(rng), started_at + timedelta(minutes=5), title, folder, (turn,))
    turns = [_make_turn("" if n else title, prose, rng, is_last=n == count - 1) for n in range(count)]
    return Dialogue(number, _make_uuid(rng), started_at, title, folder, tuple(turns), delegate)


def _make_turn(title: str, prose: Prose, rng: random.Random, *, is_last: bool) -> DialogueTurn:
    prompt = prose.make_sentences(rng, rng.randint(12, 60))
    steps = tuple(_make_step(prose, rng) for _ in range(rng.choice(_STEPS)))
    answer = prose.make_sentences(rng, rng.randint(25, 120))
    if rng.randrange(4) == 0:
        name, meaning, call = (prose.make_phrase(rng, words) for words in (2, 6, 1))
        answer += f"\n\n- **{name}**: {meaning}\n- `{call}()`"
    return DialogueTurn(
        f"{title}: {prompt}" if title else prompt, steps, f"{answer} {LAST_WORD}." if is_last else answer
    )


def _make_step(prose: Prose, rng: random.Random) -> DialogueStep:
    thinking = prose.make_sentences(rng, rng.randint(12, 45)) if rng.randrange(2) else ""
    text = prose.make_sentences(rng, rng.randint(6, 20)) if rng.randrange(2) else ""
    command = f"rg -n {prose.make_phrase(rng, 1)} src/{prose.make_phrase(rng, 1)}"
    output = prose.make_output(rng, rng.choice(_LINES))
    return DialogueStep(thinking, text, rng.choice(_TOOLS), command, output, rng.randrange(15) == 0)


def _make_uuid(rng: random.Random) -> UUID:
    return UUID(int=rng.getrandbits(128), version=4)
