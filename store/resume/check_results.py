"""This module describes the results of the checks before a session is resumed, for the card and the command line.

It is apart from the checks themselves, so that the browser can render results without loading any database code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from store.text.sanitize import one_line

Severity = Literal["good", "quiet", "notable", "bad"]

SourceState = Literal["read", "changed", "gone", "unknown"]
"""Says whether the agent's store has the session as it was read, with newer entries, or no longer. Is unknown if the
store cannot be read."""


class ResumeCheck(NamedTuple):
    """Describes one check: its name, its result in words, and how much it matters."""

    name: str
    text: str
    severity: Severity


class ProcessInfo(NamedTuple):
    """Describes a process that uses a session, or the database that contains it."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{one_line(self.name, 30)}, process {self.pid}" if self.name else f"process {self.pid}"


@dataclass(frozen=True, slots=True)
class ResumeChecks:
    """Holds what was found out about a session, and words it."""

    recorded_branch: str = ""
    "The git branch at the end of the session. Is empty if the agent records none."
    current_branch: str | None = None
    "The branch in the folder to resume in. Is empty if none is checked out, None if the folder does not exist."
    session_processes: tuple[ProcessInfo, ...] = ()
    "The processes that use this session."
    database_processes: tuple[ProcessInfo, ...] = ()
    "The processes that have a database with many sessions open, this one among them."
    can_see_processes: bool = True
    "Is False if the system does not show other processes."
    has_new_entries: bool = False
    "Is True if the session has entries that are not shown here."
    gone: bool = False
    "Is True if its agent no longer has the session."
    unwritten_edits: tuple[str, ...] = ()
    "Names the edits that were not written back."
    can_write_back: bool = True
    "Is True if its agent's store takes edits."

    def list_checks(self) -> tuple[ResumeCheck, ...]:
        return (
            ResumeCheck("branch", *self._check_branch()),
            ResumeCheck("session", *self._check_session()),
            ResumeCheck("edits", *self._check_edits()),
        )

    def list_warnings(self) -> Iterator[str]:
        """Return a line for each check that a person should know about before resuming."""
        return (f"{check.name}: {check.text}" for check in self.list_checks() if check.severity in ("notable", "bad"))

    def _check_branch(self) -> tuple[str, Severity]:
        recorded = one_line(self.recorded_branch, 60)
        if self.current_branch is None:
            return (f"was {recorded}" if recorded else "unknown"), "quiet"
        current = one_line(self.current_branch, 60)
        if recorded in ("", current):
            return current or "none", "good" if recorded else "quiet"
        return f"was {recorded}, {f'is {current} now' if current else 'none now'}", "notable"

    def _check_session(self) -> tuple[str, Severity]:
        if self.gone:
            return "deleted in its agent", "bad"
        if self.session_processes:
            return f"in use by {self.session_processes[0]}", "notable"
        if self.has_new_entries:
            return "has new entries that are not shown here", "notable"
        if self.database_processes:
            return f"not in use, but its database is open in {self.database_processes[0]}", "quiet"
        return f"{'not in use, ' if self.can_see_processes else ''}up to date", "good"

    def _check_edits(self) -> tuple[str, Severity]:
        if not self.unwritten_edits:
            return "none", "quiet"
        names = join_names(self.unwritten_edits)
        if self.can_write_back:
            return f"{names} not written back", "notable"
        return f"{names} only in Backscroll", "quiet"


def join_names(names: Sequence[str]) -> str:
    """Join names like `title, summary and 2 facts`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""
