"""A machine that has no store yet: its newest conversations are found while the browser is still being loaded, and all
of them sooner by processes that are begun while the store is still being made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from store import sources
from store.sources.kit import homes
from store.sources.kit.locator import parse_location
from store.sync.child_process import ReaderProcesses, is_large, send_job, start_process, wait_until_ready

PATIENCE = 2.0
"""Seconds that a first screen waits for what may be put on it."""

_SEEN = "seen"


@contextmanager
def first_look(path: Path) -> Iterator[Callable[[], None]]:
    """By a process of its own, which makes the store. What is given waits until there is something, or is nothing."""
    with start_process("first_look") as pipe:

        def wait() -> None:
            if pipe is not None and wait_until_ready(pipe):
                pipe.poll(PATIENCE)
                pipe.close()

        if pipe is not None:
            send_job(pipe, path)
        yield wait


def begun_early() -> ReaderProcesses:
    """At each large archive, of which nothing is known yet."""
    places = (
        (name, parse_location(root).address) for name in sources.LARGEST_SOURCES for root in homes.find_roots(name)
    )
    return ReaderProcesses(
        "quick_index", [(*place, frozenset()) for place in places if is_large(Path(place[1]), is_first_import=True)]
    )


def serve(pipe: Connection) -> None:
    """Until nobody waits any more."""
    from store.errors import StoreError
    from store.store import Store
    from store.sync import engine, refresh

    with suppress(StoreError, EOFError, OSError), Store.open(pipe.recv()) as store:
        for _ in engine.import_newest(store, refresh.discover_targets()):
            pipe.send(_SEEN)
