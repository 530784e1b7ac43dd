"""A second process of this program on the other side of a pipe, so that work goes on here, too."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import ForkingPickler
from typing import Any

PATIENCE = 5.0
"""Seconds for it to notice that nobody listens any more, and to tidy up."""

AHEAD = 4 * 1024 * 1024
"""Bytes that may wait to be taken: enough to go on while the other side indexes and commits."""

READY = "ready"
_PROTOCOL = 5
"""Which has a word of its own for the bytearrays that rows are full of."""

_BEGIN = "import sys; from store.second import begin; begin(sys.argv[1], int(sys.argv[2]))"


@contextmanager
def second(module: str) -> Iterator[Connection | None]:
    """One in which that module's `serve` has the other end; None where none can be started. It may not have begun."""
    ours, theirs = Pipe(duplex=True)
    with theirs:
        process = _start(module, theirs)
    try:
        yield ours if process else None
    finally:
        ours.close()
        if process:
            _end(process)


def _start(module: str, pipe: Connection) -> subprocess.Popen[bytes] | None:
    """A Python of its own. A fork would take the locks of the browser's threads along, held for ever; and Python's own
    way to spawn one asks for an error stream, which an application that has taken the terminal does not give."""
    quiet = subprocess.DEVNULL
    argv = [sys.executable, "-P", "-c", _BEGIN, module, str(pipe.fileno())]
    try:
        return subprocess.Popen(argv, pass_fds=[pipe.fileno()], stdin=quiet, stdout=quiet, stderr=quiet)
    except OSError:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def has_begun(pipe: Connection) -> bool:
    """Waits for it, once. False where what was started is not this program in a Python of its own."""
    try:
        return bool(pipe.recv() == READY)
    except (EOFError, OSError):
        return False


# ── the other side ────────────────────────────────────────────────────────────────────────────────


def begin(module: str, handle: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What was sent is freed as it goes; to look for what goes in circles takes a fifth of the time and finds nothing.
    gc.disable()
    pipe = Connection(handle)
    pipe.send(READY)
    import_module(f"store.{module}").serve(pipe)


class Sender:
    """Sends from a thread, so that reading goes on while the writer is busy with what it has."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._waiting: deque[memoryview] = deque()
        self._held = 0
        self._is_over = self._failed = False
        self._moved = threading.Condition()
        self._thread = threading.Thread(target=self._send_all, daemon=True)
        self._thread.start()

    def send(self, *told: tuple[str, Any]) -> None:
        """Together, since each that goes by itself has its own price."""
        data = ForkingPickler.dumps(told, _PROTOCOL)
        with self._moved:
            self._moved.wait_for(lambda: self._held < AHEAD or self._failed)
            if self._failed:
                raise BrokenPipeError
            self._held += len(data)
            self._waiting.append(data)
            self._moved.notify()

    def finish(self) -> None:
        with self._moved:
            self._is_over = True
            self._moved.notify()
        self._thread.join()

    def _send_all(self) -> None:
        while (data := self._next()) is not None:
            try:
                self._pipe.send_bytes(data)
            except OSError:
                self._failed = True  # nobody waits any more
            with self._moved:
                self._held -= len(data)
                self._moved.notify()

    def _next(self) -> memoryview | None:
        with self._moved:
            self._moved.wait_for(lambda: self._waiting or self._is_over)
            return self._waiting.popleft() if self._waiting and not self._failed else None
