"""How tool calls may be ordered, and what is told of a tool by its name. Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

CallOrder = Literal["newest", "slowest"]
ToolOrder = Literal["used", "failing", "slowest"]
CALL_ORDERS: tuple[CallOrder, ...] = get_args(CallOrder)
TOOL_ORDERS: tuple[ToolOrder, ...] = get_args(ToolOrder)


class ToolStats(NamedTuple):
    """How a tool fares, by its name."""

    name: str
    calls: int
    failed: int
    median_ms: float | None
    "Of the calls whose duration is known."
    slowest_ms: float | None
    last_at: str

    @property
    def failure_rate(self) -> float:
        """Of its calls, those that failed."""
        return self.failed / self.calls
