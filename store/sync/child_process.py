"""Starts further Python processes of this program, and talks to them over pipes.

A large foreign store is read in such a process, so that reading and writing use two processor cores.

The processes for a new store are forked, if the system is Linux and this process has one thread: they have loaded what
they need before they begin, which takes another process as long as finding every word of a hundred megabytes. All other
processes are started from their program file. A fork inherits locks and open files, and a forked thread may hold them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection, Pipe
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from store.sync.tuning import tune_reader_process

LARGE_BYTES = 16 * 1024 * 1024
"""A foreign store of at least this size is read in a process of its own. A smaller one is read faster here."""

FIRST_IMPORT_READERS = 2
"""Counts the processes that are started before a new store is created: one for each core that a machine surely has."""

Job = tuple[str, str, Set[str] | None]
"""Names what a reader process reads first: the source, the address, and which sessions a quick read skips. With None
there is no quick read."""

EXIT_TIMEOUT_SECONDS = 5.0
"""A child process that does not end within this time after its pipe was closed is killed."""

MAX_QUEUED_BYTES = 3 * 1024 * 1024
"""A child sends at most this much ahead: enough to keep reading while the parent indexes and commits."""

READY = "ready"
_PICKLE_PROTOCOL = 5
"""This version encodes bytearrays, which rows are full of, without a copy."""

_STARTUP_CODE = "import sys; from store.sync.child_process import run_child; run_child(int(sys.argv[1]))"


def is_large(path: Path, is_first_import: bool) -> bool:
    """Return whether a foreign store is worth a process of its own.

    A folder of transcripts is, only on its first import: later imports read what was appended.
    """
    try:
        if path.is_dir():
            return is_first_import and _is_large_folder(path)
        return path.stat().st_size >= LARGE_BYTES and (is_first_import or path.suffix != ".jsonl")
    except (OSError, ValueError):
        return False


def _is_large_folder(folder: Path) -> bool:
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += (Path(parent) / name).stat().st_size
        if size >= LARGE_BYTES:
            return True
    return False


class ReaderProcesses(ExitStack):
    """Starts child processes, and stops all of them when the work is done. Then it can be used again."""

    def __init__(self) -> None:
        super().__init__()
        self._idle: deque[Connection | None] = deque()
        self._busy: dict[tuple[str, str], Connection] = {}

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Start the processes that a first import needs, with these jobs. They work while this process does something
        else. No file that must not be inherited may be open."""
        pipes: list[Connection] = []
        for job in [*jobs[:FIRST_IMPORT_READERS], *[None] * (FIRST_IMPORT_READERS - len(jobs))]:
            pipe = self.enter_context(start_process(forked_from=pipes))
            if pipe is None:
                continue
            pipes.append(pipe)
            if job is None:
                self._idle.append(pipe)
            elif send_job(pipe, job):
                self._busy[job[:2]] = pipe

    def take(self, source: str, address: str) -> Connection | None:
        """Return our end of the pipe of a process that was prepared to read this store, or None if there is none."""
        return self._busy.pop((source, address), None)

    def start(self) -> Connection | None:
        """Start one process, and return our end of its pipe, or None if no process can be started."""
        return self._idle.popleft() if self._idle else self.enter_context(start_process())

    def __exit__(self, *error: Any) -> bool:
        self._idle.clear()
        self._busy.clear()
        return bool(super().__exit__(*error))


@contextmanager
def start_process(forked_from: Sequence[Connection] | None = None) -> Iterator[Connection | None]:
    """Run `store.sync.quick_index.serve` in a new process, and yield our end of its pipe.

    Yields None if no process can be started. The process may still be loading: see `wait_until_ready`. With a list of
    pipes it may be forked; it closes these pipes, which belong to the processes forked before.
    """
    ours, theirs = Pipe(duplex=True)
    with theirs:
        may_fork = forked_from is not None and _can_fork()
        process = _fork(theirs, [ours, *(forked_from or ())]) if may_fork else _spawn(theirs)
    try:
        yield ours if process else None
    finally:
        ours.close()
        if process:
            _stop(process)


def _can_fork() -> bool:
    try:
        return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def _fork(pipe: Connection, inherited: Sequence[Connection]) -> BaseProcess:
    process = get_context("fork").Process(target=_serve_forked, args=(pipe, inherited), daemon=True)
    process.start()
    return process


def _spawn(pipe: Connection) -> subprocess.Popen[bytes] | None:
    """Start Python with our pipe. `multiprocessing` cannot do that in a terminal application, because it needs an
    error stream with a file number."""
    devnull = subprocess.DEVNULL
    argv = [sys.executable, "-P", "-c", _STARTUP_CODE, str(pipe.fileno())]
    try:
        return subprocess.Popen(argv, pass_fds=[pipe.fileno()], stdin=devnull, stdout=devnull, stderr=devnull)
    except OSError:
        return None


def _stop(process: subprocess.Popen[bytes] | BaseProcess) -> None:
    if isinstance(process, subprocess.Popen):
        try:
            process.wait(EXIT_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    else:
        process.join(EXIT_TIMEOUT_SECONDS)
        process.kill()
        process.join()


def send_job(pipe: Connection, job: Job) -> bool:
    """Send a job to a child, and return whether the child took it."""
    try:
        pipe.send(job)
    except OSError:
        return False
    return True


def wait_until_ready(pipe: Connection) -> bool:
    """Wait until a child has loaded. Returns False if what was started is not this program. Call it once."""
    try:
        return bool(pipe.recv() == READY)
    except (EOFError, OSError):
        return False


# ── in the child process ──────────────────────────────────────────────────────────────────────────


def run_child(handle: int) -> None:
    """Serve the process at the other end of the pipe that has this file number."""
    _serve(Connection(handle))


def _serve_forked(pipe: Connection, inherited: Sequence[Connection]) -> None:
    """Serve the parent after a fork. The other pipes are closed, so that each process notices when the parent ends."""
    for other in inherited:
        other.close()
    devnull = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(devnull, number)
    os.close(devnull)
    _serve(pipe)


def _serve(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tune_reader_process()
    quick_index = import_module("store.sync.quick_index")
    pipe.send(READY)
    quick_index.serve(pipe)


class ThreadedSender:
    """Sends messages from a thread, so that reading continues while the parent is busy."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._queue: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._is_finished = self._has_failed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._send_all, daemon=True)
        self._thread.start()

    def send(self, *messages: tuple[str, Any]) -> None:
        """Queue several messages as one, because each one that is sent alone has a cost of its own."""
        data = ForkingPickler.dumps(messages, _PICKLE_PROTOCOL)
        with self._changed:
            self._changed.wait_for(lambda: self._queued_bytes < MAX_QUEUED_BYTES or self._has_failed)
            if self._has_failed:
                raise BrokenPipeError
            self._queued_bytes += len(data)
            self._queue.append(data)
            self._changed.notify()

    def finish(self) -> None:
        """Wait until everything is sent."""
        with self._changed:
            self._is_finished = True
            self._changed.notify()
        self._thread.join()

    def _send_all(self) -> None:
        while (data := self._next()) is not None:
            try:
                self._pipe.send_bytes(data)
            except OSError:
                self._has_failed = True  # the parent has closed the pipe
            with self._changed:
                self._queued_bytes -= len(data)
                self._changed.notify()

    def _next(self) -> memoryview | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_finished)
            return self._queue.popleft() if self._queue and not self._has_failed else None
