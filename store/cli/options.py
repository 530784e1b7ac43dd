"""The words that commands share, and how each comes by its store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click

from store.cli import Console
from store.errors import Unreadable
from store.model.session import Session
from store.store import Store

P = ParamSpec("P")
R = TypeVar("R")

COUNT = click.IntRange(1, 2**31)
NUMBER = click.IntRange(0, 2**31)

as_json = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
session_id = click.argument("session_id", metavar="ID")
session_ids = click.argument("session_ids", metavar="ID...", nargs=-1, required=True)


def console() -> Console:
    return click.get_current_context().ensure_object(Console)


def with_store(command: Callable[Concatenate[Store, P], R]) -> Callable[P, R]:
    """Hands the command the open store before its own arguments."""

    @wraps(command)
    def opened(*args: P.args, **kwargs: P.kwargs) -> R:
        return command(console().store, *args, **kwargs)

    return opened


def find_all(store: Store, names: Sequence[str]) -> list[Session]:
    """Each session once, however often it was named, and all found before anything is done to one."""
    return list(dict.fromkeys(store.sessions.find(name) for name in names))


def read_named(path: str) -> str:
    """The text of a file, or of stdin for `-`."""
    if path == "-":
        return read_stdin()
    try:
        return Path(path).read_bytes().decode("utf-8", "surrogateescape")
    except (OSError, ValueError) as reason:
        raise Unreadable(f"{path} cannot be read: {getattr(reason, 'strerror', reason)}.") from None


def read_stdin() -> str:
    """What is not UTF-8 is left for the store to refuse with a reason."""
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")


def at_keyboard() -> bool:
    """Whether somebody is there to be asked."""
    with suppress(AttributeError, ValueError):
        return sys.stdin.isatty()
    return False
