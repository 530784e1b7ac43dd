"""What was measured, as lines of one table: ours, theirs, their ratio, the target, and whether it was met."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

HEAD = ("", "ours", "beside", "ratio", "target", "met", "spread of ours", "of the other")


@dataclass(frozen=True, kw_only=True)
class Line:
    name: str
    ours: Sequence[float]
    other: Sequence[float] = ()
    beside: str = ""
    "Whose the other is."
    unit: str = "s"
    ratio: float | None = None
    "At most, of ours to the other."
    limit: float | None = None
    "At most, of ours itself."
    why: str = ""
    "What went wrong with ours."
    why_other: str = ""

    @property
    def met(self) -> bool | None:
        """None when there is nothing to be met, or nothing to measure it by."""
        if self.why or not self.ours:
            return None if self._target == "–" else False
        told = []
        if self.ratio is not None and self.other:
            told.append(statistics.median(self.ours) <= self.ratio * statistics.median(self.other))
        if self.limit is not None:
            told.append(max(self.ours) <= self.limit)
        return all(told) if told else None

    @property
    def cells(self) -> tuple[str, ...]:
        met = {True: "yes", False: "**no**", None: "–"}[self.met]
        ours = self._middle(self.ours, self.why)
        beside = f"{self._middle(self.other, self.why_other)} {self.beside if self.other else ''}".strip()
        if self.ours and self.other:
            middle = statistics.median(self.other)
            ratio = f"{statistics.median(self.ours) / middle:.2f}x" if middle else "–"
        else:
            ratio = "–"
        return self.name, ours, beside, ratio, self._target, met, self._spread(self.ours), self._spread(self.other)

    @property
    def _target(self) -> str:
        targets = [f"≤ {self.ratio:g}x"] if self.ratio is not None else []
        targets += [f"≤ {spelled(self.limit, self.unit)}"] if self.limit is not None else []
        return ", ".join(targets) or "–"

    def _middle(self, values: Sequence[float], why: str) -> str:
        told = [spelled(statistics.median(values), self.unit)] if values else []
        return "; ".join([*told, why] if why else told) or "–"

    def _spread(self, values: Sequence[float]) -> str:
        return f"{spelled(min(values), self.unit)} – {spelled(max(values), self.unit)}" if len(values) > 1 else "–"


def spelled(value: float, unit: str) -> str:
    match unit:
        case "s":
            return f"{value * 1000:.{0 if value >= 0.1 else 1}f} ms" if value < 1 else f"{value:.2f} s"
        case "MB":
            return f"{value:.0f} MB"
        case _:
            return f"{value:.3g}{unit}"


def markdown(lines: Iterable[Line]) -> str:
    rows = [HEAD, *(tuple(cell.replace("|", "¦") for cell in line.cells) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    spelled_rows = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([spelled_rows[0], rule, *spelled_rows[1:]])


def machine() -> str:
    """When and where; no figure means much without it."""
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.system()} {platform.machine()},"
        f" Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )
