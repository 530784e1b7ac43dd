"""The command line. A command parses, calls the store, prints; names and JSON fields are a promise.

`run` is the only way in. It never raises and never prints a traceback: every error is one sentence on stderr
and an exit status. What is asked for most often is told apart by hand: what reads all commands, and what prints them,
takes longer to load than the first screen to be painted, or ten thousand files to be looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from store.cli.console import configure_output
from store.errors import Refused
from store.paths import resolve_store_path

if TYPE_CHECKING:
    from store.store import Store

PROGRAM = "backscroll"


class BrowserLauncher(Protocol):
    """Opens the browser on a store.

    `follow`: what the agents on this machine write is read into it meanwhile. `pick`: only to choose what to resume.
    """

    def __call__(self, path: Path, *, follow: bool, pick: bool) -> None: ...


class CliContext:
    """What every command is given: the store that is meant, opened when first asked for."""

    def __init__(self, browse: BrowserLauncher | None) -> None:
        self.launch_browser = browse
        "None where there is no browser."
        self.store_option: Path | None = None
        "What --store said."

    @property
    def path(self) -> Path:
        return resolve_store_path(self.store_option).absolute()

    @cached_property
    def store(self) -> Store:
        from store.cli import output
        from store.store import Store

        return Store.open(self.path, notify=output.notify)

    def close(self) -> None:
        opened = self.__dict__.pop("store", None)
        if opened is not None:
            opened.close()

    def open_browser(self, path: Path | None = None, *, follow: bool = False, pick: bool = False) -> None:
        if self.launch_browser is None:
            raise Refused("The browser is not installed; `list`, `show` and `search` work without it.")
        self.close()
        self.launch_browser(path or self.path, follow=follow, pick=pick)


def run(browse: BrowserLauncher | None = None, argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 done; 1 not found, refused or nothing to undo; 2 wrong usage; 3 unreadable."""
    configure_output()
    console = CliContext(browse)
    try:
        return _dispatch(console, sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        print(file=sys.stderr)  # behind what the terminal shows of the key
        return 130
    except Exception as error:
        from store.cli import output

        return output.report_error(error)
    finally:
        console.close()


def _dispatch(console: CliContext, words: list[str]) -> int:
    command = words
    match words:
        case ["--store", path, *rest] if path and not path.startswith("-"):
            console.store_option, command = Path(path), rest
    match command:
        case []:
            console.open_browser(follow=True)
        case ["sync"] | ["sync", "--json"]:
            _run_sync_command(console, as_json="--json" in command)
        case _:
            from store.cli.commands import main

            status = main.main(words, PROGRAM, standalone_mode=False, obj=console)
            return status if isinstance(status, int) else 0
    return 0


def _run_sync_command(console: CliContext, *, as_json: bool) -> None:
    """With others at work before anything else is loaded: on what a first one reads, or on whether anything is new."""
    if console.path.exists():
        from store.sync.foretelling import Foretold

        with Foretold() as foretold:
            from store.cli.sync_runner import run_sync

            run_sync(console.store, as_json=as_json, foretold=foretold)
    else:
        from store.sync.first_look import begun_early

        with begun_early() as processes:
            from store.cli.sync_runner import run_sync

            run_sync(console.store, as_json=as_json, processes=processes)
