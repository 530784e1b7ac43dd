"""What is known of a session before it goes on, in words for the card and the command line. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from store.text.sanitize import one_line

Weight = Literal["good", "quiet", "notable", "bad"]


class Check(NamedTuple):
    name: str
    told: str
    weight: Weight


class Holder(NamedTuple):
    """A process that works with a session, or with the store that it is in."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{one_line(self.name, 30)}, process {self.pid}" if self.name else f"process {self.pid}"


@dataclass(frozen=True, slots=True)
class Preflight:
    branch_then: str = ""
    "Where the session was left, as its agent wrote it down; empty where it writes none down."
    branch_now: str | None = None
    "In the folder in which it would go on; empty where none is checked out, None where there is no such folder."
    users: tuple[Holder, ...] = ()
    "Who is busy with this very session."
    neighbours: tuple[Holder, ...] = ()
    "Who has the database open in which it is one of many."
    sees_users: bool = True
    "Whether this system lets one look who they are."
    moved_on: bool = False
    "More was said than what is shown here."
    gone: bool = False
    "Its agent does not have it any more."
    unwritten: tuple[str, ...] = ()
    "What was corrected here and its agent does not know."
    takes_edits: bool = True
    "They could be written back."

    def checks(self) -> tuple[Check, ...]:
        return (
            Check("branch", *self._branch()),
            Check("session", *self._session()),
            Check("edits", *self._edits()),
        )

    def notable(self) -> Iterator[str]:
        """What one should know before one goes, a line each."""
        return (f"{check.name}: {check.told}" for check in self.checks() if check.weight in ("notable", "bad"))

    def _branch(self) -> tuple[str, Weight]:
        then = one_line(self.branch_then, 60)
        if self.branch_now is None:
            return (f"was {then}" if then else "not known"), "quiet"
        now = one_line(self.branch_now, 60)
        if then in ("", now):
            return now or "none", "good" if then else "quiet"
        return f"was {then}, {f'is {now} now' if now else 'none now'}", "notable"

    def _session(self) -> tuple[str, Weight]:
        if self.gone:
            return "its agent does not have it any more", "bad"
        if self.users:
            return f"in use by {self.users[0]}", "notable"
        if self.moved_on:
            return "has moved on since it was read here", "notable"
        if self.neighbours:
            return f"not in use, but {self.neighbours[0]}, has its database open", "quiet"
        return f"{'not in use, and ' if self.sees_users else ''}as it is shown here", "good"

    def _edits(self) -> tuple[str, Weight]:
        if not self.unwritten:
            return "none", "quiet"
        told = listed(self.unwritten)
        if self.takes_edits:
            return f"{told} not written back", "notable"
        return f"{told} kept here only", "quiet"


def listed(names: Sequence[str]) -> str:
    """`title, summary and 2 facts`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""
