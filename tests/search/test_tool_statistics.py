"""Tests the statistics of tools: median and 95th percentile of the durations that are known."""

from __future__ import annotations

import pytest

from store.model.entry import NewEntry, ToolCall, ToolResult
from store.search.all_tool_calls import compute_tool_stats
from store.search.query import Query
from store.store import Store

AT = "2026-11-03T12:00:00.000000Z"


def add_calls(store: Store, durations: list[float | None]) -> None:
    session = store.sessions.create("s", created_at=AT, updated_at=AT)
    for number, duration in enumerate(durations):
        call, result = ToolCall(f"c{number}", "Bash", {}), ToolResult(f"c{number}", "", duration_ms=duration)
        entries = [NewEntry(role="assistant", parts=(call,)), NewEntry(role="tool", parts=(result,))]
        store.chains.append(session.key, entries)


@pytest.mark.parametrize(
    ("durations", "median", "p95"),
    [
        ([7.0], 7.0, 7.0),
        ([float(n) for n in range(100, 0, -1)], 50.5, 95.0),
        ([1.0, 2.0, 3.0, None, None], 2.0, 3.0),
        ([None], None, None),
    ],
)
def test_durations(store: Store, durations: list[float | None], median: float | None, p95: float | None) -> None:
    add_calls(store, durations)
    (bash,) = compute_tool_stats(store, Query.parse(""))
    assert (bash.calls, bash.median_ms, bash.p95_ms) == (len(durations), median, p95)
