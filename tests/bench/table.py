"""What was measured, as lines of one table: ours, theirs, their ratio, the target, and whether it was met."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

COLUMN_NAMES = ("", "ours", "beside", "ratio", "target", "met", "spread of ours", "of the other")


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    name: str
    ours: Sequence[float]
    baseline: Sequence[float] = ()
    baseline_name: str = ""
    "Whose the other is."
    unit: str = "s"
    ratio: float | None = None
    "At most, of ours to the other."
    limit: float | None = None
    "At most, of ours itself."
    failure: str = ""
    "What went wrong with ours."
    baseline_failure: str = ""

    @property
    def is_met(self) -> bool | None:
        """None when there is nothing to be met, or nothing to measure it by."""
        if self.failure or not self.ours:
            return None if self._target == "–" else False
        told = []
        if self.ratio is not None and self.baseline:
            told.append(statistics.median(self.ours) <= self.ratio * statistics.median(self.baseline))
        if self.limit is not None:
            told.append(max(self.ours) <= self.limit)
        return all(told) if told else None

    @property
    def cells(self) -> tuple[str, ...]:
        met = {True: "yes", False: "**no**", None: "–"}[self.is_met]
        ours = self._format_median(self.ours, self.failure)
        baseline = self._format_median(self.baseline, self.baseline_failure)
        beside = f"{baseline} {self.baseline_name if self.baseline else ''}".strip()
        if self.ours and self.baseline:
            middle = statistics.median(self.baseline)
            ratio = f"{statistics.median(self.ours) / middle:.2f}x" if middle else "–"
        else:
            ratio = "–"
        return (
            self.name,
            ours,
            beside,
            ratio,
            self._target,
            met,
            self._format_spread(self.ours),
            self._format_spread(self.baseline),
        )

    @property
    def _target(self) -> str:
        targets = [f"≤ {self.ratio:g}x"] if self.ratio is not None else []
        targets += [f"≤ {format_value(self.limit, self.unit)}"] if self.limit is not None else []
        return ", ".join(targets) or "–"

    def _format_median(self, values: Sequence[float], why: str) -> str:
        told = [format_value(statistics.median(values), self.unit)] if values else []
        return "; ".join([*told, why] if why else told) or "–"

    def _format_spread(self, values: Sequence[float]) -> str:
        return (
            f"{format_value(min(values), self.unit)} – {format_value(max(values), self.unit)}"
            if len(values) > 1
            else "–"
        )


def format_value(value: float, unit: str) -> str:
    match unit:
        case "s":
            return f"{value * 1000:.{0 if value >= 0.1 else 1}f} ms" if value < 1 else f"{value:.2f} s"
        case "MB":
            return f"{value:.0f} MB"
        case _:
            return f"{value:.3g}{unit}"


def format_markdown(lines: Iterable[ResultRow]) -> str:
    rows = [COLUMN_NAMES, *(tuple(cell.replace("|", "¦") for cell in line.cells) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    spelled_rows = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([spelled_rows[0], rule, *spelled_rows[1:]])


def describe_machine() -> str:
    """When and where; no figure means much without it."""
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.system()} {platform.machine()},"
        f" Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )
