"""Work in a thread, of which nothing is written down.

Textual describes a worker by all its arguments, spelled out: a record of many megabytes would be spelled while the
screen waits, and a passphrase kept with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from textual import work
from textual.worker import Worker

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def threaded(
    *, group: str, exclusive: bool = False
) -> Callable[[Callable[Given, Answer]], Callable[Given, Worker[Answer]]]:
    return work(thread=True, group=group, exclusive=exclusive, description=group)
