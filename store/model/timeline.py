"""This module defines the outline of a conversation: what is known of its turns before their text is read."""

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
    """Describes a turn without its entries.

    It is a tuple, because a session may have ten thousand of them, and tuples are created quickly.
    """

    n: int
    first_seq: int
    last_seq: int
    started_at: str
    ended_at: str
    prompt: str
    "Holds the beginning of the prompt."
    author: str
    calls: int
    errors: int
    "Counts failed calls, and events that report a failure."
    tokens: int
    "Counts input and output tokens without cached ones."
    model: str
    "Is the model that answered; of several, the last in alphabetical order."


class EntryPosition(NamedTuple):
    """Identifies an entry within its session."""

    turn: int
    seq: int


@dataclass(frozen=True, slots=True)
class TimelineOutline:
    turns: tuple[TurnOutline, ...] = ()
    "Holds the turns in order. Entries before the first prompt are turn 0."
    summarized_up_to: int = 0
    "Is the last turn that the summary covers, or 0 when there is no summary or that is unknown."

    def index_of_turn(self, n: int) -> int | None:
        """Return the index of turn number `n`, or None."""
        index = bisect_left(self.turns, n, key=lambda turn: turn.n)
        return index if index < len(self.turns) and self.turns[index].n == n else None

    def index_of_entry(self, seq: int) -> int | None:
        """Return the index of the turn with that entry, or None."""
        index = bisect_right(self.turns, seq, key=lambda turn: turn.first_seq) - 1
        return index if index >= 0 and seq <= self.turns[index].last_seq else None


def mentions_failure(text: str) -> bool:
    """Return whether the text of an event reports a failure."""
    return _FAILURE_WORDS.search(text) is not None
