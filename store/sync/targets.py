"""Finds the foreign stores that a sync reads, and checks which of them changed since they were read."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from store import sources
from store.errors import Busy, NotFound, StoreError, Unreadable
from store.sources.kit.locator import is_url, parse_location, rebase_roots
from store.sources.kit.problem import Problem
from store.text.json import decode

if TYPE_CHECKING:
    from store.sources.contract import Source
    from store.store import Store


SELECT_SOURCE = "select key, marks, problems from sources where kind = ? and locator = ?"


_COUNT_PRESENT = "select count(*) from sessions where source_key = ? and gone = 0 and relation is not 'superseded'"


class Report:
    "Counts what a sync did with one foreign store."

    def __init__(self, source: str, locator: str) -> None:
        self.source = source
        self.locator = locator
        self.seen = self.new = self.updated = self.unchanged = 0
        self.problems: list[Problem] = []


class Progress(NamedTuple):
    "Says how many sessions of a foreign store are done."

    report: Report
    done: int
    total: int


class Target:
    "Describes a foreign store that a sync reads."

    def __init__(self, source: Source, locator: str, address: str) -> None:
        self.source = source
        self.locator = locator
        self.address = address
        "Opens the store. It may contain a password, so it is neither stored nor shown."
        self._stamp: str | None = None

    @property
    def stamp(self) -> str:
        """Return the stamp. It is computed once a sync, since walking ten thousand files takes most of the time."""
        if self._stamp is None:
            self._stamp = self.source.stamp(self.address)
        return self._stamp

    def clear_stamp(self) -> None:
        """Forget the stamp, so that the next sync computes it again."""
        self._stamp = None


def find_targets(
    paths: Sequence[str] = (),
    source_name: str | None = None,
    *,
    store: Store | None = None,
) -> list[Target]:
    """Return the stores at these paths, or all stores that are where their agents keep them."""
    if source_name is not None and source_name not in sources.SOURCE_NAMES:
        raise NotFound(f"No such source: {source_name!r}. Choose one of {', '.join(sources.SOURCE_NAMES)}.")
    if not paths:
        return list(discover_targets(source_name, store=store))
    candidates = [source for source in sources.all_sources() if source_name in (None, source.name)]
    return [target for path in paths for target in _find_targets_at(path, candidates)]


def discover_targets(
    source_name: str | None = None, *, store: Store | None = None, addresses: Container[str] | None = None
) -> Iterator[Target]:
    """Yield the foreign stores that are where their agents keep them, or only those at the given addresses.

    Each is looked for when it is requested, so that the first one can be read before the last one is found. A store
    that did not change since it was read is not opened, because to recognise a database is to copy it.
    """
    for name in dict.fromkeys((*sources.LARGEST_SOURCES, *sources.SOURCE_NAMES)):
        source = sources.load_source(name) if source_name in (None, name) else None
        locations = dict.fromkeys(map(parse_location, source.roots())) if source else ()
        for location in locations:
            if addresses is not None and location.address not in addresses:
                continue
            if source and (is_url(location.locator) or os.path.exists(location.address)):
                target = Target(source, *location)
                if (store and report_if_unchanged(store, target)) or _has_store(source, location.address):
                    yield target


def _has_store(source: Source, address: str) -> bool:
    """Return whether a store of this source is there. A store that is being written counts: reading it reports Busy."""
    try:
        return source.detect(address)
    except Busy:
        return True


def _find_targets_at(path: str, candidates: Sequence[Source]) -> list[Target]:
    """Return the stores of agents whose home folder this is, else the store at this path, else those in this folder."""
    from store.sources.kit import sqlite

    location = parse_location(path)
    at_home = (
        Target(source, *root) for source in candidates for root in rebase_roots(location.locator, source.roots())
    )
    if targets := [target for target in at_home if _has_store(target.source, target.address)]:
        return targets
    for source in candidates:
        if source.detect(location.address):
            return [Target(source, *location)]
    if is_url(location.locator):
        raise Unreadable(f"{location.locator} is not a database that Backscroll can read.")
    if not Path(location.locator).exists():
        raise Unreadable(f"No such file or folder: {path}.")
    if targets := list(_find_targets_in(Path(location.locator), candidates)):
        return targets
    sqlite.raise_if_damaged(Path(location.locator))
    raise Unreadable(f"{path} is not a conversation store that Backscroll can read.")


def _find_targets_in(folder: Path, candidates: Sequence[Source]) -> Iterator[Target]:
    for child in sorted(folder.iterdir()) if folder.is_dir() else ():
        location = parse_location(str(child))
        with suppress(StoreError):  # a damaged store does not hide the others
            yield from islice(
                (Target(source, *location) for source in candidates if _has_store(source, location.address)), 1
            )


def report_if_unchanged(store: Store, target: Target) -> Report | None:
    """Return the report of a foreign store that did not change since it was read, or None if it must be read."""
    row = store.row(SELECT_SOURCE, target.source.name, target.locator)
    marks = decode(row[1]) if row else {}
    if not marks.get("stamp") or (marks["stamp"], marks["reader"]) != (target.stamp, target.source.reader_version):
        return None
    report = Report(target.source.name, target.locator)
    # Older versions did not save the number of sessions.
    report.seen = marks["seen"] if "seen" in marks else store.row(_COUNT_PRESENT, row[0])[0]
    report.unchanged = report.seen
    report.problems = [Problem(**problem) for problem in decode(row[2])]
    return report
