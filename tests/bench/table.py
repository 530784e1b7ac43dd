"""This module formats results as a table: ours, the baseline, the ratio, the target, and whether it was met."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

COLUMN_NAMES = ("", "ours", "compared with", "ratio", "target", "met", "spread of ours", "of the other")


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    name: str
    ours: Sequence[float]
    baseline: Sequence[float] = ()
    baseline_name: str = ""
    "Names the program or the run that ours is compared with."
    unit: str = "s"
    ratio: float | None = None
    "Is the largest allowed ratio of ours to the baseline."
    limit: float | None = None
    "Is the largest allowed value of ours."
    failure: str = ""
    "Says why ours could not be measured."
    baseline_failure: str = ""

    @property
    def is_met(self) -> bool | None:
        """Return whether the targets are met; None if there is no target, or no baseline to compare with."""
        if self.failure or not self.ours:
            return None if self._target == "–" else False
        results = []
        if self.ratio is not None and self.baseline:
            results.append(statistics.median(self.ours) <= self.ratio * statistics.median(self.baseline))
        if self.limit is not None:
            results.append(max(self.ours) <= self.limit)
        return all(results) if results else None

    @property
    def cells(self) -> tuple[str, ...]:
        met = {True: "yes", False: "**no**", None: "–"}[self.is_met]
        ours = self._format_median(self.ours, self.failure)
        baseline = self._format_median(self.baseline, self.baseline_failure)
        compared_with = f"{baseline} {self.baseline_name if self.baseline else ''}".strip()
        if self.ours and self.baseline:
            baseline_median = statistics.median(self.baseline)
            ratio = f"{statistics.median(self.ours) / baseline_median:.2f}x" if baseline_median else "–"
        else:
            ratio = "–"
        return (
            self.name,
            ours,
            compared_with,
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

    def _format_median(self, values: Sequence[float], failure: str) -> str:
        parts = [format_value(statistics.median(values), self.unit)] if values else []
        return "; ".join([*parts, failure] if failure else parts) or "–"

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
        case "$":
            return f"${value:.6f}"
        case _:
            return f"{value:.3g}{unit}"


def format_markdown(results: Iterable[ResultRow]) -> str:
    rows = [COLUMN_NAMES, *(tuple(cell.replace("|", "¦") for cell in result.cells) for result in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def describe_machine() -> str:
    """Return date, machine and versions, without which the numbers mean little."""
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.system()} {platform.machine()},"
        f" Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )
