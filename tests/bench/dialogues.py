"""Made-up conversations, before an agent has spelled them: who asked what, which tools ran, what was answered."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from bench.prose import Prose

SEED = "backscroll-1"
"""Change it whenever the same number would make other words, so that old corpora are not taken for new ones."""

NEWEST_START = datetime(2026, 1, 1, tzinfo=UTC)
START_INTERVAL = timedelta(minutes=53)

LAST_WORD = "quixotry"
"""Ends every conversation and stands nowhere else: it is found everywhere once all of them can be searched."""

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
    "Another agent, sent off in the last turn."

    @property
    def text_size(self) -> int:
        """Bytes of what was said and thought: what a conversation is, without its tools."""
        mine = sum(
            len(turn.prompt) + len(turn.answer) + sum(len(step.thinking) + len(step.text) for step in turn.steps)
            for turn in self.turns
        )
        return mine + (self.delegate.text_size if self.delegate else 0)


def format_time(at: datetime) -> str:
    """As both agents write times."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def make_dialogue(number: int, prose: Prose) -> Dialogue:
    """The same for the same number, whatever else is made; 0 is the newest."""
    chance = random.Random(f"{SEED} {number}")
    count = chance.choice(_TURNS)
    began = NEWEST_START - number * START_INTERVAL
    title = f"Task {number:06d} {prose.make_phrase(chance, 4)}"
    folder = f"/home/dev/code/{prose.words[50 + chance.randrange(40)]}"
    delegate = None
    if number % 11 == 7:
        asked = _make_turn(f"{title}, the part of another", prose, chance, is_last=True)
        delegate = Dialogue(number, _make_uuid(chance), began + timedelta(minutes=5), title, folder, (asked,))
    turns = [_make_turn("" if n else title, prose, chance, is_last=n == count - 1) for n in range(count)]
    return Dialogue(number, _make_uuid(chance), began, title, folder, tuple(turns), delegate)


def _make_turn(title: str, prose: Prose, chance: random.Random, *, is_last: bool) -> DialogueTurn:
    prompt = prose.make_sentences(chance, chance.randint(12, 60))
    steps = tuple(_make_step(prose, chance) for _ in range(chance.choice(_STEPS)))
    answer = prose.make_sentences(chance, chance.randint(25, 120))
    if chance.randrange(4) == 0:
        name, meaning, call = (prose.make_phrase(chance, words) for words in (2, 6, 1))
        answer += f"\n\n- **{name}**: {meaning}\n- `{call}()`"
    return DialogueTurn(
        f"{title}: {prompt}" if title else prompt, steps, f"{answer} {LAST_WORD}." if is_last else answer
    )


def _make_step(prose: Prose, chance: random.Random) -> DialogueStep:
    thought = prose.make_sentences(chance, chance.randint(12, 45)) if chance.randrange(2) else ""
    said = prose.make_sentences(chance, chance.randint(6, 20)) if chance.randrange(2) else ""
    command = f"rg -n {prose.make_phrase(chance, 1)} src/{prose.make_phrase(chance, 1)}"
    printed = prose.make_output(chance, chance.choice(_LINES))
    return DialogueStep(thought, said, chance.choice(_TOOLS), command, printed, chance.randrange(15) == 0)


def _make_uuid(chance: random.Random) -> UUID:
    return UUID(int=chance.getrandbits(128), version=4)
