"""This module finds tool calls that ran at the same time, so that their durations are not added up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from store.model.entry import PairedCall


class _Span(NamedTuple):
    """Says between which entries of its session a call ran."""

    asked: int
    answered: int
    key: int


def find_parallel_calls(calls: Iterable[PairedCall]) -> set[int]:
    """Return the keys of calls that were made while another one of the same session had no result yet."""
    spans: dict[str, list[_Span]] = defaultdict(list)
    for call in calls:
        if call.entry and call.result_entry:
            spans[call.session_id].append(_Span(_read_seq(call.entry), _read_seq(call.result_entry), call.key))
    parallel: set[int] = set()
    for session_spans in spans.values():
        running: list[_Span] = []
        for span in sorted(session_spans):
            running = [other for other in running if other.answered > span.asked]
            if running:
                parallel.update(other.key for other in (*running, span))
            running.append(span)
    return parallel


def _read_seq(entry: str) -> int:
    return int(entry.rpartition("#")[2])
