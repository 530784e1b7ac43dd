"""What every command is given: the store that is meant, opened when first asked for, and the words they share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import click

from store.cli import printing
from store.errors import Refused, Unreadable
from store.model import Session
from store.paths import store_path
from store.store import Store

P = ParamSpec("P")
R = TypeVar("R")

COUNT = click.IntRange(1, 2**31)
NUMBER = click.IntRange(0, 2**31)

as_json = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
session_id = click.argument("session_id", metavar="ID")
session_ids = click.argument("session_ids", metavar="ID...", nargs=-1, required=True)


class Browse(Protocol):
    """Opens the browser on a store.

    `follow`: what the agents on this machine write is read into it meanwhile. `pick`: only to choose what to resume.
    """

    def __call__(self, path: Path, *, follow: bool, pick: bool) -> None: ...


@dataclass
class Console:
    browse: Browse | None = None
    "None where there is no browser."
    named: Path | None = None
    "What --store said."

    @property
    def path(self) -> Path:
        return store_path(self.named).absolute()

    @cached_property
    def store(self) -> Store:
        return Store.open(self.path, tell=printing.say)

    def close(self) -> None:
        opened = self.__dict__.pop("store", None)
        if opened is not None:
            opened.close()

    def open_browser(self, path: Path | None = None, *, follow: bool = False, pick: bool = False) -> None:
        if self.browse is None:
            raise Refused("The browser is not installed; `list`, `show` and `search` work without it.")
        self.close()
        self.browse(path or self.path, follow=follow, pick=pick)


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
