"""Finds the foreign stores that a sync reads, and checks which of them changed since they were read."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from store import probes, sources
from store.errors import Busy, NotFound, StoreError, Unreadable
from store.sources.kit.locator import is_url, parse_location
from store.sources.kit.problem import Problem
from store.text.json import decode

if TYPE_CHECKING:
    from store.sources.contract import Source
    from store.store import Store


SELECT_SOURCE = "select key, marks, problems from sources where kind = ? and locator = ?"


_COUNT_PRESENT = "select count(*) from sessions where source_key = ? and gone = 0 and relation is not 'superseded'"


MAX_UNCLAIMED_NAMES = 5
_DATA_SUFFIXES = (".jsonl", ".json", ".db", ".sqlite", ".sqlite3", ".zip", ".zst")


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


def may_be_conversation(path: str) -> bool:
    """Return whether a file that no source knows is of a kind in which agents keep conversations."""
    return path.endswith(_DATA_SUFFIXES)


class FoundStores:
    """Holds what is in the paths that a person named."""

    def __init__(self, targets: Sequence[Target] = ()) -> None:
        self.targets = [*targets]
        self.failures: list[tuple[str, StoreError]] = []
        "Lists the paths that cannot be read at all, each with the reason."
        self.problems: list[Problem] = []
        "Says which of the folders were not looked at completely."
        self.unclaimed: list[str] = []
        "Lists the files that no source knows."

    def name_unclaimed(self) -> list[str]:
        """Return some of the files that no source knows; those that may be conversations come before others."""
        ordered = sorted(self.unclaimed, key=lambda path: (not may_be_conversation(path), path))
        return ordered[:MAX_UNCLAIMED_NAMES]

    def raise_failures(self) -> None:
        """Raise the reason why the first of the unreadable paths cannot be read, if there is one."""
        for _, reason in self.failures:
            raise reason


def find_targets(
    paths: Sequence[str] = (),
    source_name: str | None = None,
    *,
    store: Store | None = None,
) -> list[Target]:
    """Return the stores at these paths, or all stores that are where their agents keep them."""
    _require_source(source_name)
    if not paths:
        return list(discover_targets(source_name, store=store))
    found = find_named_stores(paths, source_name)
    found.raise_failures()
    return found.targets


def find_named_stores(paths: Sequence[str], source_name: str | None = None) -> FoundStores:
    """Return the stores at these paths, what is wrong with some of the paths, and which files no source knows."""
    from store.sync.named_paths import find_stores

    _require_source(source_name)
    return find_stores(paths, [source for source in sources.all_sources() if source_name in (None, source.name)])


def _require_source(name: str | None) -> None:
    if name is not None and name not in sources.SOURCE_NAMES:
        raise NotFound(f"No such source: {name!r}. Choose one of {', '.join(sources.SOURCE_NAMES)}.")


def discover_targets(
    source_name: str | None = None, *, store: Store | None = None, addresses: Container[str] | None = None
) -> Iterator[Target]:
    """Yield the foreign stores that are where their agents keep them, or only those at the given addresses.

    Each is looked for when it is requested, so that the first one can be read before the last one is found. A store
    that did not change since it was read is not opened, because to recognise a database is to copy it.
    """
    probes.find_home_folder()  # is asked so that the answer is noted
    for name in dict.fromkeys((*sources.LARGEST_SOURCES, *sources.SOURCE_NAMES)):
        is_wanted = source_name in (None, name) and sources.REGISTRY[name].has_home
        source = sources.load_source(name) if is_wanted else None
        locations = dict.fromkeys(map(parse_location, source.roots())) if source else ()
        for location in locations:
            if addresses is not None and location.address not in addresses:
                continue
            if is_url(location.locator):
                probes.read_clock()  # whether a server has something new cannot be noted
            if source and (is_url(location.locator) or probes.find_kind(location.address)):
                target = Target(source, *location)
                if (store and report_if_unchanged(store, target)) or has_store(source, location.address):
                    yield target
                else:
                    _ = target.stamp  # is asked so that a note of it tells when this becomes a store


def has_store(source: Source, address: str) -> bool:
    """Return whether a store of this source is there.

    A store that is being written, is too large or is damaged counts: reading it reports the reason.
    """
    try:
        # What is asked here need not be noted: a stamp tells whether the answer may be another one.
        with probes.ProbeNotes():
            is_there = source.detect(address)
            if not is_there:
                source.raise_if_damaged(address)
            return is_there
    except (Busy, Unreadable):
        return True


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
