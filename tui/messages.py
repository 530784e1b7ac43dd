"""What any widget may ask of the app."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message


@dataclass
class Copy(Message):
    """The text as it is kept, not as it is shown; and what it is, in a word or two, to say that it was copied."""

    text: str
    what: str
