"""This module wraps the value of a secret while the browser has it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

MASK = "••••••••"


class SecretValue:
    """Holds the value of a secret. Logs, worker descriptions and tracebacks print it as dots."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return MASK


@runtime_checkable
class ConcealableWidget(Protocol):
    """A widget whose secret must not appear in a screenshot."""

    def concealed(self) -> AbstractContextManager[None]: ...
