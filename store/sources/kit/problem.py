"""This module defines the problem: a value that says what is wrong with a foreign store."""

from __future__ import annotations

from typing import NamedTuple


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
