"""A machine that has no store yet: its newest conversations are found while the browser is still being loaded, and all
of them sooner by processes that are begun while the store is still being made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from store import sources
from store.sources.kit import homes
from store.sources.kit.locator import place_of
from store.sync.child_process import Seconds, has_begun, is_large, second, tell

PATIENCE = 2.0
"""Seconds that a first screen waits for what may be put on it."""

_SEEN = "seen"


@contextmanager
def first_look(path: Path) -> Iterator[Callable[[], None]]:
    """By a process of its own, which makes the store. What is given waits until there is something, or is nothing."""
    with second("first_look") as pipe:

        def wait() -> None:
            if pipe is not None and has_begun(pipe):
                pipe.poll(PATIENCE)
                pipe.close()

        if pipe is not None:
            tell(pipe, path)
        yield wait


def begun_early() -> Seconds:
    """At each large archive, of which nothing is known yet."""
    places = ((name, place_of(root).address) for name in sources.LARGEST for root in homes.roots_of(name))
    return Seconds("quick_index", [(*place, frozenset()) for place in places if is_large(Path(place[1]), new=True)])


def serve(pipe: Connection) -> None:
    """Until nobody waits any more."""
    from store.errors import StoreError
    from store.store import Store
    from store.sync import engine, refresh

    with suppress(StoreError, EOFError, OSError), Store.open(pipe.recv()) as store:
        for _ in engine.glimpse(store, refresh.found()):
            pipe.send(_SEEN)
