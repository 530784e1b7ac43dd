"""Reads a large foreign store in a process of its own: understood on one core while it is written on the other.

And a file that brings SQLite down takes only that process with it.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from store import sources
from store.deriving import derive
from store.errors import Busy, StoreError, Unreadable
from store.sources.reading import BROKEN
from store.sources.shape import Batch, ForeignFact, ForeignFile, ForeignSecret, Opened, Problem, Ref, Source, Unhurried

LARGE = 16 * 1024 * 1024
"""Bytes of a file below which a process of its own would cost more than it brings."""

PATIENCE = 5.0
"""Seconds for a reader to notice that nobody listens any more, and to tidy up."""

AHEAD = 16 * 1024 * 1024
"""Bytes that may wait to be taken: enough to go on reading while the writer indexes and commits."""

_SERVE = "import sys; from store.ahead import serve; serve(int(sys.argv[1]))"

READY, REFS, BATCH, END, FAILED, KNOWN, BROKE = "ready", "refs", "batch", "end", "failed", "known", "broke"


def opening(source: Source, address: str, *, new: bool) -> AbstractContextManager[Opened]:
    """The foreign store, read here or ahead, whichever is quicker; new, when the store has nothing of it yet."""
    return _ahead(source, address) if _is_large(Path(address), new) else source.open(address)


def scan(opened: Opened, *, stamped: bool) -> Iterator[Ref]:
    """What there is; without stamps when nothing is known to compare them with."""
    if isinstance(opened, Ahead):
        return opened.ask(stamped)
    return opened.scan_unstamped() if isinstance(opened, Unhurried) and not stamped else opened.scan()


def _is_large(path: Path, new: bool) -> bool:
    """A transcript, or a folder of them, is gone on with where it was left; all at once it is read but once."""
    try:
        if path.is_dir():
            return new and _holds_much(path)
        return path.stat().st_size >= LARGE and (new or path.suffix != ".jsonl")
    except (OSError, ValueError):
        return False


def _holds_much(folder: Path) -> bool:
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += (Path(place) / name).stat().st_size
        if size >= LARGE:
            return True
    return False


@contextmanager
def _ahead(source: Source, address: str) -> Iterator[Opened]:
    ours, theirs = Pipe(duplex=True)
    with theirs:
        process = _reader(theirs)
    try:
        if process and _is_ready(ours):
            # Not among its arguments, which everybody on the machine can read: the address may hold a password.
            ours.send((source.NAME, address))
            yield Ahead(ours)
            return
    finally:
        ours.close()
        if process:
            _end(process)
    # A program that cannot be started a second time, such as one that was frozen into a file, reads by itself.
    with source.open(address) as opened:
        yield opened


def _reader(pipe: Connection) -> subprocess.Popen[bytes] | None:
    """A Python of its own. A fork would take the locks of the browser's threads along, held for ever; and Python's own
    way to spawn one asks for an error stream, which an application that has taken the terminal does not give."""
    quiet = subprocess.DEVNULL
    argv = [sys.executable, "-P", "-c", _SERVE, str(pipe.fileno())]
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


def _is_ready(pipe: Connection) -> bool:
    try:
        return bool(pipe.recv() == READY)
    except EOFError:
        return False


class Ahead:
    """A foreign store on the other side of a pipe, which is never full of more than a batch or two."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._known: tuple[list[ForeignFact], list[ForeignSecret], list[ForeignFile]] | None = None
        self.problems: list[Problem] = []

    def ask(self, stamped: bool) -> Iterator[Ref]:
        self._pipe.send(stamped)
        yield from self._expect(REFS)

    def scan(self) -> Iterator[Ref]:
        return self.ask(stamped=True)

    def prepare(self, refs: Iterable[tuple[Ref, bool]]) -> None:
        """What will be read, in order; True where the store has nothing of it, so that rows can be made ready."""
        self._pipe.send(list(refs))

    def read(self, ref: Ref) -> Iterator[Batch]:
        while True:
            what, told = self._receive()
            if what == END:
                return
            if what == FAILED:
                raise Unreadable(told)
            yield told

    def facts(self) -> Iterable[ForeignFact]:
        return self._rest()[0]

    def secrets(self) -> Iterable[ForeignSecret]:
        return self._rest()[1]

    def published(self) -> Iterable[ForeignFile]:
        return self._rest()[2]

    def _rest(self) -> tuple[list[ForeignFact], list[ForeignSecret], list[ForeignFile]]:
        if self._known is None:
            *known, self.problems = self._expect(KNOWN)
            self._known = (known[0], known[1], known[2])
        return self._known

    def _expect(self, wanted: str) -> Any:
        what, told = self._receive()
        if what != wanted:
            raise Unreadable("The reader said something unexpected.")
        return told

    def _receive(self) -> tuple[str, Any]:
        try:
            what, told = self._pipe.recv()
        except (EOFError, OSError):
            raise Unreadable("The file brought its reader down; it may be damaged.") from None
        if what == BROKE:
            sentence, busy = told
            raise Busy(sentence) if busy else Unreadable(sentence)
        return what, told


# ── the other side ────────────────────────────────────────────────────────────────────────────────


class _Sender:
    """Sends from a thread, so that reading goes on while the writer is busy with what it has."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._waiting: deque[memoryview] = deque()
        self._held = 0
        self._is_over = self._failed = False
        self._moved = threading.Condition()
        self._thread = threading.Thread(target=self._send_all, daemon=True)
        self._thread.start()

    def send(self, what: str, told: Any) -> None:
        data = ForkingPickler.dumps((what, told))
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


def serve(handle: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What was sent is freed as it goes; to look for what goes in circles takes a fifth of the time and finds nothing.
    gc.disable()
    pipe = Connection(handle)
    pipe.send(READY)
    try:
        name, address = pipe.recv()
    except EOFError:
        return  # nobody waits any more
    source = sources.by_name(name)
    if source is None:
        return
    sender = _Sender(pipe)
    try:
        with source.open(address) as opened:
            sender.send(REFS, list(scan(opened, stamped=pipe.recv())))
            for ref, fresh in pipe.recv():
                _send_session(sender, opened, ref, fresh)
            known = (list(opened.facts()), list(opened.secrets()), list(opened.published()))
            sender.send(KNOWN, (*known, opened.problems))
    except (StoreError, *BROKEN) as reason:
        sender.send(BROKE, (str(reason), isinstance(reason, Busy)))
    except (EOFError, BrokenPipeError):
        pass  # nobody waits any more
    sender.finish()


def _send_session(sender: _Sender, opened: Opened, ref: Ref, fresh: bool) -> None:
    try:
        for batch in opened.read(ref):
            if fresh:
                batch.rows, batch.entries = derive(batch.entries), []
            sender.send(BATCH, batch)
    except (StoreError, *BROKEN) as reason:
        sender.send(FAILED, str(reason))
    else:
        sender.send(END, None)
