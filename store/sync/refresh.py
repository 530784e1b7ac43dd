"""Runs a sync: reports what did not change, and imports the rest.

Most of the time nothing changed. Then no module that reads or saves sessions is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Set
from contextlib import ExitStack, suppress
from itertools import chain
from typing import TYPE_CHECKING

from store.errors import Busy
from store.sources import load_source
from store.sources.kit.locator import is_url, parse_location
from store.sync.lock import sync_lock
from store.sync.targets import Progress, Report, Target, report_if_unchanged
from store.sync.tuning import collect_garbage_rarely

if TYPE_CHECKING:
    from store.store import Store
    from store.sync.child_process import ReaderProcesses


def sync_targets(
    store: Store,
    targets: Iterable[Target],
    priority_ids: Set[str] = frozenset(),
    processes: ReaderProcesses | None = None,
) -> Iterator[Progress]:
    """Read each target in turn, and yield the progress. The reports are complete when the iterator ends.

    Sessions whose native ids are in `priority_ids` are read first. The set may grow while the sync runs. `processes`
    may have been prepared to read.
    """
    with sync_lock(store), collect_garbage_rarely(), ExitStack() as cleanup:
        remaining = _clear_stamps_on_exit(targets, cleanup)
        unchanged: dict[Target, Report] = {}
        for target in remaining:
            report = report_if_unchanged(store, target)
            if report is None:
                from store.sync.engine import import_targets

                yield from import_targets(store, chain(unchanged, [target], remaining), priority_ids, processes)
                return
            unchanged[target] = report
        for report in unchanged.values():
            yield Progress(report, report.seen, report.seen)
        store.release_free_pages()


def _clear_stamps_on_exit(targets: Iterable[Target], cleanup: ExitStack) -> Iterator[Target]:
    for target in targets:
        cleanup.callback(target.clear_stamp)
        yield target


def sync_known_stores(store: Store) -> None:
    """Read the known stores that have changed, after a redaction has rewritten some of their files.

    Nothing is new in these files, but their stamps are. If a sync is running, it does that.
    """
    targets = []
    for name, locator in store.rows("select kind, locator from sources order by key"):
        source = load_source(name)
        if source is not None and not is_url(locator) and os.path.exists(locator):
            targets.append(Target(source, *parse_location(locator)))
    with suppress(Busy):
        for _ in sync_targets(store, targets):
            pass
