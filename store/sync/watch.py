"""Watches the folders of agents' stores, so that a change is read within a second and nothing is walked in vain."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from watchfiles import watch

ACTIVE_SECONDS = 5.0
"""A store is checked repeatedly for this long after a change: its agent may still be writing a record."""

_DEBOUNCE_MS = 200
_STEP_MS = 50


class StoreWatcher:
    """Collects the addresses of the foreign stores in which something changed."""

    def __init__(self) -> None:
        self._changed = threading.Event()
        self._lock = threading.Lock()
        self._active_until: dict[str, float] = {}
        self._watched: frozenset[str] = frozenset()
        self._stop = threading.Event()
        self.is_watching = False
        "Is False where the system cannot watch; then every store has to be checked each time."

    def watch(self, addresses: Iterable[str]) -> bool:
        """Watch these stores from now on, and return whether others were watched before."""
        existing = frozenset(address for address in addresses if os.path.exists(address))
        if existing == self._watched and self.is_watching:
            return False
        self.close()
        self._stop = threading.Event()
        self._watched = existing
        self.is_watching = True
        folders = {address: {address} for address in existing if os.path.isdir(address)}
        files = {address for address in existing if address not in folders}
        # The side files of a database change with it, so that its folder is watched, without the folders below.
        parents: dict[str, set[str]] = {}
        for address in files:
            parents.setdefault(str(Path(address).parent), set()).add(address)
        for watched, is_recursive in ((folders, True), (parents, False)):
            if watched:
                arguments = (watched, is_recursive, self._stop)
                threading.Thread(target=self._watch_folders, args=arguments, daemon=True).start()
        return True

    def _watch_folders(self, folders: Mapping[str, set[str]], is_recursive: bool, stop: threading.Event) -> None:
        try:
            for changes in watch(
                *folders,
                watch_filter=None,
                debounce=_DEBOUNCE_MS,
                step=_STEP_MS,
                stop_event=stop,
                recursive=is_recursive,
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                for _, path in changes:
                    self._mark_active(folders, path)
        except (OSError, RuntimeError):
            self.is_watching = False  # the system has no watches left, or cannot watch this file system
            self._changed.set()

    def _mark_active(self, folders: Mapping[str, set[str]], path: str) -> None:
        until = time.monotonic() + ACTIVE_SECONDS
        with self._lock:
            for folder, addresses in folders.items():
                if path == folder or path.startswith(folder + os.sep):
                    self._active_until.update(dict.fromkeys(addresses, until))
        self._changed.set()

    def wait_for_change(self, seconds: float) -> None:
        """Return when something changed, when `wake` was called, or after this time."""
        self._changed.wait(seconds)
        self._changed.clear()

    def wake(self) -> None:
        """End `wait_for_change` in another thread."""
        self._changed.set()

    def active_addresses(self) -> set[str]:
        """Return the stores in which something changed in the last seconds."""
        now = time.monotonic()
        with self._lock:
            self._active_until = {address: until for address, until in self._active_until.items() if until > now}
            return set(self._active_until)

    def close(self) -> None:
        self._stop.set()
        self.is_watching = False
