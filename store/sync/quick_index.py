"""The first pass over a large archive: a row and the words of every session, within seconds.

Sessions of which only these are known are listed and found until they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

from store import sources
from store.search.quick_index import QuickIndexRow
from store.sources.contract import QuickSession, Source
from store.sources.kit.locator import parse_location
from store.sync.child_process import Job, ReaderProcesses, ThreadedSender, is_large, send_job, wait_until_ready
from store.sync.tuning import lower_import_priority

FIRST_BATCH_SESSIONS = 40
"""The first batch holds the newest sessions, a few more than the list shows, so that it comes immediately."""

BATCH_CHARACTERS = 1_000_000
"""Later batches hold this much text, which is worth a commit."""

_ROWS, _END = "rows", "end"


def prepare_readers(processes: ReaderProcesses) -> None:
    """Let processes begin with the largest archives of this machine before the store for them is created.

    Until then they send nothing that must be stored, and a new store knows no session that they could skip.
    """
    jobs: list[Job] = []
    for source in filter(None, map(sources.load_source, sources.LARGEST_SOURCES)):
        for address in (parse_location(root).address for root in source.roots()):
            if is_large(Path(address), is_first_import=True):
                # This loads the modules that forked processes need. It reads nothing yet.
                iter(source.quick_read(address, set()))
                jobs.append((source.name, address, set()))
    processes.prepare(jobs)


class QuickScan:
    """Reads one archive quickly in a process of its own, which can then read its sessions."""

    def __init__(self, source: Source, address: str, known_ids: Set[str], processes: ReaderProcesses) -> None:
        self._source = source
        self._address = address
        self._known_ids = known_ids
        self._is_ready = False
        prepared = None if known_ids else processes.take(source.name, address)
        self._is_prepared = prepared is not None
        self.pipe = prepared or processes.start()
        "Leads to the process, until that has stopped. Is None if no process could be started."

    def start(self, *, reads_newest: bool) -> list[QuickIndexRow]:
        """Let the process begin. While it is still loading, the newest sessions can be read here, and are returned."""
        newest: list[QuickIndexRow] = []
        if self._is_prepared:
            return newest
        if self.pipe is not None and self.pipe.poll():
            self._become_ready()
        if self.pipe is None or (reads_newest and not self._is_ready):
            sessions = iter(self._source.quick_read(self._address, self._known_ids))
            newest = [QuickIndexRow(session) for session in islice(sessions, FIRST_BATCH_SESSIONS)]
        if self.pipe is not None:
            known_ids = {*self._known_ids, *(row.native_id for row in newest)}
            send_job(self.pipe, (self._source.name, self._address, known_ids))
        return newest

    def receive_rows(self) -> Sequence[QuickIndexRow] | None:
        """Return the next rows from the process, which may be none yet, or None at the end."""
        if not self._is_ready:
            return () if self._become_ready() else None
        try:
            ((kind, rows),) = self.pipe.recv() if self.pipe else ((_END, None),)
        except (EOFError, OSError):
            self.pipe = None  # the process has stopped; reading the sessions will report why
            return None
        return cast("Sequence[QuickIndexRow]", rows) if kind == _ROWS else None

    def _become_ready(self) -> bool:
        self._is_ready = self.pipe is not None and wait_until_ready(self.pipe)
        self.pipe = self.pipe if self._is_ready else None
        return self._is_ready


def serve(pipe: Connection) -> None:
    """Serve the parent in a child process, one store after the other, until the parent closes the pipe."""
    with suppress(EOFError, OSError):
        sender = ThreadedSender(pipe)
        try:
            while True:
                _serve_store(pipe, sender, _receive_job(pipe))
        finally:
            sender.finish()


def _receive_job(pipe: Connection) -> Job:
    while not isinstance(message := pipe.recv(), tuple):
        pass  # a request about the store before, which came too late
    name, address, known_ids = message
    return name, address, known_ids


def _serve_store(pipe: Connection, sender: ThreadedSender, job: Job) -> None:
    """Read a store quickly, then read the sessions that are requested. Without known ids, there is no quick read."""
    name, address, known_ids = job
    source = sources.load_source(name)
    if source is not None and known_ids is not None:
        for rows in _batch_rows(iter(source.quick_read(address, known_ids))):
            sender.send((_ROWS, rows))
        sender.send((_END, None))
    lower_import_priority()
    mode = pipe.recv()
    # Loading this any earlier would delay the quick read of another archive.
    from store.sync.reader_process import serve_store

    serve_store(pipe, sender, name, address, mode)


def _batch_rows(sessions: Iterator[QuickSession]) -> Iterator[list[QuickIndexRow]]:
    yield [QuickIndexRow(session) for session in islice(sessions, FIRST_BATCH_SESSIONS)]
    rows: list[QuickIndexRow] = []
    characters = 0
    for session in sessions:
        rows.append(QuickIndexRow(session))
        characters += len(rows[-1].text)
        if characters >= BATCH_CHARACTERS:
            yield rows
            rows, characters = [], 0
    yield rows
