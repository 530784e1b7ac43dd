"""This module says how far work is that takes long."""

from __future__ import annotations

import time
from collections.abc import Callable

PROGRESS_SECONDS = 5.0

Notify = Callable[[str], object]


class ProgressNotifier:
    """Passes on a sentence every few seconds, so that short work says nothing."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._notified_at = time.monotonic()

    def report(self, sentence: str) -> None:
        if time.monotonic() - self._notified_at >= PROGRESS_SECONDS:
            self._notified_at = time.monotonic()
            self._notify(sentence)
