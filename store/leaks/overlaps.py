"""This module groups what overlaps in a text, so that all of it is hidden, and not only the longest part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar


class Span(Protocol):
    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


S = TypeVar("S", bound=Span)


def group_overlaps(found: Iterable[S]) -> Iterator[tuple[int, int, list[S]]]:
    """Yield where each group begins and ends, and what is in it, in order. What overlaps is in one group."""
    group: list[S] = []
    end = 0
    for span in sorted(found, key=lambda span: (span.start, -span.end)):
        if group and span.start >= end:
            yield group[0].start, end, group
            group = []
        group.append(span)
        end = max(end, span.end)
    if group:
        yield group[0].start, end, group


def find_longest(group: Iterable[S]) -> S:
    return max(group, key=lambda span: span.end - span.start)
