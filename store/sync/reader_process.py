"""Reads a large foreign store in a process of its own: understood on one core while it is written on the other.

And a file that brings SQLite down takes only that process with it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from store import sources
from store.conversations.derive import derive_rows
from store.conversations.record_blocks import BLOCK_BYTES, BlockBuilder
from store.errors import Busy, StoreError, Unreadable
from store.sources.contract import (
    Batch,
    ForeignFact,
    ForeignFile,
    ForeignSecret,
    Problem,
    SessionRef,
    Source,
    SourceReader,
    SupportsUnstampedScan,
)
from store.sources.kit.sqlite import SQLITE_ERRORS
from store.sync.child_process import ThreadedSender, is_large, start_process, wait_until_ready

REFS, SESSION_BEGIN, BATCH, SESSION_END, SESSION_FAILED, KNOWLEDGE, STORE_FAILED = (
    "refs",
    "begin",
    "batch",
    "end",
    "failed",
    "known",
    "broke",
)


def open_reader(
    source: Source, address: str, reader: Connection | None, *, is_first_import: bool
) -> AbstractContextManager[SourceReader | ProcessReader]:
    """The foreign store, read here or ahead, whichever is quicker; new, when the store has nothing of it yet. By the
    process that has looked at it, where there is one."""
    if reader is not None:
        return nullcontext(ProcessReader(reader))
    return _open_process_reader(source, address) if is_large(Path(address), is_first_import) else source.open(address)


def start_scan(pipe: Connection) -> None:
    """Asks for what there is, with stamps; `Ahead` will meet the answer."""
    with suppress(OSError):  # who expects the answer will be told
        pipe.send(True)


def scan_refs(opened: SourceReader | ProcessReader, *, stamped: bool) -> Iterator[SessionRef]:
    """What there is; without stamps when nothing is known to compare them with."""
    if isinstance(opened, ProcessReader):
        return opened.read_refs(stamped)
    return opened.scan_unstamped() if isinstance(opened, SupportsUnstampedScan) and not stamped else opened.scan()


@contextmanager
def _open_process_reader(source: Source, address: str) -> Iterator[SourceReader | ProcessReader]:
    with start_process("reader_process") as pipe:
        if pipe is not None and wait_until_ready(pipe):
            # Not among its arguments, which everybody on the machine can read: the address may hold a password.
            pipe.send((source.NAME, address))
            yield ProcessReader(pipe, is_requested=False)
            return
    # A program that cannot be started a second time, such as one that was frozen into a file, reads by itself.
    with source.open(address) as opened:
        yield opened


class ProcessReader:
    """A foreign store on the other side of a pipe, which is never full of more than a batch or two."""

    def __init__(self, pipe: Connection, *, is_requested: bool = True) -> None:
        self._pipe = pipe
        self._is_requested = is_requested
        self._received: deque[tuple[str, Any]] = deque()
        self._requested_count = 0
        self._knowledge: tuple[list[ForeignFact], list[ForeignSecret], list[ForeignFile]] | None = None
        self.problems: list[Problem] = []

    @property
    def has_buffered(self) -> bool:
        """Of what belongs together and came together: none of it may be kept without the rest."""
        return bool(self._received)

    def read_refs(self, stamped: bool) -> Iterator[SessionRef]:
        if not self._is_requested:
            self._pipe.send(stamped)
        yield from self._expect(REFS)

    def scan(self) -> Iterator[SessionRef]:
        return self.read_refs(stamped=True)

    def request_sessions(self, refs: Iterable[tuple[SessionRef, bool]]) -> None:
        """What will be read, in order; True where the store has nothing of it, so that rows can be made ready."""
        told = {ref.native_id: (ref, fresh) for ref, fresh in refs}
        self._requested_count = len(told)
        self._pipe.send(told)

    def prioritize(self, native_id: str) -> None:
        """That one before the others, if it was not read yet."""
        with suppress(BrokenPipeError):  # all was read, and waits to be taken
            self._pipe.send(native_id)

    def read_sessions(self) -> Iterator[tuple[SessionRef, Iterator[Batch]]]:
        """Those that were prepared, as they come."""
        for _ in range(self._requested_count):
            ref = self._expect(SESSION_BEGIN)
            batches = self._read_batches()
            yield ref, batches
            with suppress(Unreadable):
                for _ in batches:
                    pass  # whoever took it had enough of it

    def _read_batches(self) -> Iterator[Batch]:
        while True:
            what, told = self._receive()
            if what == SESSION_END:
                return
            if what == SESSION_FAILED:
                raise Unreadable(told)
            yield told

    def facts(self) -> Iterable[ForeignFact]:
        return self._read_knowledge()[0]

    def secrets(self) -> Iterable[ForeignSecret]:
        return self._read_knowledge()[1]

    def published(self) -> Iterable[ForeignFile]:
        return self._read_knowledge()[2]

    def _read_knowledge(self) -> tuple[list[ForeignFact], list[ForeignSecret], list[ForeignFile]]:
        if self._knowledge is None:
            *known, self.problems = self._expect(KNOWLEDGE)
            self._knowledge = (known[0], known[1], known[2])
        return self._knowledge

    def _expect(self, wanted: str) -> Any:
        what, told = self._receive()
        if what != wanted:
            raise Unreadable("The reader said something unexpected.")
        return told

    def _receive(self) -> tuple[str, Any]:
        try:
            if not self._received:
                self._received.extend(self._pipe.recv())
        except (EOFError, OSError):
            raise Unreadable("The file brought its reader down; it may be damaged.") from None
        what, told = self._received.popleft()
        if what == STORE_FAILED:
            sentence, busy = told
            raise Busy(sentence) if busy else Unreadable(sentence)
        return what, told


# ── the other side ────────────────────────────────────────────────────────────────────────────────


def serve(pipe: Connection) -> None:
    sender = ThreadedSender(pipe)
    with suppress(EOFError, BrokenPipeError):  # nobody waits any more
        name, address = pipe.recv()
        serve_store(pipe, sender, name, address)
    sender.finish()


def serve_store(pipe: Connection, sender: ThreadedSender, name: str, address: str) -> None:
    """When somebody asks."""
    source = sources.load_source(name)
    stamped = pipe.recv()
    if source is None:
        return
    telling = _BatchSender(sender)
    # One that is damaged may bring its reader down; what was told before that is kept.
    many = os.path.isdir(address)
    try:
        with source.open(address) as opened:
            sender.send((REFS, list(scan_refs(opened, stamped=stamped))))
            for ref, fresh, hurried in iter_prioritized(pipe, pipe.recv()):
                telling.send_session(opened, ref, fresh)
                if hurried or not many:
                    telling.flush()
            known = (list(opened.facts()), list(opened.secrets()), list(opened.published()))
            telling.add(KNOWLEDGE, (*known, opened.problems))
    except (StoreError, *SQLITE_ERRORS) as reason:
        telling.add(STORE_FAILED, (str(reason), isinstance(reason, Busy)))
    telling.flush()


def iter_prioritized(
    pipe: Connection, waiting: dict[str, tuple[SessionRef, bool]]
) -> Iterator[tuple[SessionRef, bool, bool]]:
    """In their order, but for those that somebody asks for meanwhile: of those, True."""
    while waiting:
        while pipe.poll():
            if (asked := waiting.pop(pipe.recv(), None)) is not None:
                yield *asked, True
        if waiting:
            yield *waiting.pop(next(iter(waiting))), False


class _BatchSender:
    """Sends what belongs together, records in a block of their own: several small sessions, or a piece of a large."""

    def __init__(self, sender: ThreadedSender) -> None:
        self._sender = sender
        self._block_builder = BlockBuilder()
        self._messages: list[tuple[str, Any]] = []
        self._unblocked_bytes = 0
        "Of records that are in no block."

    def send_session(self, opened: SourceReader, ref: SessionRef, fresh: bool) -> None:
        self.add(SESSION_BEGIN, ref)
        try:
            for batch in opened.read(ref):
                if fresh:
                    batch.derived_rows, batch.entries = self._block_builder.add(derive_rows(batch.entries)), []
                else:
                    self._unblocked_bytes += sum(len(entry.record.data) for entry in batch.entries if entry.record)
                self.add(BATCH, batch)
        except (StoreError, *SQLITE_ERRORS) as reason:
            self.add(SESSION_FAILED, str(reason))
        else:
            self.add(SESSION_END, None)

    def add(self, what: str, told: Any) -> None:
        self._messages.append((what, told))
        if self._block_builder.size + self._unblocked_bytes >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        self._block_builder.finish_block()
        self._sender.send(*self._messages)
        self._messages, self._unblocked_bytes = [], 0
