"""A secret's value while it is in the browser's hands."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

MASK = "••••••••"


class SecretValue:
    """A value on its way. What prints it, be it a log, a worker's description or a traceback, prints dots."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return MASK


@runtime_checkable
class ConcealableWidget(Protocol):
    """A widget that may show what a screenshot must not."""

    def concealed(self) -> AbstractContextManager[None]: ...
