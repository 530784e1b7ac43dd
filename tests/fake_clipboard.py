"""This module replaces the machine's clipboard, which a test must never overwrite."""

from __future__ import annotations


class FakeClipboard:
    """Holds what was copied last."""

    def __init__(self) -> None:
        self.text = ""

    def copy(self, text: str) -> None:
        self.text = text

    def paste(self) -> str:
        return self.text
