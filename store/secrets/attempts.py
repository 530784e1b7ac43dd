"""This module delays repeated attempts at a passphrase, also across processes."""

from __future__ import annotations

import time
from contextlib import suppress
from math import ceil
from pathlib import Path

from store import paths
from store.errors import BadValue
from store.text.validate import decode, encode

MAX_DELAY_SECONDS = 60.0
"""Limits the delay between two attempts at a passphrase."""

FREE_ATTEMPTS = 3
"""Counts the wrong passphrases of the command line that cause no delay, because anyone mistypes."""


def delay_after(failures: int) -> float:
    """Return the seconds until the next attempt. They double with every wrong passphrase."""
    return min(2.0 ** (failures - 1), MAX_DELAY_SECONDS) if failures > 0 else 0.0


class AttemptLog:
    """Counts the wrong passphrases for a store in a file, because each command is a process of its own.

    The delay slows down someone at the keyboard. It does not protect a copied store; the slow key derivation does that.
    """

    def __init__(self, store: Path) -> None:
        self._store = str(store)
        self._file = paths.attempts_file()

    def seconds_left(self) -> int:
        """Return how long to wait until the next attempt. A clock that was set back cannot make it longer."""
        failures, failed_at = self._read().get(self._store, (0, 0.0))
        delay = delay_after(failures - FREE_ATTEMPTS)
        return ceil(min(max(failed_at + delay - time.time(), 0.0), delay))

    def add_failure(self) -> None:
        log = self._read()
        log[self._store] = (log.get(self._store, (0, 0.0))[0] + 1, time.time())
        self._write(log)

    def reset(self) -> None:
        log = self._read()
        if log.pop(self._store, None):
            self._write(log)

    def _read(self) -> dict[str, tuple[int, float]]:
        """Return the number of failures and the time of the last one, by store. A damaged file counts as empty."""
        try:
            log = decode(paths.read_small_file(self._file))
            return {str(store): (int(failures), float(failed_at)) for store, (failures, failed_at) in log.items()}
        except (OSError, BadValue, AttributeError, TypeError, ValueError):
            return {}

    def _write(self, log: dict[str, tuple[int, float]]) -> None:
        with suppress(OSError):  # without the file, there is no delay
            paths.replace_private_file(self._file, encode({store: list(entry) for store, entry in log.items()}))
