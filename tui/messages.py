"""How messages are written, and those that any widget may send to the app."""

from __future__ import annotations

from typing import dataclass_transform

from textual.message import Message


@dataclass_transform()
class DataMessage(Message):
    """A message with fields, which are written as those of a dataclass; but that would compile four functions for each
    kind of message, while somebody waits for the first screen."""

    def __init__(self, *values: object, **named: object) -> None:
        super().__init__()
        vars(self).update(zip(type(self).__annotations__, values, strict=False), **named)


class Copy(DataMessage):
    """The text as it is kept, not as it is shown; and what it is, in a word or two, to say that it was copied."""

    text: str
    description: str
