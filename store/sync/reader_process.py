"""Reads a large foreign store in a process of its own, so that one core reads while the other one writes.

A damaged file that crashes SQLite ends only that process.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import cycle
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

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
from store.sync.child_process import Job, ThreadedSender, is_large, send_job, start_process, wait_until_ready

REFS, SESSION_BEGIN, BATCH, SESSION_END, SESSION_FAILED, HANDED_OVER, KNOWLEDGE, STORE_FAILED = (
    "refs",
    "begin",
    "batch",
    "end",
    "failed",
    "handed over",
    "known",
    "broke",
)

HAND_OVER = None
"""Asks a process to leave half of its sessions to another one. It answers with their ids."""

MIN_LEFT_TO_SHARE = 16
"""Is how many sessions a process must have left for another one to open the same archive and read half of them."""

ScanMode = Literal["stamped", "unstamped", "files", "none"]
"""Says which sessions a reader lists: all with stamps, all without, one for each file, or none.

With `files` and `none`, the other sessions of a file are found when it is read, so that it is read only once.
"""


def open_reader(
    source: Source,
    address: str,
    pipes: Sequence[Connection],
    *,
    is_first_import: bool,
    idle: deque[Connection] | None = None,
) -> AbstractContextManager[SourceReader | ProcessReader]:
    """Open a foreign store, and read it in processes of its own if that is faster.

    Processes that were already asked to scan are used again. When they have read their part, they are added to the idle
    ones, which help where much is left; without `idle` they end. On a first import the store has none of its sessions.
    """
    if pipes:
        return nullcontext(ProcessReader(pipes, job=(source.name, address, None), idle=idle))
    return _open_process_reader(source, address) if is_large(Path(address), is_first_import) else source.open(address)


def start_scan(pipe: Connection, mode: ScanMode) -> None:
    """Ask the process for the sessions. `ProcessReader` receives the answer."""
    with suppress(OSError):  # receiving the answer will report it
        pipe.send(mode)


def scan_refs(reader: SourceReader | ProcessReader, mode: ScanMode) -> Iterable[SessionRef]:
    if isinstance(reader, ProcessReader):
        return reader.read_refs(mode)
    if mode == "none":
        return ()
    if mode == "files" and (refs := reader.scan_files()) is not None:
        return refs
    return reader.scan() if mode == "stamped" else reader.scan_unstamped()


@contextmanager
def _open_process_reader(source: Source, address: str) -> Iterator[SourceReader | ProcessReader]:
    with start_process() as pipe:
        if pipe is not None and open_store(pipe, source, address):
            yield ProcessReader([pipe], is_requested=False)
            return
    # A program that cannot be started a second time, such as one that is frozen into a file, reads the store here.
    with source.open(address) as reader:
        yield reader


def open_store(pipe: Connection, source: Source, address: str) -> bool:
    """Let a reader process open a store, and return whether the process is there.

    The address may hold a password, so it is not an argument of the process, which every user can see.
    """
    return wait_until_ready(pipe) and send_job(pipe, (source.name, address, None))


class ProcessReader:
    """Reads a foreign store over pipes from other processes. A pipe never holds more than a batch or two.

    The first process lists the sessions. Each process reads some of the files, because a machine has several cores. One
    that has nothing left takes half of what the busiest one has left, also if it has read another archive so far.
    """

    def __init__(
        self,
        pipes: Sequence[Connection],
        *,
        is_requested: bool = True,
        job: Job | None = None,
        idle: deque[Connection] | None = None,
    ) -> None:
        self._pipes = list(pipes)
        self._is_requested = is_requested
        self._job = job
        "Lets another process open the archive."
        self._idle = idle
        "Lead to processes that have nothing to do. Is None if none can help."
        self._helpers: dict[Connection, Connection] = {}
        "Maps a process that was asked to hand sessions over to the one that waits for them."
        self._unread: dict[Connection, dict[str, tuple[SessionRef, bool]]] = {pipe: {} for pipe in pipes}
        "Holds the sessions that were requested from each process and have not come yet."
        self._received: dict[Connection, deque[tuple[str, Any]]] = {pipe: deque() for pipe in pipes}
        self._pipe_by_id: dict[str, Connection] = {}
        self._knowledge: tuple[list[ForeignFact], list[ForeignSecret], list[ForeignFile]] = ([], [], [])
        self.problems: list[Problem] = []

    @property
    def has_buffered(self) -> bool:
        """Return whether the rest of a message is not read yet.

        The records of one message may share a block, so that they are committed together.
        """
        return any(self._received.values())

    def read_refs(self, mode: ScanMode) -> Iterator[SessionRef]:
        if not self._is_requested:
            self._pipes[0].send(mode)
        yield from self._expect(self._pipes[0], REFS)

    def scan(self) -> Iterator[SessionRef]:
        return self.read_refs("stamped")

    def request_sessions(self, refs: Iterable[tuple[SessionRef, bool]]) -> None:
        """Ask for these sessions in this order.

        Each comes with whether the store has no entry of it. Then the process derives the rows as well. Sessions whose
        ids begin alike are read by one process: a sub-agent needs to know its parent.
        """
        pipe_by_family: dict[str, Connection] = {}
        next_pipe = cycle(self._pipes)
        for ref, is_new in refs:
            family = _name_family(ref.native_id)
            pipe = pipe_by_family.get(family) or pipe_by_family.setdefault(family, next(next_pipe))
            self._pipe_by_id[ref.native_id] = pipe
            self._unread[pipe].setdefault(ref.native_id, (ref, is_new))
        for pipe, sessions in self._unread.items():
            with suppress(BrokenPipeError):  # the process has ended; receiving from it will report why
                pipe.send(sessions)

    def prioritize(self, native_id: str) -> None:
        """Ask for a session before the others, unless it was read already."""
        if native_id in self._pipe_by_id:
            with suppress(BrokenPipeError):  # the process has read everything and ended
                self._pipe_by_id[native_id].send(native_id)

    def read_sessions(self) -> Iterator[tuple[SessionRef, Iterator[Batch]]]:
        """Yield the requested sessions with their batches, in the order in which they arrive."""
        reading = list(self._pipes)
        while reading:
            if self._idle and (helper := self._ask_for_help(reading, self._idle)) is not None:
                reading.append(helper)
            pipe = self._next_pipe(reading)
            kind, value = self._receive(pipe)
            if kind == KNOWLEDGE:
                self._add_knowledge(value, is_first=pipe is self._pipes[0])
                reading.remove(pipe)
                self._pass_on(pipe, ())
                if self._idle is not None:
                    self._idle.append(pipe)
            elif kind == HANDED_OVER:
                self._pass_on(pipe, value)
            elif kind == SESSION_BEGIN:
                self._unread[pipe].pop(value.native_id, None)
                batches = self._read_batches(pipe)
                yield value, batches
                with suppress(Unreadable):
                    for _ in batches:
                        pass  # skip the batches that the caller did not take
            else:
                raise _unexpected_message()

    def _ask_for_help(self, reading: Sequence[Connection], idle: deque[Connection]) -> Connection | None:
        """Let an idle process open the archive, and the busiest one hand sessions over to it. Return the idle one, or
        None if too little is left."""
        busiest = max(reading, key=lambda pipe: len(self._unread[pipe]))
        if busiest in self._helpers or len(self._unread[busiest]) < MIN_LEFT_TO_SHARE:
            return None
        helper = idle.popleft()
        if self._job is None or not send_job(helper, self._job):
            return None  # it has ended
        start_scan(helper, "none")
        with suppress(OSError):  # the process has ended; receiving from it will report why
            busiest.send(HAND_OVER)
        self._helpers[busiest] = helper
        self._received[helper], self._unread[helper] = deque(), {}
        return helper

    def _pass_on(self, pipe: Connection, native_ids: Iterable[str]) -> None:
        """Request the sessions that a process handed over from its helper, if it has one."""
        if (helper := self._helpers.pop(pipe, None)) is None:
            return
        unread = self._unread[pipe]
        self._unread[helper] = sessions = {native_id: unread.pop(native_id) for native_id in native_ids}
        self._pipe_by_id |= dict.fromkeys(sessions, helper)
        with suppress(BrokenPipeError):  # the process has ended; receiving from it will report why
            helper.send(sessions)

    def _next_pipe(self, reading: list[Connection]) -> Connection:
        """Return a process that has sent something. The rest of a message comes before the message of another one."""
        for pipe in reading:
            if self._received[pipe]:
                return pipe
        ready = wait(reading) if len(reading) > 1 else reading
        # The process that was read last goes to the end, so that all of them have their turn.
        pipe = next(pipe for pipe in reading if pipe in ready)
        reading.remove(pipe)
        reading.append(pipe)
        return pipe

    def _read_batches(self, pipe: Connection) -> Iterator[Batch]:
        while True:
            kind, value = self._receive(pipe)
            if kind == SESSION_END:
                return
            if kind == SESSION_FAILED:
                raise Unreadable(value)
            yield value

    def _add_knowledge(self, value: tuple[Any, Any, Any, list[Problem]], *, is_first: bool) -> None:
        *lists, problems = value
        if is_first:
            self._knowledge = (lists[0], lists[1], lists[2])
        self.problems += [problem for problem in problems if problem not in self.problems]

    def facts(self) -> Iterable[ForeignFact]:
        return self._knowledge[0]

    def secrets(self) -> Iterable[ForeignSecret]:
        return self._knowledge[1]

    def published(self) -> Iterable[ForeignFile]:
        return self._knowledge[2]

    def _expect(self, pipe: Connection, expected: str) -> Any:
        kind, value = self._receive(pipe)
        if kind != expected:
            raise _unexpected_message()
        return value

    def _receive(self, pipe: Connection) -> tuple[str, Any]:
        received = self._received[pipe]
        try:
            if not received:
                received.extend(pipe.recv())
        except (EOFError, OSError):
            raise Unreadable("The reader process crashed. The file may be damaged.") from None
        kind, value = received.popleft()
        if kind == STORE_FAILED:
            reason, is_busy = value
            raise Busy(reason) if is_busy else Unreadable(reason)
        return kind, value


def _name_family(native_id: str) -> str:
    """Return what the ids of a session and of its branches and sub-agents have in common."""
    return native_id.partition("/")[0]


def _unexpected_message() -> Unreadable:
    return Unreadable("The reader process sent an unexpected message. Run the sync again.")


# ── in the child process ──────────────────────────────────────────────────────────────────────────


def serve_store(pipe: Connection, sender: ThreadedSender, name: str, address: str, mode: ScanMode) -> None:
    """Scan a foreign store, then send those of its sessions that are requested."""
    source = sources.load_source(name)
    if source is None:
        return
    batch_sender = _BatchSender(sender)
    # A damaged database may crash this process, so each of its sessions is sent as soon as it is read.
    is_folder = os.path.isdir(address)
    try:
        with source.open(address) as reader:
            if mode != "none":
                sender.send((REFS, list(scan_refs(reader, mode))))
            for ref, is_new, is_prioritized in iter_prioritized(pipe, pipe.recv(), batch_sender.hand_over):
                batch_sender.send_session(ref, reader.read(ref), is_new)
                for branch in reader.find_branches_read(ref) if mode in ("files", "none") else ():
                    batch_sender.send_session(branch, reader.read_branch(branch), is_new)
                if is_prioritized or not is_folder:
                    batch_sender.flush()
            knowledge = (list(reader.facts()), list(reader.secrets()), list(reader.published()))
            batch_sender.add(KNOWLEDGE, (*knowledge, reader.problems))
    except (StoreError, *SQLITE_ERRORS) as reason:
        batch_sender.add(STORE_FAILED, (str(reason), isinstance(reason, Busy)))
    batch_sender.flush()


def iter_prioritized(
    pipe: Connection, waiting: dict[str, tuple[SessionRef, bool]], hand_over: Callable[[list[str]], None]
) -> Iterator[tuple[SessionRef, bool, bool]]:
    """Yield the sessions in their order, but first those that the parent asks for meanwhile.

    The last value says whether the session was asked for. Half of the sessions are handed over if the parent wants it.
    """
    while waiting:
        while pipe.poll():
            message = pipe.recv()
            if message is HAND_OVER:
                hand_over(_take_half(waiting))
            elif (prioritized := waiting.pop(message, None)) is not None:
                yield *prioritized, True
        if waiting:
            yield *waiting.pop(next(iter(waiting))), False


def _take_half(waiting: dict[str, tuple[SessionRef, bool]]) -> list[str]:
    """Remove the oldest half of the sessions, and return their ids. Sessions that belong together stay together."""
    families = list(dict.fromkeys(map(_name_family, waiting)))
    oldest = set(families[(len(families) + 1) // 2 :])
    taken = [native_id for native_id in waiting if _name_family(native_id) in oldest]
    for native_id in taken:
        del waiting[native_id]
    return taken


class _BatchSender:
    """Collects several small sessions, or a piece of a large one, and sends them as one message with one block."""

    def __init__(self, sender: ThreadedSender) -> None:
        self._sender = sender
        self._block_builder = BlockBuilder()
        self._messages: list[tuple[str, Any]] = []
        self._unblocked_bytes = 0
        "Counts the bytes of records that are in no block."

    def send_session(self, ref: SessionRef, batches: Iterable[Batch], is_new: bool) -> None:
        self.add(SESSION_BEGIN, ref)
        try:
            for batch in batches:
                if is_new:
                    batch.derived_rows, batch.entries = self._block_builder.add(derive_rows(batch.entries)), []
                else:
                    self._unblocked_bytes += sum(len(entry.record.data) for entry in batch.entries if entry.record)
                self.add(BATCH, batch)
        except (StoreError, *SQLITE_ERRORS) as reason:
            self.add(SESSION_FAILED, str(reason))
        else:
            self.add(SESSION_END, None)

    def hand_over(self, native_ids: list[str]) -> None:
        """Leave sessions to another process, which waits for the answer."""
        self.add(HANDED_OVER, native_ids)
        self.flush()

    def add(self, kind: str, value: Any) -> None:
        self._messages.append((kind, value))
        if self._block_builder.size + self._unblocked_bytes >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        self._block_builder.finish_block()
        self._sender.send(*self._messages)
        self._messages, self._unblocked_bytes = [], 0
