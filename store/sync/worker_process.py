"""Starts the worker process, and exchanges messages with it. See `store.sync.worker` for the protocol.

Only the standard library is loaded here, because the browser of a new store starts the worker before anything else.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

MAX_RESTARTS = 3
RESTART_PERIOD_SECONDS = 60.0
"""A worker that stops is started again at most three times a minute."""

EXIT_TIMEOUT_SECONDS = 5.0

NOTICE_SECONDS = 0.25
"""The worker is told at most so often that a person is typing, or pressing keys."""

Message = Mapping[str, Any]


class WorkerProcess:
    """The browser's side of one worker, which is started again when it stops."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._messages: SimpleQueue[Message | None] = SimpleQueue()
        self._early_messages: deque[Message | None] = deque()
        "Holds what came during `wait_for_rows`, for `messages`."
        self._starts: list[float] = []
        self._noticed_at = {"typing": float("-inf"), "active": float("-inf")}
        self._is_closed = False
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int | None:
        """Return the process id, or None if no worker runs."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the worker, unless it was started before."""
        if not self._starts:
            self._start()

    def restart(self) -> bool:
        """Start the worker again after it stopped. Returns False if it stopped too often."""
        now = time.monotonic()
        self._starts = [start for start in self._starts if now - start < RESTART_PERIOD_SECONDS]
        if self._is_closed or len(self._starts) > MAX_RESTARTS:
            return False
        self._start()
        return self._process is not None

    def read_next(self, native_id: str) -> None:
        """Ask the worker to read this session before the others."""
        self._send({"read": native_id})

    def give_way(self, *, is_typing: bool) -> None:
        """Ask the worker to rest for a moment, because a person is typing a search, or pressing other keys."""
        now, notice = time.monotonic(), "typing" if is_typing else "active"
        if now >= self._noticed_at[notice] + NOTICE_SECONDS:
            self._noticed_at[notice] = now
            self._send({notice: True})

    def wait_for_rows(self, seconds: float) -> None:
        """Wait until the worker has created the store and put the first sessions into it. Keeps other messages."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                message = self._messages.get(timeout=left)
            except Empty:
                return
            self._early_messages.append(message)
            if message is None or message["event"] != "ready":
                return

    def messages(self) -> Iterator[Message | None]:
        """Yield the worker's messages as they come, and None each time a worker stops, until `close`."""
        while not self._is_closed:
            message = self._early_messages.popleft() if self._early_messages else self._messages.get()
            if self._is_closed:
                return
            yield message

    def close(self) -> None:
        """End the worker by closing its stdin."""
        self._is_closed = True
        self._messages.put(None)
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            if process.stdin:
                process.stdin.close()
        try:
            process.wait(EXIT_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self) -> None:
        self._starts.append(time.monotonic())
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "store.sync.worker", str(self._path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            )
        except OSError:
            self._process = None
            self._messages.put(None)
            return
        self._process = process
        Thread(target=self._receive, args=(process,), daemon=True).start()

    def _receive(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            with suppress(ValueError):
                message = json.loads(line)
                if isinstance(message, dict) and "event" in message:
                    self._messages.put(message)
        process.wait()
        self._messages.put(None)

    def _send(self, message: Message) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        with suppress(OSError, ValueError):  # the worker has stopped; `messages` reports it
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
