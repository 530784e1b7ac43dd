"""This module defines what a compaction dropped, and what the model saw after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class DroppedTurn(NamedTuple):
    n: int
    "Is 0 for what came before the first prompt."
    prompt: str
    calls: int
    files: int
    is_named: bool


class DroppedFile(NamedTuple):
    path: str
    turns: tuple[int, ...]
    is_changed: bool
    "Is true if a call changed it, false if calls only read it."
    is_named: bool


class Decision(NamedTuple):
    """Is a sentence that sounds like a decision."""

    turn: int
    text: str
    is_named: bool


@dataclass(frozen=True, slots=True)
class Compaction:
    number: int
    "Counts the compactions of a session from 1."
    entry: str
    seq: int
    turn: int
    at: str
    summary: str
    "Is empty if the agent recorded only that it made one."
    tokens_before: int
    "Is how many tokens the last model call before it got, or 0 if that is unknown."
    tokens_after: int
    turns: tuple[DroppedTurn, ...]
    files: tuple[DroppedFile, ...]
    decisions: tuple[Decision, ...]

    @property
    def count(self) -> int:
        """The number of turns, files and decisions before it."""
        return len(self.turns) + len(self.files) + len(self.decisions)

    @property
    def missing(self) -> int:
        """The number of turns, files and decisions that the summary does not name."""
        named = [
            *(turn.is_named for turn in self.turns),
            *(file.is_named for file in self.files),
            *(decision.is_named for decision in self.decisions),
        ]
        return named.count(False)
