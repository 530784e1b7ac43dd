"""This module defines a document: a conversation as plain values, which every format can write.

Its texts are those of the store, or masked ones; a writer makes them safe for its format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from store.formats.file_changes import FileChange, Hunk, format_hunk_header
from store.model.entry import Entry, Json, PairedCall, Turn
from store.model.session import Session


@dataclass(frozen=True, slots=True)
class SpokenText:
    "Holds what a person, a model or a program said."

    entry: Entry
    speaker: str
    text: str
    is_prompt: bool = False


@dataclass(frozen=True, slots=True)
class ThoughtText:
    entry: Entry
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    "Holds a raster image as base64."

    entry: Entry
    media_type: str
    data: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class FileMention:
    "Names a file whose content is not in the records, or is no picture."

    entry: Entry
    name: str
    media_type: str


@dataclass(frozen=True, slots=True)
class CallBlock:
    "Holds a tool call with its result."

    entry: Entry
    call: PairedCall
    name: str
    subject: str
    "Is the command, or the argument that describes the call best, on one line."
    arguments: Json
    changes: tuple[FileChange, ...]
    "Holds the changes to files, if the call is an edit. They say more than the arguments."
    output: tuple[str | Picture, ...]
    exit_code: int | None = None

    @property
    def status(self) -> str:
        match self.call.status:
            case "ok":
                return "ok"
            case "error":
                return f"failed, exit {self.exit_code}" if self.exit_code else "failed"
            case "pending":
                return "no result"
        return "no call"


@dataclass(frozen=True, slots=True)
class Notice:
    "Holds an event, a compaction, a note of a person, or something that a reader did not understand."

    entry: Entry
    label: str
    text: str
    is_failure: bool = False


@dataclass(frozen=True, slots=True)
class SubAgentBlock:
    "Holds the conversation that another one started, in the place where it was started."

    document: Document


Item = SpokenText | ThoughtText | Picture | FileMention | CallBlock | Notice | SubAgentBlock


@dataclass(frozen=True, slots=True)
class DocumentTurn:
    n: int
    "Is 0 for what came before the first prompt."
    started_at: str
    items: tuple[Item, ...]
    turn: Turn
    "Is the turn as the store has it, without the entries that are left out."


@dataclass(frozen=True, slots=True)
class Document:
    session: Session
    number: int
    "Is 0 for the exported session, and counts its sub-agents."
    title: str
    agent: str
    details: tuple[tuple[str, str], ...]
    "Holds what is known about the session: labels and values."
    tags: tuple[str, ...]
    summary: str
    notes: tuple[str, ...]
    "Holds the notes on the session. Those on an entry are in its turn."
    left_out: Counter[tuple[str, str]]
    "Counts what is not in the document, by what it is and why. A writer adds what its format cannot hold."
    turns: Iterator[DocumentTurn] = field(repr=False)
    "Reads the turns one after the other, so that a long session needs little memory."


def format_time(timestamp: str) -> str:
    """Return a time of the store as `2026-03-01 09:00 UTC`."""
    return f"{timestamp[:10]} {timestamp[11:16]} UTC" if len(timestamp) > 16 else timestamp


def format_seconds(milliseconds: float | None) -> str:
    return "" if milliseconds is None else f"{milliseconds / 1000:,.1f} s"


def describe_hunk(hunk: Hunk) -> str:
    """Return the line above the lines of a hunk. Without line numbers it is what its agent gave to find the place."""
    if hunk.old_start is None or hunk.new_start is None:
        return f"@@ {hunk.heading}".rstrip()
    return format_hunk_header(hunk, hunk.old_start, hunk.new_start)
