"""Finds the foreign stores that a sync reads, and tells which of them changed since they were read."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from store import sources
from store.errors import Busy, NotFound, StoreError, Unreadable
from store.sources.kit import homes
from store.sources.kit.locator import is_url, parse_location, rebase_roots
from store.sources.kit.problem import Problem
from store.text.json import decode

if TYPE_CHECKING:
    from store.sources.contract import Source
    from store.store import Store


SELECT_SOURCE = "select key, marks, problems from sources where kind = ? and locator = ?"


_COUNT_PRESENT = "select count(*) from sessions where source_key = ? and gone = 0 and relation is not 'superseded'"


class Report:
    "What a sync did with one foreign store."

    def __init__(self, source: str, locator: str) -> None:
        self.source = source
        self.locator = locator
        self.seen = self.new = self.updated = self.unchanged = 0
        self.problems: list[Problem] = []


class Progress(NamedTuple):
    report: Report
    done: int
    total: int


class Target:
    "A foreign store that is to be read."

    def __init__(self, source: Source, locator: str, address: str) -> None:
        self.source = source
        self.locator = locator
        self.address = address
        "What opens it; with a password where it takes one, so it is neither kept nor shown."
        self._stamp: str | None = None

    @property
    def stamp(self) -> str:
        """Taken once for all that a sync asks: to walk ten thousand files is most of what it does."""
        if self._stamp is None:
            self._stamp = self.source.stamp(self.address)
        return self._stamp

    def clear_stamp(self) -> None:
        """What comes from now on is seen by the next sync."""
        self._stamp = None


def find_targets(
    paths: Sequence[str] = (),
    source_name: str | None = None,
    *,
    store: Store | None = None,
) -> list[Target]:
    """What there is to read: the stores that are named, or all that are found where their programs keep them."""
    if source_name is not None and source_name not in sources.SOURCE_NAMES:
        raise NotFound(f"There is no source {source_name!r}; there are {', '.join(sources.SOURCE_NAMES)}.")
    if not paths:
        return list(discover_targets(source_name, store=store))
    chosen = [source for source in sources.ALL if source_name in (None, source.NAME)]
    return [target for path in paths for target in _find_targets_at(path, chosen)]


def discover_targets(
    source_name: str | None = None, *, store: Store | None = None, addresses: Container[str] | None = None
) -> Iterator[Target]:
    """Yield the foreign stores that are where their agents keep them, or only those at the given addresses.

    Each is looked for when it is requested, so that the first one can be read before the last one is found. A store
    that did not change since it was read is not opened, because to recognise a database is to copy it.
    """
    for name in dict.fromkeys((*sources.LARGEST_SOURCES, *sources.SOURCE_NAMES)):
        places = dict.fromkeys(map(parse_location, homes.find_roots(name))) if source_name in (None, name) else ()
        for place in places:
            if addresses is not None and place.address not in addresses:
                continue
            source = sources.load_source(name) if is_url(place.locator) or os.path.exists(place.address) else None
            if source is not None:
                target = Target(source, *place)
                if (store and report_if_unchanged(store, target)) or _has_store(source, place.address):
                    yield target


def _has_store(source: Source, address: str) -> bool:
    """What is being written to right now is there, where its program keeps it; reading it will tell that it is busy."""
    try:
        return source.detect(address)
    except Busy:
        return True


def _find_targets_at(path: str, chosen: Sequence[Source]) -> list[Target]:
    """Those that are in a home where their programs keep them; that store; or those side by side in that folder."""
    from store.sources.kit import sqlite

    place = parse_location(path)
    at_home = (Target(source, *one) for source in chosen for one in rebase_roots(place.locator, source.roots()))
    if kept := [target for target in at_home if _has_store(target.source, target.address)]:
        return kept
    for source in chosen:
        if source.detect(place.address):
            return [Target(source, *place)]
    if is_url(place.locator):
        raise Unreadable(f"{place.locator} is not a database that Backscroll can read.")
    if not Path(place.locator).exists():
        raise Unreadable(f"{path} is not there.")
    if within := list(_find_targets_in(Path(place.locator), chosen)):
        return within
    sqlite.raise_if_damaged(Path(place.locator))
    raise Unreadable(f"{path} is not a conversation store that Backscroll can read.")


def _find_targets_in(folder: Path, chosen: Sequence[Source]) -> Iterator[Target]:
    for child in sorted(folder.iterdir()) if folder.is_dir() else ():
        place = parse_location(str(child))
        with suppress(StoreError):  # one that is damaged, beside others
            yield from islice((Target(source, *place) for source in chosen if _has_store(source, place.address)), 1)


def report_if_unchanged(store: Store, target: Target) -> Report | None:
    """What there is to tell of a foreign store that is as it was when it was read; None of one that must be read."""
    row = store.row(SELECT_SOURCE, target.source.NAME, target.locator)
    marks = decode(row[1]) if row else {}
    if not marks.get("stamp") or (marks["stamp"], marks["reader"]) != (target.stamp, target.source.READER):
        return None
    report = Report(target.source.NAME, target.locator)
    # Stores of before did not note how many there were.
    report.seen = marks["seen"] if "seen" in marks else store.row(_COUNT_PRESENT, row[0])[0]
    report.unchanged = report.seen
    report.problems = [Problem(**problem) for problem in decode(row[2])]
    return report
