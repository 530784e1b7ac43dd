"""This module compares changed lines word by word.

Comparing takes time that grows with the square of the length, so the length of a line and the number of lines are
limited. Lines beyond the limits count as completely different.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

MAX_COMPARED_LINE = 500
"""Limits the characters of a line whose words are compared."""

MAX_COMPARED_PAIRS = 400
"""Limits how many pairs of changed lines are compared in one diff."""

MIN_SIMILARITY = 0.4
"""Is how much two lines must have in common for their differences to help a reader."""

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")

Span = tuple[int, int]
"""Holds where characters that differ begin and end in their line."""


def compare_words(old: str, new: str) -> tuple[list[Span], list[Span]] | None:
    """Return which characters of two lines differ, word by word, or None if the lines have too little in common."""
    if max(len(old), len(new)) > MAX_COMPARED_LINE:
        return None
    from difflib import SequenceMatcher  # imported late: only diffs need it

    old_words, new_words = _WORDS.findall(old), _WORDS.findall(new)
    matcher = SequenceMatcher(None, old_words, new_words, autojunk=False)
    blocks = matcher.get_matching_blocks()
    shared = sum(len("".join(old_words[start : start + size]).strip()) for start, _, size in blocks)
    if 2 * shared < MIN_SIMILARITY * (len(old.strip()) + len(new.strip())):
        return None
    old_spans: list[Span] = []
    new_spans: list[Span] = []
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind != "equal":
            old_spans += _join_span(old_words, old_from, old_to)
            new_spans += _join_span(new_words, new_from, new_to)
    return old_spans, new_spans


def _join_span(words: Sequence[str], start: int, end: int) -> list[Span]:
    begin = sum(map(len, words[:start]))
    return [(begin, begin + sum(map(len, words[start:end])))] if start < end else []


def find_changed_words(lines: Sequence[tuple[str, str]]) -> dict[int, list[Span]]:
    """Return the characters that differ in each removed line and in the added line that replaces it, by line index.

    A line is its sign and its text. The first removed line of a run belongs to the first added line after it, and so
    on.
    """
    spans: dict[int, list[Span]] = {}
    pairs = 0
    for removed, added in iter_replaced_runs([sign for sign, _ in lines]):
        for old, new in zip(removed, added, strict=False):
            pairs += 1
            if pairs > MAX_COMPARED_PAIRS:
                return spans
            if (words := compare_words(lines[old][1], lines[new][1])) is not None:
                spans[old], spans[new] = words
    return spans


def iter_replaced_runs(signs: Sequence[str]) -> Iterator[tuple[range, range]]:
    """Yield the indexes of removed lines and of the added lines that follow them."""
    index = 0
    while index < len(signs):
        start = index
        while index < len(signs) and signs[index] == "-":
            index += 1
        middle = index
        while index < len(signs) and signs[index] == "+":
            index += 1
        if start < middle < index:
            yield range(start, middle), range(middle, index)
        index = max(index, start + 1)
