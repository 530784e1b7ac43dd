"""The words that commands share, and how each comes by its store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click

from store.cli.context import CliContext
from store.errors import Unreadable
from store.model.session import Session
from store.store import Store

P = ParamSpec("P")
R = TypeVar("R")

POSITIVE_INT = click.IntRange(1, 2**31)
NON_NEGATIVE_INT = click.IntRange(0, 2**31)

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
session_id_argument = click.argument("session_id", metavar="ID")
session_ids_argument = click.argument("session_ids", metavar="ID...", nargs=-1, required=True)


def cli_context() -> CliContext:
    return click.get_current_context().ensure_object(CliContext)


def with_store(command: Callable[Concatenate[Store, P], R]) -> Callable[P, R]:
    """Hands the command the open store before its own arguments."""

    @wraps(command)
    def opened(*args: P.args, **kwargs: P.kwargs) -> R:
        return command(cli_context().store, *args, **kwargs)

    return opened


def find_sessions(store: Store, names: Sequence[str]) -> list[Session]:
    """Each session once, however often it was named, and all found before anything is done to one."""
    return list(dict.fromkeys(store.sessions.find(name) for name in names))


def read_file_or_stdin(path: str) -> str:
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


def is_interactive() -> bool:
    """Whether somebody is there to be asked."""
    with suppress(AttributeError, ValueError):
        return sys.stdin.isatty()
    return False
