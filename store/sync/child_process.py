"""A second process of this program on the other side of a pipe, so that work goes on here, too."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import TYPE_CHECKING, Any

from store.sync.splitting import may_fork

if TYPE_CHECKING:
    from multiprocessing.context import ForkProcess

LARGE_BYTES = 16 * 1024 * 1024
"""Bytes of a file below which a process of its own would cost more than it brings."""

EXIT_TIMEOUT_SECONDS = 5.0
"""Seconds for it to notice that nobody listens any more, and to tidy up."""

MAX_QUEUED_BYTES = 4 * 1024 * 1024
"""Bytes that may wait to be taken: enough to go on while the other side indexes and commits."""

READY = "ready"
_PICKLE_PROTOCOL = 5
"""Which has a word of its own for the bytearrays that rows are full of."""

_STARTUP_CODE = "import sys; from store.sync.child_process import run_child; run_child(sys.argv[1], int(sys.argv[2]))"


def is_large(path: Path, is_first_import: bool) -> bool:
    """A transcript, or a folder of them, is gone on with where it was left; all at once it is read but once."""
    try:
        if path.is_dir():
            return is_first_import and _is_large_folder(path)
        return path.stat().st_size >= LARGE_BYTES and (is_first_import or path.suffix != ".jsonl")
    except (OSError, ValueError):
        return False


def _is_large_folder(folder: Path) -> bool:
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += (Path(place) / name).stat().st_size
        if size >= LARGE_BYTES:
            return True
    return False


class ReaderProcesses(ExitStack):
    """Those of one piece of work, ended with it; some told what to do before anybody can wait for what they say."""

    def __init__(self, module: str, orders: Iterable[Hashable] = ()) -> None:
        super().__init__()
        self._module = module
        self._started: dict[Hashable, Connection] = {}
        for order in orders:
            pipe = self.start(early=True)
            if pipe is not None and send_job(pipe, order):
                self._started[order] = pipe

    def take_started(self, order: Hashable) -> Connection | None:
        """Once: it has but one to listen to it."""
        return self._started.pop(order, None)

    def start(self, *, early: bool = False) -> Connection | None:
        """Not told yet."""
        return self.enter_context(start_process(self._module, early=early))


@contextmanager
def start_process(module: str, *, early: bool = False) -> Iterator[Connection | None]:
    """One in which that module's `serve` has the other end; None where none can be started. It may not have begun.

    Early: nothing is open yet that a fork should not have, too.
    """
    ours, theirs = Pipe(duplex=True)
    with theirs:
        process = _fork(module, theirs) if early and may_fork() else _spawn(module, theirs)
    try:
        yield ours if process else None
    finally:
        ours.close()
        if process:
            _stop(process)


class _ForkedProcess:
    """To be waited for like what was spawned."""

    def __init__(self, process: ForkProcess) -> None:
        self._process = process
        self.kill = process.kill

    def wait(self, seconds: float | None = None) -> None:
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, seconds or 0)


def _fork(module: str, pipe: Connection) -> _ForkedProcess | None:
    import_module(f"store.sync.{module}")  # once for all of them
    process = get_context("fork").Process(target=_run_forked, args=(module, pipe.fileno()), daemon=True)
    try:
        process.start()
    except OSError:
        return None
    return _ForkedProcess(process)


def _run_forked(module: str, handle: int) -> None:
    """With nothing of what the others have: a pipe ends when the last who has it open lets go."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.closerange(3, handle)
    os.closerange(handle + 1, os.sysconf("SC_OPEN_MAX"))
    run_child(module, handle)


def _spawn(module: str, pipe: Connection) -> subprocess.Popen[bytes] | None:
    """A Python of its own. Python's own way to spawn one asks for an error stream, which an application that has taken
    the terminal does not give."""
    quiet = subprocess.DEVNULL
    argv = [sys.executable, "-P", "-c", _STARTUP_CODE, module, str(pipe.fileno())]
    try:
        return subprocess.Popen(argv, pass_fds=[pipe.fileno()], stdin=quiet, stdout=quiet, stderr=quiet)
    except OSError:
        return None


def _stop(process: subprocess.Popen[bytes] | _ForkedProcess) -> None:
    try:
        process.wait(EXIT_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def send_job(pipe: Connection, order: object) -> bool:
    """False where it could not begin."""
    try:
        pipe.send(order)
    except OSError:
        return False
    return True


def wait_until_ready(pipe: Connection) -> bool:
    """Waits for it, once. False where what was started is not this program."""
    try:
        return bool(pipe.recv() == READY)
    except (EOFError, OSError):
        return False


# ── the other side ────────────────────────────────────────────────────────────────────────────────


def run_child(module: str, handle: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What was sent is freed as it goes; to look for what goes in circles takes a fifth of the time and finds nothing.
    gc.disable()
    pipe = Connection(handle)
    pipe.send(READY)
    import_module(f"store.sync.{module}").serve(pipe)


class ThreadedSender:
    """Sends from a thread, so that reading goes on while the writer is busy with what it has."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._queue: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._is_finished = self._failed = False
        self._condition = threading.Condition()
        self._thread = threading.Thread(target=self._send_all, daemon=True)
        self._thread.start()

    def send(self, *told: tuple[str, Any]) -> None:
        """Together, since each that goes by itself has its own price."""
        data = ForkingPickler.dumps(told, _PICKLE_PROTOCOL)
        with self._condition:
            self._condition.wait_for(lambda: self._queued_bytes < MAX_QUEUED_BYTES or self._failed)
            if self._failed:
                raise BrokenPipeError
            self._queued_bytes += len(data)
            self._queue.append(data)
            self._condition.notify()

    def finish(self) -> None:
        with self._condition:
            self._is_finished = True
            self._condition.notify()
        self._thread.join()

    def _send_all(self) -> None:
        while (data := self._next()) is not None:
            try:
                self._pipe.send_bytes(data)
            except OSError:
                self._failed = True  # nobody waits any more
            with self._condition:
                self._queued_bytes -= len(data)
                self._condition.notify()

    def _next(self) -> memoryview | None:
        with self._condition:
            self._condition.wait_for(lambda: self._queue or self._is_finished)
            return self._queue.popleft() if self._queue and not self._failed else None
