"""The newest conversations of a machine that has no store yet, found while the browser is still being loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from store.second import has_begun, second

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
            with suppress(OSError):  # it could not begin
                pipe.send(path)
        yield wait


def serve(pipe: Connection) -> None:
    """Until nobody waits any more."""
    from store import sync
    from store.errors import StoreError
    from store.store import Store

    with suppress(StoreError, EOFError, OSError), Store.open(pipe.recv()) as store:
        for _ in sync.glimpse(store, sync.found()):
            pipe.send(_SEEN)
