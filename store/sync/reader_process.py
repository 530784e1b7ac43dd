"""Reads a large foreign store in a process of its own, so that one core reads while the other one writes.

A damaged file that crashes SQLite ends only that process.
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
    source: Source, address: str, pipe: Connection | None, *, is_first_import: bool
) -> AbstractContextManager[SourceReader | ProcessReader]:
    """Open a foreign store, and read it in a process of its own if that is faster.

    A process that already did the quick read is used again. On a first import the store has none of its sessions.
    """
    if pipe is not None:
        return nullcontext(ProcessReader(pipe))
    return _open_process_reader(source, address) if is_large(Path(address), is_first_import) else source.open(address)


def start_scan(pipe: Connection) -> None:
    """Ask the process for all sessions with stamps. `ProcessReader` receives the answer."""
    with suppress(OSError):  # receiving the answer will report it
        pipe.send(True)


def scan_refs(reader: SourceReader | ProcessReader, *, stamped: bool) -> Iterator[SessionRef]:
    """Return all sessions, without stamps if there is nothing to compare them with."""
    if isinstance(reader, ProcessReader):
        return reader.read_refs(stamped)
    return reader.scan() if stamped else reader.scan_unstamped()


@contextmanager
def _open_process_reader(source: Source, address: str) -> Iterator[SourceReader | ProcessReader]:
    with start_process("reader_process") as pipe:
        if pipe is not None and wait_until_ready(pipe):
            # The address may hold a password, so it is not an argument of the process, which every user can see.
            pipe.send((source.name, address))
            yield ProcessReader(pipe, is_requested=False)
            return
    # A program that cannot be started a second time, such as one that is frozen into a file, reads the store here.
    with source.open(address) as reader:
        yield reader


class ProcessReader:
    """Reads a foreign store over a pipe from another process. The pipe never holds more than a batch or two."""

    def __init__(self, pipe: Connection, *, is_requested: bool = True) -> None:
        self._pipe = pipe
        self._is_requested = is_requested
        self._received: deque[tuple[str, Any]] = deque()
        self._requested_count = 0
        self._knowledge: tuple[list[ForeignFact], list[ForeignSecret], list[ForeignFile]] | None = None
        self.problems: list[Problem] = []

    @property
    def has_buffered(self) -> bool:
        """Return whether the rest of a message is not read yet.

        The records of one message may share a block, so that they are committed together.
        """
        return bool(self._received)

    def read_refs(self, stamped: bool) -> Iterator[SessionRef]:
        if not self._is_requested:
            self._pipe.send(stamped)
        yield from self._expect(REFS)

    def scan(self) -> Iterator[SessionRef]:
        return self.read_refs(stamped=True)

    def request_sessions(self, refs: Iterable[tuple[SessionRef, bool]]) -> None:
        """Ask for these sessions in this order.

        Each comes with whether the store has no entry of it. Then the process derives the rows as well.
        """
        sessions = {ref.native_id: (ref, is_new) for ref, is_new in refs}
        self._requested_count = len(sessions)
        self._pipe.send(sessions)

    def prioritize(self, native_id: str) -> None:
        """Ask for a session before the others, unless it was read already."""
        with suppress(BrokenPipeError):  # the process has read everything and ended
            self._pipe.send(native_id)

    def read_sessions(self) -> Iterator[tuple[SessionRef, Iterator[Batch]]]:
        """Yield the requested sessions with their batches, in the order in which they arrive."""
        for _ in range(self._requested_count):
            ref = self._expect(SESSION_BEGIN)
            batches = self._read_batches()
            yield ref, batches
            with suppress(Unreadable):
                for _ in batches:
                    pass  # skip the batches that the caller did not take

    def _read_batches(self) -> Iterator[Batch]:
        while True:
            kind, value = self._receive()
            if kind == SESSION_END:
                return
            if kind == SESSION_FAILED:
                raise Unreadable(value)
            yield value

    def facts(self) -> Iterable[ForeignFact]:
        return self._read_knowledge()[0]

    def secrets(self) -> Iterable[ForeignSecret]:
        return self._read_knowledge()[1]

    def published(self) -> Iterable[ForeignFile]:
        return self._read_knowledge()[2]

    def _read_knowledge(self) -> tuple[list[ForeignFact], list[ForeignSecret], list[ForeignFile]]:
        if self._knowledge is None:
            *lists, self.problems = self._expect(KNOWLEDGE)
            self._knowledge = (lists[0], lists[1], lists[2])
        return self._knowledge

    def _expect(self, expected: str) -> Any:
        kind, value = self._receive()
        if kind != expected:
            raise Unreadable("The reader process sent an unexpected message. Run the sync again.")
        return value

    def _receive(self) -> tuple[str, Any]:
        try:
            if not self._received:
                self._received.extend(self._pipe.recv())
        except (EOFError, OSError):
            raise Unreadable("The reader process crashed. The file may be damaged.") from None
        kind, value = self._received.popleft()
        if kind == STORE_FAILED:
            reason, is_busy = value
            raise Busy(reason) if is_busy else Unreadable(reason)
        return kind, value


# ── in the child process ──────────────────────────────────────────────────────────────────────────


def serve(pipe: Connection) -> None:
    """Read the store that the parent names."""
    sender = ThreadedSender(pipe)
    with suppress(EOFError, BrokenPipeError):  # the parent has closed the pipe
        name, address = pipe.recv()
        serve_store(pipe, sender, name, address)
    sender.finish()


def serve_store(pipe: Connection, sender: ThreadedSender, name: str, address: str) -> None:
    """Wait for the request to scan, then send the sessions of a foreign store that are requested."""
    source = sources.load_source(name)
    stamped = pipe.recv()
    if source is None:
        return
    batch_sender = _BatchSender(sender)
    # A damaged database may crash this process, so each of its sessions is sent as soon as it is read.
    is_folder = os.path.isdir(address)
    try:
        with source.open(address) as reader:
            sender.send((REFS, list(scan_refs(reader, stamped=stamped))))
            for ref, is_new, is_prioritized in iter_prioritized(pipe, pipe.recv()):
                batch_sender.send_session(reader, ref, is_new)
                if is_prioritized or not is_folder:
                    batch_sender.flush()
            knowledge = (list(reader.facts()), list(reader.secrets()), list(reader.published()))
            batch_sender.add(KNOWLEDGE, (*knowledge, reader.problems))
    except (StoreError, *SQLITE_ERRORS) as reason:
        batch_sender.add(STORE_FAILED, (str(reason), isinstance(reason, Busy)))
    batch_sender.flush()


def iter_prioritized(
    pipe: Connection, waiting: dict[str, tuple[SessionRef, bool]]
) -> Iterator[tuple[SessionRef, bool, bool]]:
    """Yield the sessions in their order, but first those that the parent asks for meanwhile.

    The last value says whether the session was asked for.
    """
    while waiting:
        while pipe.poll():
            if (prioritized := waiting.pop(pipe.recv(), None)) is not None:
                yield *prioritized, True
        if waiting:
            yield *waiting.pop(next(iter(waiting))), False


class _BatchSender:
    """Collects several small sessions, or a piece of a large one, and sends them as one message with one block."""

    def __init__(self, sender: ThreadedSender) -> None:
        self._sender = sender
        self._block_builder = BlockBuilder()
        self._messages: list[tuple[str, Any]] = []
        self._unblocked_bytes = 0
        "Counts the bytes of records that are in no block."

    def send_session(self, reader: SourceReader, ref: SessionRef, is_new: bool) -> None:
        self.add(SESSION_BEGIN, ref)
        try:
            for batch in reader.read(ref):
                if is_new:
                    batch.derived_rows, batch.entries = self._block_builder.add(derive_rows(batch.entries)), []
                else:
                    self._unblocked_bytes += sum(len(entry.record.data) for entry in batch.entries if entry.record)
                self.add(BATCH, batch)
        except (StoreError, *SQLITE_ERRORS) as reason:
            self.add(SESSION_FAILED, str(reason))
        else:
            self.add(SESSION_END, None)

    def add(self, kind: str, value: Any) -> None:
        self._messages.append((kind, value))
        if self._block_builder.size + self._unblocked_bytes >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        self._block_builder.finish_block()
        self._sender.send(*self._messages)
        self._messages, self._unblocked_bytes = [], 0
