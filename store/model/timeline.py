"""This module defines the outline of a conversation: what is known of its turns before their text is read."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from store.model.knowledge import Note

_FAILURE_WORDS = re.compile(
    r"\b(error|errors|failed|failure|fatal|exception|refused|denied|overloaded|aborted|interrupted|cancelled|canceled|"
    r"quota|rate.?limit(?:ed)?|time[d-]? ?out|unauthorized)\b|^\W*[45]\d\d\b(?! \w+s\b)",
    re.IGNORECASE,
)
"""Matches what reports a failure: such a word, or the status of an HTTP answer at the beginning, e.g. `429: …`."""

EVENT_PREVIEW_LENGTH = 400
"""Is how much of an event is checked. Longer texts would take long to check."""

_ERROR_NOTICE = re.compile(r"\W*(?:\w+ )?(?:error|exception|[45]\d\d)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"\b[^\W\d_]+ [^\W\d_]+ [^\W\d_]+|[^\x00-\x7f]{6}")
_INTERRUPTION_WORDS = re.compile(r"\b(aborted|interrupted|cancelled|canceled)\b", re.IGNORECASE)


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
    "Counts all tokens that the turn sent and received, as statistics do."
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
    notes: tuple[Note, ...] = ()
    "Holds the notes on the session and on its entries, oldest first."
    bookkeeping_events: int = 0
    "Counts the events that an agent recorded for itself."

    @property
    def session_notes(self) -> tuple[Note, ...]:
        return tuple(note for note in self.notes if note.entry_seq is None)

    def notes_in_turn(self, turn: TurnOutline) -> tuple[Note, ...]:
        """Return the notes on the entries of a turn."""
        seqs = range(turn.first_seq, turn.last_seq + 1)
        return tuple(note for note in self.notes if note.entry_seq in seqs)

    def index_of_turn(self, n: int) -> int | None:
        """Return the index of turn number `n`, or None."""
        index = bisect_left(self.turns, n, key=lambda turn: turn.n)
        return index if index < len(self.turns) and self.turns[index].n == n else None

    def index_of_entry(self, seq: int) -> int | None:
        """Return the index of the turn with that entry, or None."""
        index = bisect_right(self.turns, seq, key=lambda turn: turn.first_seq) - 1
        return index if index >= 0 and seq <= self.turns[index].last_seq else None


def is_interruption(text: str) -> bool:
    """Return whether the failure that a text reports is that a person stopped the agent."""
    return _INTERRUPTION_WORDS.search(text) is not None


def mentions_failure(text: str) -> bool:
    """Return whether the text of an event reports a failure."""
    return _FAILURE_WORDS.search(text) is not None


def is_bookkeeping(text: str) -> bool:
    """Return whether an event with this text tells a person nothing: it names something, and reports no failure.

    Agents record several such events in each step: snapshots, token counts, the start and the end of everything.
    """
    beginning = text[:EVENT_PREVIEW_LENGTH]
    return not mentions_failure(beginning) and _SENTENCE.search(beginning) is None


def is_error_notice(role: str, model: str, text: str) -> bool:
    """Return whether a message is a notice of the program that something failed, not something that was said.

    Some agents record the error of a model call as a message of the system, or in the name of a model that is none.
    """
    if role != "system" and model != SYNTHETIC_MODEL:
        return False
    return len(text) <= EVENT_PREVIEW_LENGTH and _ERROR_NOTICE.match(text) is not None


SYNTHETIC_MODEL = "<synthetic>"
"""Is what Claude Code records as the model of a message that the program itself wrote."""
