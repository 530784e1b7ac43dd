"""This module orders the entries of a Wuhu session by their links, and reports what is wrong with the links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from store.sources.contract import Problem


class WuhuChain:
    """Orders a session's entries by their links.

    Entries that the header does not lead to come last and are reported as problems. Wuhu itself refuses to open a
    session whose chain is broken.
    """

    def __init__(self, parents: dict[int, int | None], session: Mapping[str, Any]) -> None:
        self._parents = parents
        self._session = session
        self._children: dict[int | None, list[int]] = {}
        for entry_id, parent in parents.items():
            self._children.setdefault(parent, []).append(entry_id)
        headers = self._children.get(None, [])
        self._header = next(iter(sorted(headers, key=lambda entry_id: entry_id != session.get("headEntryID"))), None)
        self._runs = self._find_runs()
        self.entry_ids = [entry_id for run in self._runs for entry_id in run]
        self.problems = [self._make_problem(entry_id, reason) for entry_id, reason in self._find_breaks()]

    def _find_runs(self) -> list[list[int]]:
        seen: set[int] = set()
        runs: list[list[int]] = []
        # Entries without a parent begin a run. The entries left after that are second children or form a cycle.
        starts = sorted(self._parents, key=lambda entry_id: (self._parents[entry_id] in self._parents, entry_id))
        for start in [self._header, *starts]:
            current, run = start, []
            while current is not None and current not in seen:
                seen.add(current)
                run.append(current)
                current = next((child for child in self._children.get(current, ()) if child not in seen), None)
            if run:
                runs.append(run)
        return runs

    def _find_breaks(self) -> Iterator[tuple[int | None, str]]:
        if self._header is None:
            yield next(iter(self.entry_ids), None), "has no header before it"
        for entry_id, parent in self._parents.items():
            if parent is None and entry_id != self._header:
                yield entry_id, "is a second header"
            elif parent is not None and parent not in self._parents:
                yield entry_id, f"follows entry {parent}, which is not in the session"
            elif parent is not None and self._children[parent][0] != entry_id:
                yield entry_id, f"follows entry {parent}, but another entry does too"
        for run in self._runs[1:]:
            yield run[0], "cannot be reached from the header"
        head, tail = self._session.get("headEntryID"), self._session.get("tailEntryID")
        if self.entry_ids and head != self._header:
            yield self.entry_ids[0], f"is the first, but the session names entry {head}"
        if self.entry_ids and tail != self.entry_ids[-1]:
            yield self.entry_ids[-1], f"is the last, but the session names entry {tail}"

    def _make_problem(self, entry_id: int | None, reason: str) -> Problem:
        session_id = self._session["id"]
        if entry_id is None:
            return Problem(f"sessions:{session_id}", f"The session {session_id} has no entries, not even a header.")
        return Problem(
            f"session_entries:{entry_id}",
            f"The chain of session {session_id} is broken: entry {entry_id} {reason}. Everything readable is shown.",
        )
