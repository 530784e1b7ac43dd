"""This module defines what a person chooses for an export."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from store.errors import BadValue
from store.leaks.gate import LeakPolicy

ExportFormat = Literal["markdown", "html", "json", "atif", "raw"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)

FILE_SUFFIXES: dict[ExportFormat, str] = {
    "markdown": ".md",
    "html": ".html",
    "json": ".json",
    "atif": ".atif.json",
    "raw": ".jsonl",
}


@dataclass(frozen=True, slots=True)
class ExportOptions:
    format: ExportFormat
    turns: tuple[int, int] | None = None
    "Holds the first and the last turn. None means all turns, and what came before the first prompt."
    entry: int | None = None
    "Is the seq of the only entry to export, such as one answer."
    tools: bool = True
    thinking: bool = True
    leaks: LeakPolicy = "refuse"

    @property
    def is_excerpt(self) -> bool:
        """Return whether something of the session is left out or masked."""
        return (
            self.leaks == "redact"
            or self.turns is not None
            or self.entry is not None
            or not (self.tools and self.thinking)
        )

    def has_turn(self, n: int) -> bool:
        return self.turns is None or self.turns[0] <= n <= self.turns[1]


def parse_turns(text: str) -> tuple[int, int]:
    """Return the turns that `3`, `3-7`, `3-` or `-7` means."""
    first, dash, last = text.strip().partition("-")
    try:
        start = int(first) if first else 1
        end = (int(last) if last else 2**31) if dash else start
    except ValueError:
        raise BadValue(f"Not turns: {text!r}. Use `3`, `3-7`, `3-` or `-7`.") from None
    if not text.strip(" -") or not 0 <= start <= end:
        raise BadValue(f"Not turns: {text!r}. Use `3`, `3-7`, `3-` or `-7`.")
    return start, end
