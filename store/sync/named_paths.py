"""Finds the foreign stores in what a person named: a database server, a file, or a folder of any content.

A folder is walked once. Every file is shown to the sources, and the first that knows it gets it, so that the
conversations of several agents can be side by side. What no source knows is counted, so that nothing is left out
silently.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from store.errors import Busy, StoreError, Unreadable
from store.sources.contract import Source
from store.sources.kit import sqlite
from store.sources.kit.locator import hide_password, is_url, parse_location, rebase_roots
from store.sources.kit.problem import Problem
from store.sources.kit.stamps import PATH_ERRORS, walk_files
from store.sync.targets import MAX_UNCLAIMED_NAMES, FoundStores, Target, has_store, may_be_conversation

MAX_SECONDS = 30.0
"""Limits how long the files of one folder are looked at."""

_BEGINNING_BYTES = 256


def find_stores(paths: Iterable[str], candidates: Sequence[Source]) -> FoundStores:
    """Return the stores at these paths. A path without any is a problem, and does not keep others from being read."""
    found = FoundStores()
    for path in paths:
        try:
            _find_at(path, candidates, found)
        except StoreError as reason:
            found.failures.append((hide_password(path), reason))
    unique = {(target.source.name, target.locator): target for target in found.targets}
    found.targets = list(unique.values())
    return found


def _find_at(path: str, candidates: Sequence[Source], found: FoundStores) -> None:
    location = parse_location(path)
    if os.path.isdir(location.locator) and not is_url(location.locator):
        _FolderSearch(Path(location.locator), candidates).add_to(found)
        return
    for source in candidates:
        if source.detect(location.address):
            found.targets.append(Target(source, *location))
            return
    if is_url(location.locator):
        raise Unreadable(f"{location.locator} is not a database that Backscroll can read.")
    if not os.path.exists(location.locator):
        raise Unreadable(f"No such file or folder: {hide_password(path)}.")
    sqlite.raise_if_damaged(Path(location.locator))
    raise Unreadable(f"{path} is not a conversation store that Backscroll can read.")


class _FolderSearch:
    """Walks a folder and collects which files belong to which store of which source."""

    def __init__(self, top: Path, candidates: Sequence[Source]) -> None:
        self._top = top
        self._real_top = Path(os.path.realpath(top))
        self._candidates = candidates
        self._problems: list[Problem] = []
        self._stores: dict[Path, list[Source]] = {}
        self._loose: dict[Source, list[Path]] = {}
        self._known: set[Path] = set()
        self._unknown: list[Path] = []
        self._last_source = candidates[0] if candidates else None

    def add_to(self, found: FoundStores) -> None:
        """Add what the folder holds. A folder without any store is refused."""
        targets = [*self._find_at_home()]
        self._walk()
        targets += [*self._list_targets()]
        found.problems += self._problems
        unclaimed = [*self._list_unclaimed()]
        if not targets:
            reasons = [problem.reason for problem in self._problems if problem.where == str(self._top)]
            if names := sorted(filter(may_be_conversation, unclaimed)):
                listed = ", ".join(names[:MAX_UNCLAIMED_NAMES]) + (", …" if len(names) > MAX_UNCLAIMED_NAMES else "")
                reasons.append(f"No source knows {listed}.")
            raise Unreadable(" ".join([f"{self._top} is not a conversation store that Backscroll can read.", *reasons]))
        found.targets += sorted(targets, key=lambda target: self._candidates.index(target.source))
        found.unclaimed += unclaimed

    def _find_at_home(self) -> Iterator[Target]:
        """Yield the stores at the places where agents keep them, if the folder is one of them or a home folder.

        They are looked for first, because a home folder may have too many files to look at all of them, and because
        an agent's own folders may be links to elsewhere.
        """
        for source in self._candidates:
            locations = [*rebase_roots(str(self._top), source.roots())]
            if source.has_own_folders(self._top):
                locations.append(parse_location(str(self._top)))
            for location in locations:
                with suppress(StoreError):
                    if os.path.exists(location.address) and has_store(source, location.address):
                        yield Target(source, *location)

    def _walk(self) -> None:
        deadline = time.monotonic() + MAX_SECONDS
        for path in walk_files(self._top, self._problems, suffixes=("",), is_bounded=True):
            self._look_at(path)
            if time.monotonic() > deadline:
                reason = f"Not all files were looked at within {MAX_SECONDS:.0f} seconds. Name a folder inside it."
                self._problems.append(Problem(str(self._top), reason))
                return

    def _look_at(self, path: Path) -> None:
        source = self._find_source(path)
        if source is None:
            self._unknown.append(path)
            return
        self._known.add(path)
        store = source.find_store(path, self._top)
        if store is None:
            self._loose.setdefault(source, []).append(path)
        elif source not in self._stores.setdefault(store, []):
            self._stores[store].append(source)

    def _find_source(self, path: Path) -> Source | None:
        """Return the source that knows a file. The one that knew the file before is asked first.

        No source is asked about a link that leads out of the folder: the person has not named what is there.
        """
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(self._real_top):
            return None
        beginning = _read_beginning(path)
        for source in (self._last_source, *self._candidates):
            with suppress(Unreadable):
                if source and _knows(source, path, beginning):
                    self._last_source = source
                    return source
        return None

    def _list_targets(self) -> Iterator[Target]:
        for store, owners in self._stores.items():
            for source in owners:
                yield Target(source, *parse_location(str(store)))
        for source, paths in self._loose.items():
            for folder in dict.fromkeys(self._find_loose_folder(source, path) for path in paths):
                yield Target(source, *parse_location(str(folder)))

    def _find_loose_folder(self, source: Source, path: Path) -> Path:
        """Return the highest folder that can be read together with a loose file, else the file itself.

        Stores of the same source must not be in it: they would be read twice.
        """
        stores = [store for store, owners in self._stores.items() if source in owners]
        for folder in reversed(path.parents[: len(path.parts) - len(self._top.parts)]):
            if not source.has_own_folders(folder) and not any(store.is_relative_to(folder) for store in stores):
                return folder
        return path

    def _list_unclaimed(self) -> Iterator[str]:
        """Yield the unknown files that do not belong to a known one.

        What is in an agent's own folder belongs to the agent, and what is named after a known file belongs to it.
        """
        own_folders = {
            folder for folder, owners in self._stores.items() if any(source.owns_folder(folder) for source in owners)
        }
        companions = {(path.parent, _stem(path)) for path in self._known}
        for path in self._unknown:
            above = [path, *path.parents[: len(path.parts) - len(self._top.parts)]]
            if not own_folders & {*above} and not any((name.parent, _stem(name)) in companions for name in above):
                yield str(path)


def _knows(source: Source, path: Path, beginning: bytes) -> bool:
    try:
        return source.knows(path, beginning)
    except Busy:
        return True


def _read_beginning(path: Path) -> bytes:
    """Return the first bytes of a file; empty when it cannot be read. A pipe is not opened to be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return file.read(_BEGINNING_BYTES) if os.fstat(handle).st_size else b""
    except PATH_ERRORS:
        return b""


def _stem(path: Path) -> str:
    """Return the name up to the first dot: `a.db-wal` and the folder `a` belong to `a.db`."""
    return path.name.partition(".")[0] or path.name
