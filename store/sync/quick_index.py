"""The first pass over a large archive: a row and the words of every session, within seconds.

Sessions of which only these are known are listed and found until they are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection

from store import sources
from store.search.quick_index import QuickIndexRow
from store.sources.contract import QuickSession, Source
from store.sync.child_process import ReaderProcesses, ThreadedSender, send_job, wait_until_ready
from store.sync.reader_process import serve_store

FIRST_BATCH_SESSIONS = 40
"""The first batch holds the newest sessions, a few more than the list shows, so that it comes immediately."""

BATCH_CHARACTERS = 1_000_000
"""Later batches hold this much text, which is worth a commit."""

_ROWS, _END = "rows", "end"


class QuickScan:
    """Reads one archive quickly in a process of its own, which can then read its sessions."""

    def __init__(self, source: Source, address: str, processes: ReaderProcesses) -> None:
        self._source = source
        self._address = address
        self._processes = processes
        self.reader_pipe: Connection | None = None
        "Leads to the process, once that has finished the quick read."

    def read_rows(self, known_ids: Set[str], *, inline: bool) -> Iterator[Sequence[QuickIndexRow]]:
        """Yield rows of the sessions that are not known, in batches, newest first.

        Inline: the first batch is read in this process, while the child process is still loading.
        """
        process = self._processes.start("quick_index")
        first = FIRST_BATCH_SESSIONS if inline else 0
        newest = [QuickIndexRow(session) for session in islice(self._quick_read(known_ids), first)]
        if process is not None:
            send_job(process, (self._source.name, self._address, {*known_ids, *(row.native_id for row in newest)}))
        if newest:
            yield newest
        if process is not None and wait_until_ready(process):
            with suppress(EOFError, OSError):  # the process stopped; reading the sessions will report why
                while _END not in (message := dict(process.recv())):
                    yield message[_ROWS]
                self.reader_pipe = process

    def _quick_read(self, known_ids: Set[str]) -> Iterator[QuickSession]:
        return iter(self._source.quick_read(self._address, known_ids))


def serve(pipe: Connection) -> None:
    """Do a quick read in a child process, then wait for the request to read the sessions themselves."""
    sender = ThreadedSender(pipe)
    with suppress(EOFError, BrokenPipeError):  # the parent has closed the pipe
        name, address, known_ids = pipe.recv()
        source = sources.load_source(name)
        if source is not None:
            for rows in _batch_rows(iter(source.quick_read(address, known_ids))):
                sender.send((_ROWS, rows))
        sender.send((_END, None))
        serve_store(pipe, sender, name, address)
    sender.finish()


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
