"""What is known of a conversation's turns before any of their text is read. Pure: readers fill it, screens keep it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import NamedTuple

_FAILURE_WORDS = re.compile(
    r"\b(error|errors|failed|failure|fatal|exception|refused|overloaded|aborted|interrupted|cancelled|canceled)\b",
    re.IGNORECASE,
)


class TurnOutline(NamedTuple):
    """A tuple, since there may be ten thousand and a tuple is made in C."""

    n: int
    first_seq: int
    last_seq: int
    started_at: str
    ended_at: str
    prompt: str
    "How it begins."
    author: str
    calls: int
    errors: int
    "Failed calls, and events that tell of a failure."
    tokens: int
    "Read and written, without what came from a cache."
    model: str
    "That answered; the last by name when several did."


class EntryPosition(NamedTuple):
    """Where an entry stands."""

    turn: int
    seq: int


@dataclass(frozen=True, slots=True)
class TimelineOutline:
    turns: tuple[TurnOutline, ...] = ()
    "In order; what came before the first prompt is turn 0."
    summarized_up_to: int = 0
    "The last turn that the summary covers; 0 when there is none, or when it does not say."

    def index_of_turn(self, n: int) -> int | None:
        """Where among the turns the one of that number stands."""
        at = bisect_left(self.turns, n, key=lambda turn: turn.n)
        return at if at < len(self.turns) and self.turns[at].n == n else None

    def index_of_entry(self, seq: int) -> int | None:
        """Which of the turns holds that entry."""
        at = bisect_right(self.turns, seq, key=lambda turn: turn.first_seq) - 1
        return at if at >= 0 and seq <= self.turns[at].last_seq else None


def mentions_failure(text: str) -> bool:
    """Whether an event's words speak of something that went wrong."""
    return _FAILURE_WORDS.search(text) is not None
