"""This module holds what every command gets: the path of the store, the open store, and the browser."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from store.errors import Refused
from store.paths import resolve_store_path

if TYPE_CHECKING:
    from store.store import Store


class BrowserLauncher(Protocol):
    """Opens the browser on a store.

    With `follow`, the browser also syncs new entries from the agents on this machine. With `pick`, it only lets a
    person choose a session to resume. `refusal` says why the store takes no edits, for example because it is temporary.
    """

    def __call__(self, path: Path, *, follow: bool, pick: bool, refusal: str) -> None: ...


class CliContext:
    """Holds the chosen store and opens it on first use."""

    def __init__(self, launch_browser: BrowserLauncher | None) -> None:
        self.launch_browser = launch_browser
        "Is None where the browser is not installed."
        self.store_option: Path | None = None
        "The value of --store."

    @property
    def path(self) -> Path:
        return resolve_store_path(self.store_option).absolute()

    @cached_property
    def store(self) -> Store:
        from store.cli import output
        from store.store import Store

        return Store.open(self.path, notify=output.notify)

    def close(self) -> None:
        """Close the store if it was opened."""
        store = self.__dict__.pop("store", None)
        if store is not None:
            store.close()

    def open_browser(
        self, path: Path | None = None, *, follow: bool = False, pick: bool = False, refusal: str = ""
    ) -> None:
        """Close the store, and run the browser on it or on the store at `path`."""
        if self.launch_browser is None:
            raise Refused("The browser is not installed. Use `backscroll list`, `show` and `search` instead.")
        self.close()
        self.launch_browser(path or self.path, follow=follow, pick=pick, refusal=refusal)
