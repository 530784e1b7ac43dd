"""What is known of a session before it goes on, in words for the card and the command line. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from store.text.sanitize import one_line

Severity = Literal["good", "quiet", "notable", "bad"]


class ResumeCheck(NamedTuple):
    name: str
    text: str
    severity: Severity


class ProcessInfo(NamedTuple):
    """A process that works with a session, or with the store that it is in."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{one_line(self.name, 30)}, process {self.pid}" if self.name else f"process {self.pid}"


@dataclass(frozen=True, slots=True)
class ResumeChecks:
    recorded_branch: str = ""
    "Where the session was left, as its agent wrote it down; empty where it writes none down."
    current_branch: str | None = None
    "In the folder in which it would go on; empty where none is checked out, None where there is no such folder."
    session_processes: tuple[ProcessInfo, ...] = ()
    "Who is busy with this very session."
    database_processes: tuple[ProcessInfo, ...] = ()
    "Who has the database open in which it is one of many."
    can_see_processes: bool = True
    "Whether this system lets one look who they are."
    has_new_entries: bool = False
    "More was said than what is shown here."
    gone: bool = False
    "Its agent does not have it any more."
    unwritten_edits: tuple[str, ...] = ()
    "What was corrected here and its agent does not know."
    can_write_back: bool = True
    "They could be written back."

    def list_checks(self) -> tuple[ResumeCheck, ...]:
        return (
            ResumeCheck("branch", *self._check_branch()),
            ResumeCheck("session", *self._check_session()),
            ResumeCheck("edits", *self._check_edits()),
        )

    def list_warnings(self) -> Iterator[str]:
        """What one should know before one goes, a line each."""
        return (f"{check.name}: {check.text}" for check in self.list_checks() if check.severity in ("notable", "bad"))

    def _check_branch(self) -> tuple[str, Severity]:
        then = one_line(self.recorded_branch, 60)
        if self.current_branch is None:
            return (f"was {then}" if then else "not known"), "quiet"
        now = one_line(self.current_branch, 60)
        if then in ("", now):
            return now or "none", "good" if then else "quiet"
        return f"was {then}, {f'is {now} now' if now else 'none now'}", "notable"

    def _check_session(self) -> tuple[str, Severity]:
        if self.gone:
            return "its agent does not have it any more", "bad"
        if self.session_processes:
            return f"in use by {self.session_processes[0]}", "notable"
        if self.has_new_entries:
            return "has moved on since it was read here", "notable"
        if self.database_processes:
            return f"not in use, but {self.database_processes[0]}, has its database open", "quiet"
        return f"{'not in use, and ' if self.can_see_processes else ''}as it is shown here", "good"

    def _check_edits(self) -> tuple[str, Severity]:
        if not self.unwritten_edits:
            return "none", "quiet"
        told = join_names(self.unwritten_edits)
        if self.can_write_back:
            return f"{told} not written back", "notable"
        return f"{told} kept here only", "quiet"


def join_names(names: Sequence[str]) -> str:
    """`title, summary and 2 facts`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""
