"""Tests which tool calls ran at the same time, and how that is shown."""

from __future__ import annotations

from store.model.entry import PairedCall
from tui.render.inspection.parallel_calls import find_parallel_calls
from tui.render.inspection.tool_call_details import build_call_rows, render_call_heading, render_call_row
from tui.render.tool_call import format_call_duration


def make_call(key: int, asked: int | None, answered: int | None, session: str = "s") -> PairedCall:
    entry, result = (f"{session}#{seq}" if seq is not None else None for seq in (asked, answered))
    return PairedCall(key, session, 1, f"c{key}", "Bash", "ok", 2_000.0, entry, result, {}, "", "")


def test_calls_of_one_message_and_overlapping_ones_are_parallel() -> None:
    one_message = [make_call(1, 5, 6), make_call(2, 5, 6)]
    overlapping = [make_call(3, 10, 14), make_call(4, 11, 12), make_call(5, 13, 15)]
    alone = [make_call(6, 20, 21), make_call(7, 21, 22), make_call(8, 30, None), make_call(9, None, 31)]
    assert find_parallel_calls([*alone, *overlapping, *one_message]) == {1, 2, 3, 4, 5}


def test_calls_of_different_sessions_are_not_compared() -> None:
    assert find_parallel_calls([make_call(1, 1, 9), make_call(2, 2, 3, "t")]) == set()


def test_parallel_calls_are_marked_where_their_durations_are_shown() -> None:
    assert format_call_duration(2_000, True) == "∥ 2.0 s"
    assert format_call_duration(2_000, False) == "2.0 s"
    assert format_call_duration(None, True) == ""
    calls = [make_call(1, 5, 6), make_call(2, 5, 7), make_call(3, 8, 9)]
    lines = [render_call_row(row, 4, 60).plain for row in build_call_rows(calls, "")]
    assert ["∥ 2.0 s" in line for line in lines] == [True, True, False]
    assert "∥ 2.0 s" in render_call_heading(calls[0], 0, 3, None, is_parallel=True).plain
