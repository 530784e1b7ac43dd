"""This module runs work in threads, so that no key waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from textual import work
from textual.dom import DOMNode
from textual.worker import Worker

Params = ParamSpec("Params")
Result = TypeVar("Result")

TYPING_PAUSE_SECONDS = 0.2
"""Seconds without a key before all matches are collected and ranked."""

KEY_WAIT_SECONDS = 2.0
"""Keys wait this long at most for something that is being opened."""

POLL_SECONDS = 0.005


def threaded(
    *, group: str, exclusive: bool = False
) -> Callable[[Callable[Params, Result]], Callable[Params, Worker[Result]]]:
    """Run the method of a widget or screen in a thread.

    The worker gets a short description. Textual would otherwise describe it by its arguments: a record of many
    megabytes would be formatted while the screen waits, and a passphrase would be kept.
    """
    return work(thread=True, group=group, exclusive=exclusive, description=group)


def run_in_thread(
    node: DOMNode, function: Callable[[], Result], *, group: str, exclusive: bool = False
) -> Worker[Result]:
    """Run a function in a thread that belongs to a widget or screen, as `threaded` does for its methods."""
    return node.run_worker(function, name=group, group=group, description=group, exclusive=exclusive, thread=True)


def wait_for_typing_pause(is_stale: Callable[[], bool]) -> bool:
    """Wait in a thread until nothing was typed for a while. Return whether the request is still wanted then."""
    end = time.monotonic() + TYPING_PAUSE_SECONDS
    while time.monotonic() < end and not is_stale():
        time.sleep(TYPING_PAUSE_SECONDS / 20)
    return not is_stale()


async def wait_for_opening(is_opening: Callable[[], bool]) -> None:
    """Wait until something has been opened, but not longer than a person would hold back the next key."""
    end = time.monotonic() + KEY_WAIT_SECONDS
    while is_opening() and time.monotonic() < end:
        await asyncio.sleep(POLL_SECONDS)
