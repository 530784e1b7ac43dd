"""The order of a Wuhu session's entries, which only their links tell; and what is wrong with it, if anything is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from store.sources.contract import Problem


class WuhuChain:
    """A session's entries in the order of their links. What the header does not lead to comes after, and is a problem.

    Wuhu itself refuses to open a session whose chain is broken.
    """

    def __init__(self, parents: dict[int, int | None], session: Mapping[str, Any]) -> None:
        self._parents = parents
        self._session = session
        self._children: dict[int | None, list[int]] = {}
        for number, parent in parents.items():
            self._children.setdefault(parent, []).append(number)
        headers = self._children.get(None, [])
        self._header = next(iter(sorted(headers, key=lambda number: number != session.get("headEntryID"))), None)
        self._runs = self._find_runs()
        self.entry_ids = [number for run in self._runs for number in run]
        self.problems = [self._make_problem(number, reason) for number, reason in self._find_breaks()]

    def _find_runs(self) -> list[list[int]]:
        seen: set[int] = set()
        runs: list[list[int]] = []
        # What hangs on nothing begins a run; what is left then is a second child, or hangs on itself.
        starts = sorted(self._parents, key=lambda number: (self._parents[number] in self._parents, number))
        for start in [self._header, *starts]:
            at, run = start, []
            while at is not None and at not in seen:
                seen.add(at)
                run.append(at)
                at = next((child for child in self._children.get(at, ()) if child not in seen), None)
            if run:
                runs.append(run)
        return runs

    def _find_breaks(self) -> Iterator[tuple[int | None, str]]:
        if self._header is None:
            yield next(iter(self.entry_ids), None), "has no header before it"
        for number, parent in self._parents.items():
            if parent is None and number != self._header:
                yield number, "is a second header"
            elif parent is not None and parent not in self._parents:
                yield number, f"hangs on entry {parent}, which is not in the session"
            elif parent is not None and self._children[parent][0] != number:
                yield number, f"hangs on entry {parent}, as another one does"
        for run in self._runs[1:]:
            yield run[0], "cannot be reached from the header"
        head, tail = self._session.get("headEntryID"), self._session.get("tailEntryID")
        if self.entry_ids and head != self._header:
            yield self.entry_ids[0], f"is the first, where the session names entry {head}"
        if self.entry_ids and tail != self.entry_ids[-1]:
            yield self.entry_ids[-1], f"is the last, where the session names entry {tail}"

    def _make_problem(self, number: int | None, reason: str) -> Problem:
        session_id = self._session["id"]
        if number is None:
            return Problem(f"sessions:{session_id}", f"The session {session_id} has no entries, not even a header.")
        return Problem(
            f"session_entries:{number}",
            f"The chain of session {session_id} is broken: entry {number} {reason}. What can be read is shown.",
        )
