"""This module defines the statistics of a tool, and the orders in which tools and calls are listed."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

CallOrder = Literal["newest", "slowest"]
ToolOrder = Literal["used", "failing", "slowest"]
CALL_ORDERS: tuple[CallOrder, ...] = get_args(CallOrder)
TOOL_ORDERS: tuple[ToolOrder, ...] = get_args(ToolOrder)


class ToolStats(NamedTuple):
    """Summarizes all calls of the tool with this name."""

    name: str
    calls: int
    failed: int
    median_ms: float | None
    "Covers the calls whose duration is known."
    slowest_ms: float | None
    last_at: str
    p95_ms: float | None
    "Is the duration that 95 % of these calls did not exceed."

    @property
    def failure_rate(self) -> float:
        """Return the share of calls that failed, between 0 and 1."""
        return self.failed / self.calls
