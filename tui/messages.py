"""This module holds the base class of messages, and the messages that any widget may send to the app."""

from __future__ import annotations

from typing import dataclass_transform

from textual.message import Message


@dataclass_transform()
class DataMessage(Message):
    """Is a message with fields that are declared like those of a dataclass.

    A real dataclass would compile four functions for each class and delay the first screen.
    """

    def __init__(self, *values: object, **named: object) -> None:
        super().__init__()
        vars(self).update(zip(type(self).__annotations__, values, strict=False), **named)


class Copy(DataMessage):
    """Asks the app to copy a text as it is stored, not as it is shown. The description names it in the notice."""

    text: str
    description: str
