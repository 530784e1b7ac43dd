"""This module holds the options and arguments that commands share, and gives commands their store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click
from click.shell_completion import CompletionItem
from click.types import IntParamType

from store.cli.context import CliContext
from store.errors import Unreadable
from store.model.session import Session
from store.store import Store

P = ParamSpec("P")
R = TypeVar("R")

_MAX_NUMBER = 2**31
"""Is the largest number that an option takes. A number beyond SQLite's integers would fail in a query."""


class Number(IntParamType):
    """Parses a whole number. Unlike click.IntRange, it keeps the range out of the help texts."""

    name = "number"

    def __init__(self, minimum: int, maximum: int = _MAX_NUMBER) -> None:
        self._minimum = minimum
        self._maximum = maximum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = int(super().convert(value, param, ctx))
        if not self._minimum <= number <= self._maximum:
            self.fail(f"{number} is not between {self._minimum} and {self._maximum}.", param, ctx)
        return number


POSITIVE_INT = Number(1)
NON_NEGATIVE_INT = Number(0)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def complete_session(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from store.cli.completion.completer import list_sessions  # needed only when Tab is pressed in a shell

    return list_sessions(ctx, incomplete)


def complete_query(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from store.cli.completion.completer import list_filters

    return list_filters(ctx, incomplete)


session_id_argument = click.argument("session_id", metavar="ID", shell_complete=complete_session)
optional_session_argument = click.argument(
    "session_id", metavar="[ID]", required=False, shell_complete=complete_session
)
session_ids_argument = click.argument(
    "session_ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_session
)


def cli_context() -> CliContext:
    return click.get_current_context().ensure_object(CliContext)


def with_store(command: Callable[Concatenate[Store, P], R]) -> Callable[P, R]:
    """Pass the open store to a command as its first argument."""

    @wraps(command)
    def run_with_store(*args: P.args, **kwargs: P.kwargs) -> R:
        return command(cli_context().store, *args, **kwargs)

    return run_with_store


def find_sessions(store: Store, ids: Sequence[str]) -> list[Session]:
    """Return each named session once. All ids are looked up before a command changes anything."""
    return list(dict.fromkeys(store.sessions.find(session_id) for session_id in ids))


def read_file_or_stdin(path: str) -> str:
    """Read the text of a file, or of stdin for `-`."""
    if path == "-":
        return read_stdin()
    try:
        return Path(path).read_bytes().decode("utf-8", "surrogateescape")
    except (OSError, ValueError) as error:
        raise Unreadable(f"Cannot read {path}: {getattr(error, 'strerror', error)}.") from None


def read_stdin() -> str:
    """Read stdin. Bytes that are not UTF-8 become surrogates, which the store refuses with a reason."""
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")


def is_interactive() -> bool:
    """Return whether a person can answer a prompt: stdin is a terminal."""
    with suppress(AttributeError, ValueError):
        return sys.stdin.isatty()
    return False
