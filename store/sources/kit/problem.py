"""What is wrong with a foreign store, as a value."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    "A bad record: a value, not an exception. Its neighbours are imported."

    where: str
    "A file and line, or a table and row."
    reason: str
    session: str = ""
    "The native id of the session it stands in; said by the sync, so that it is told until that session is read again."

    def __eq__(self, other: object) -> bool:
        """Whichever session it stands in."""
        return isinstance(other, Problem) and self[:2] == other[:2]

    def __hash__(self) -> int:
        return hash(self[:2])
