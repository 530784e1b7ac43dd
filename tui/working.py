"""Work in a thread, of which nothing is written down, and work that makes much at once.

Textual describes a worker by all its arguments, spelled out: a record of many megabytes would be spelled while the
screen waits, and a passphrase kept with it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from textual import work
from textual.worker import Worker

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def threaded(
    *, group: str, exclusive: bool = False
) -> Callable[[Callable[Given, Answer]], Callable[Given, Worker[Answer]]]:
    return work(thread=True, group=group, exclusive=exclusive, description=group)


@contextmanager
def untidied() -> Iterator[None]:
    """While a parser makes a hundred thousand values, none of them is garbage, and looking for it again and again would
    take half as long as the parsing."""
    tidy = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if tidy:
            gc.enable()
