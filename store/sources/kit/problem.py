"""This module defines the problem: a value that says what is wrong with a foreign store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

MAX_PROBLEMS_OF_SESSION = 50
"""Limits what is kept of a file that is broken throughout."""


class Problem(NamedTuple):
    """Describes a bad record or store. It is a value, not an exception, so that the records around it are imported."""

    where: str
    "A file and line, or a table and row."
    reason: str
    session: str = ""
    """The native id of the session that has the record. The sync sets it, and reports the problem until it reads the
    session again."""

    def __eq__(self, other: object) -> bool:
        """Compares the place and the reason. The session is ignored."""
        return isinstance(other, Problem) and self[:2] == other[:2]

    def __hash__(self) -> int:
        return hash(self[:2])


def limit_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Return the first problems of each session, and say where there are more. Problems without a session count as
    those of one."""
    kept: list[Problem] = []
    counts: Counter[str] = Counter()
    for problem in problems:
        counts[problem.session] += 1
        if counts[problem.session] <= MAX_PROBLEMS_OF_SESSION:
            kept.append(problem)
        elif counts[problem.session] == MAX_PROBLEMS_OF_SESSION + 1:
            kept.append(Problem(problem.session or "others", "More problems are not listed.", problem.session))
    return kept
